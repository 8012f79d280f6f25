"""Kubeconfigs that people paste: checked, cut down to what we need, and kept in files.

They are secrets and stay out of the database, whose copies travel. What one of them may say is
little: nothing in it can start a program here, read one of our files, or turn off the check of
whom we talk to.
"""

import ipaddress
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from portal.core.errors import Refused
from topology.layouts.documents import read_document
from topology.layouts.faults import RefusedError

MOST_CHARACTERS = 64 * 1024
FIELD = "kubeconfig"
_CLUSTER_TEXTS = ("server", "certificate-authority-data", "tls-server-name")
_USER_TEXTS = ("token", "client-certificate-data", "client-key-data")


def kept_path(slug: str) -> Path:
    """Where the kubeconfig of the cluster of that name lies, if one was pasted."""
    return Path(settings.DATA_DIR).resolve() / "kubeconfigs" / f"{slug}.json"


def write_draft(slug: str, text: str) -> Path:
    """A pasted kubeconfig in a file of its own, to be tried; then `keep_draft` or unlink it.

    Refused, with the reason, for what is none or says what it may not, or cannot be kept here.
    """
    kept = kept_path(slug)
    draft = kept.with_name(f".{slug}-{secrets.token_hex(8)}.draft")
    said = json.dumps(cut_down(text))
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise _refused(
            _("Muster cannot keep it in %(folder)s. Mount it as a file, and give its path.")
            % {"folder": kept.parent}
        ) from error
    with os.fdopen(descriptor, "w") as file:
        file.write(said)
    return draft


def keep_draft(draft: Path, slug: str) -> Path:
    """The draft in the place of the cluster's kubeconfig; connections are made anew by it."""
    return draft.replace(kept_path(slug))


def cut_down(text: str) -> dict[str, Any]:
    """The current context of a kubeconfig and no more. Refused, with the reason."""
    if len(text) > MOST_CHARACTERS:
        raise _refused(_("A kubeconfig has %d characters at most.") % MOST_CHARACTERS)
    try:
        said = read_document(text)
    except RefusedError as error:
        raise _refused(_("This is no YAML. Paste the whole file, with its spaces.")) from error
    if not isinstance(said, dict):
        raise _refused(_("This is no kubeconfig: it has no clusters and users."))
    context = _entry(said, "contexts", said.get("current-context"), "context")
    cluster = _entry(said, "clusters", context.get("cluster"), "cluster")
    user = _entry(said, "users", context.get("user"), "user")
    _check_user(user)
    _check_cluster(cluster)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": _texts(cluster, _CLUSTER_TEXTS)}],
        "users": [{"name": "us", "user": _texts(user, _USER_TEXTS)}],
        "contexts": [{"name": "now", "context": {"cluster": "it", "user": "us"}}],
        "current-context": "now",
    }


def _entry(said: dict[str, Any], kind: str, name: object, inner: str) -> dict[str, Any]:
    """What stands under one name in one of the lists of a kubeconfig."""
    entries = said.get(kind)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(inner)
            return found if isinstance(found, dict) else {}
    raise _refused(
        _("The kubeconfig names no %(kind)s for its current context.") % {"kind": kind[:-1]}
    )


def _check_user(user: dict[str, Any]) -> None:
    if "exec" in user or "auth-provider" in user:
        raise _refused(
            _(
                "This kubeconfig starts a program to sign in, which is not done here. Make one "
                "with the token of a service account."
            )
        )
    if {"tokenFile", "client-certificate", "client-key"} & user.keys():
        raise _by_file()
    if not (
        _is_token(user.get("token"))
        or {"client-certificate-data", "client-key-data"} <= user.keys()
    ):
        raise _refused(_("This kubeconfig has neither a token nor a client certificate in it."))


def _is_token(said: object) -> bool:
    """Whether it can be sent in a header, apart from blanks around it."""
    return bool(re.fullmatch(r"[!-~]+", str(said or "").strip()))


def _check_cluster(cluster: dict[str, Any]) -> None:
    if "certificate-authority" in cluster:
        raise _by_file()
    if cluster.get("proxy-url"):
        raise _refused(_("This kubeconfig leads through a proxy, which is not done here."))
    address = str(cluster.get("server") or "")
    if cluster.get("insecure-skip-tls-verify"):
        raise _refused(
            _(
                "This kubeconfig does not check whom it talks to. Give the cluster's "
                "certificate as certificate-authority-data instead."
            )
        )
    if not _is_safe(address):
        raise _refused(_("The server's address must begin with https://."))


def _is_safe(address: str) -> bool:
    """Whether what is sent there can be read by nobody else: TLS, or this very machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        return parts.scheme == "http" and ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _texts(said: dict[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    return {name: str(said[name]).strip() for name in names if said.get(name)}


def _by_file() -> Refused:
    return _refused(
        _(
            "This kubeconfig names files that are on your machine. Paste what "
            "“kubectl config view --raw --flatten --minify” prints."
        )
    )


def _refused(message: str) -> Refused:
    return Refused(message, field=FIELD)
