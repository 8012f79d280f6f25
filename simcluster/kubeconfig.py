"""A kubeconfig for kubectl and the Python client: plain HTTP on loopback, and a token."""

import json
import os
from pathlib import Path
from urllib.parse import quote

NAME = "simcluster"


def kubeconfig(url: str, token: str) -> str:
    """The text of a kubeconfig; JSON, which is YAML too.

    The token stands in the address as well: kubectl leaves a user's token out over plain HTTP.
    """
    server = url.replace("://", f"://{NAME}:{quote(token, safe='')}@", 1)
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [
            {"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}
        ],
        "current-context": NAME,
    }
    return json.dumps(value, indent=2) + "\n"


def write_kubeconfig(path: Path, *, url: str, token: str) -> None:
    """Write the file whole, readable by its owner only."""
    draft = path.with_name(f".{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(kubeconfig(url, token))
    draft.replace(path)
