"""A cluster that is connected to look only: no write leaves the gateway."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.core.management import CommandError, call_command

from portal.core.errors import PortalError
from simcluster.kubeconfig import write_kubeconfig
from tests.factories import ClusterFactory
from topology.kube.gateway import Gateway
from topology.kube.live import connect
from topology.kube.tenancy import priority_classes
from topology.kube.values import (
    GangKey,
    GangSpec,
    LogAsked,
    MemberRelease,
    MemberSeen,
    PodGroupSpec,
    RendezvousSpec,
    TenancySpec,
)
from topology.kube.wire import REVIEW
from topology.services.reach import gateway_to

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
KEY = GangKey(namespace="muster-nlp", job="j-1", group="main", attempt=1)
SPEC = GangSpec(namespace="muster-nlp", job="j-1", group="main", attempt=1, members=1)
TENANCY = TenancySpec(tenant="nlp", namespace="muster-nlp", gpus=8)
MEETING = RendezvousSpec(namespace="muster-nlp", job="j-1", owners={"j-1-main": "u"})
POD_GROUP = PodGroupSpec(
    namespace="muster-nlp", job="j-1", attempt=1, least=2, owners={"j-1-main": "u"}
)
RELEASE = MemberRelease(
    namespace="muster-nlp", pod_name="a", pod_uid="u", node="n", attempt=1, devices=("0",)
)
LOG = LogAsked(namespace="muster-nlp", pod_name="a", lines=1, most=10)
MEMBER = MemberSeen(
    namespace="muster-nlp",
    job="j-1",
    group="main",
    attempt=1,
    rank=0,
    pod_name="a",
    pod_uid="u",
    version=1,
    phase="running",
)
LIMITS = {"ends_at": NOON, "wall_at": NOON}
# Every method of a gateway, with what it is called with; keywords come last.
ASKED = {
    "has_tenancy": ("muster-nlp",),
    "tenancy_drift": (TENANCY,),
    "keep_tenancy": (TENANCY,),
    "drift": (priority_classes(),),
    "apply": (priority_classes(),),
    "missing_policies": (),
    "ensure_gang": (SPEC,),
    "ensure_all": ((SPEC,),),
    "ensure_rendezvous": (MEETING,),
    "ensure_pod_group": (POD_GROUP,),
    "ease_pod_group": ("muster-nlp", "j-1"),
    "open_gang": (KEY,),
    "limit_gang": (KEY, LIMITS),
    "log": (LOG,),
    "remove_member": (MEMBER,),
    "scale_gang": (KEY, 2),
    "gated_members": (KEY,),
    "release": (RELEASE,),
    "release_all": ((RELEASE,),),
    "suspend_gang": (KEY,),
    "delete_gang": (KEY,),
    "gangs": (),
    "members": (),
    "members_of": ((KEY,),),
    "nodes": (),
}
# What an API server could be asked for any of them: an object, and a list of none.
ANSWER = {"metadata": {"name": "a", "uid": "u"}, "spec": {}, "items": []}


@pytest.fixture
def heard(tmp_path):
    """The methods of all requests that reach a server, and a kubeconfig that leads to it."""
    methods = []

    class Listener(BaseHTTPRequestHandler):
        def answer(self):
            path = self.path.partition("?")[0]
            methods.append(path if path == REVIEW else self.command)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(ANSWER).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, url=f"http://127.0.0.1:{server.server_port}", token="t")
    yield str(path), methods
    server.shutdown()
    thread.join()
    server.server_close()


def ask_all(gateway):
    """Ask for everything that a gateway does; the names of what was refused."""
    refused = []
    for name, said in ASKED.items():
        arguments = [each for each in said if each is not LIMITS]
        keywords = LIMITS if LIMITS in said else {}
        try:
            if getattr(gateway, name)(*arguments, **keywords) not in ((), None, False, True):
                refused.append(name)
        except PortalError:
            refused.append(name)
    return refused


def test_every_method_of_a_gateway_is_asked():
    methods = {name for name in vars(Gateway) if not name.startswith("_")}

    assert set(ASKED) == methods


def test_nothing_but_questions_reaches_a_cluster_that_is_looked_at(heard):
    path, methods = heard

    refused = ask_all(connect(path, writes=False))

    assert set(methods) == {"GET"}
    assert {"keep_tenancy", "apply", "ensure_gang", "open_gang", "release_all"} <= set(refused)


def test_the_same_calls_write_where_that_is_allowed(heard):
    path, methods = heard

    ask_all(connect(path))

    assert {"POST", "PATCH", "DELETE"} <= set(methods)


@pytest.mark.django_db
@pytest.mark.parametrize("is_writable", [False, True])
def test_the_access_of_a_cluster_decides(heard, is_writable):
    path, methods = heard
    cluster = ClusterFactory(kubeconfig_path=path, is_writable=is_writable)

    ask_all(gateway_to(cluster))

    assert (set(methods) == {"GET"}) == (not is_writable)


@pytest.mark.django_db
def test_looking_for_software_and_rights_changes_nothing_and_names_what_is_missing(heard, capsys):
    path, methods = heard  # no answer of that server allows anything
    ClusterFactory(slug="lab", kubeconfig_path=path, is_writable=False)

    with pytest.raises(CommandError, match="cluster_access"):
        call_command("stack_check", "lab")

    assert set(methods) == {"GET", REVIEW}
    assert "missing right to look: list nodes\n" in capsys.readouterr().out
