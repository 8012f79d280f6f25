"""Kubeconfigs that people paste: what is kept of them, and what is refused."""

import json
import stat

import pytest
import yaml

from portal.core.errors import Refused
from topology.services import kubeconfigs

CLUSTER = {"server": "https://10.0.0.1:6443", "certificate-authority-data": "Q0E="}
USER = {"token": "abc"}


def text(*, cluster=CLUSTER, user=USER, current="now"):
    others = {"name": "other", "user": {"token": "of somebody else"}}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [others, {"name": "me", "user": user}],
            "contexts": [{"name": "now", "context": {"cluster": "lab", "user": "me"}}],
            "current-context": current,
            "preferences": {"colors": True},
        }
    )


@pytest.fixture(autouse=True)
def _folder(settings, tmp_path):
    settings.DATA_DIR = tmp_path


def test_only_the_current_context_is_kept_in_a_file_for_us_alone(tmp_path):
    draft = kubeconfigs.write_draft("lab", text())
    kept = kubeconfigs.keep_draft(draft, "lab")

    said = json.loads(kept.read_text())
    assert (said["clusters"][0]["cluster"], said["users"][0]["user"]) == (CLUSTER, USER)
    assert "somebody else" not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert (kept, [*kept.parent.iterdir()]) == (tmp_path / "kubeconfigs" / "lab.json", [kept])


def test_the_end_of_a_line_that_was_pasted_with_a_token_is_not_of_it():
    assert kubeconfigs.cut_down(text(user={"token": "abc\n"}))["users"][0]["user"] == USER


def test_a_client_certificate_will_do_as_well():
    pair = {"client-certificate-data": "Q0E=", "client-key-data": "S0VZ"}

    assert kubeconfigs.cut_down(text(user=pair))["users"][0]["user"] == pair


@pytest.mark.parametrize(
    ("pasted", "why"),
    [
        ("", "no kubeconfig"),
        ("just words", "no kubeconfig"),
        ("a: [", "no YAML"),
        ("[" * 5000, "no YAML"),
        ("a: !!bool x", "no YAML"),
        (text().replace("https://10.0.0.1:6443", "&a [x, *a]"), "no YAML"),
        (text().replace("abc", r'"\0"'), "no YAML"),
        ("x" * 70_000, "65536 characters"),
        (text(current="gone"), "no context"),
        (text(user={"exec": {"command": "rm"}, "token": "a"}), "starts a program"),
        (text(user={"auth-provider": {"name": "gcp"}}), "starts a program"),
        (text(user={"tokenFile": "/etc/shadow"}), "files that are on your machine"),
        (text(user={"client-certificate": "/a", "client-key": "/b"}), "files that are on your"),
        (text(user={"username": "a", "password": "b"}), "neither a token"),
        (text(user={"client-certificate-data": "Q0E="}), "neither a token"),
        (text(user={"token": "abc\r\nX-Other: 1"}), "neither a token"),
        (text(user={"token": "abc\N{HORIZONTAL ELLIPSIS}"}), "neither a token"),
        (text(cluster={**CLUSTER, "certificate-authority": "/etc/x"}), "files that are on your"),
        (text(cluster={**CLUSTER, "insecure-skip-tls-verify": True}), "does not check"),
        (text(cluster={**CLUSTER, "proxy-url": "http://p"}), "proxy"),
        (text(cluster={"server": "http://10.0.0.1:8080"}), "https://"),
        (text(cluster={"server": "http://localhost.evil.example"}), "https://"),
        (text(cluster={"server": "file:///etc/passwd"}), "https://"),
        (text(cluster={"server": "http://[::1"}), "https://"),
        (text(cluster={}), "https://"),
        (text(cluster="none"), "https://"),
    ],
)
def test_what_will_not_do_is_refused_with_the_reason(pasted, why):
    with pytest.raises(Refused, match=why) as refusal:
        kubeconfigs.cut_down(pasted)

    assert refusal.value.field == "kubeconfig"


@pytest.mark.parametrize("server", ["https://lab.example:6443", "http://a:b@127.0.0.1:8001"])
def test_tls_or_this_very_machine_is_safe(server):
    said = kubeconfigs.cut_down(text(cluster={"server": server}))

    assert said["clusters"][0]["cluster"]["server"] == server


def test_where_nothing_can_be_kept_another_way_is_told(settings, tmp_path):
    (tmp_path / "file").write_text("no folder")
    settings.DATA_DIR = tmp_path / "file"

    with pytest.raises(Refused, match="give its path"):
        kubeconfigs.write_draft("lab", text())
