"""A Kubernetes control plane on loopback, as long as a block or a test run lasts."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGKILL

from portal.embedded import ports
from portal.embedded.programs import CannotStart, Program, spawn, stop, wait_until_ready
from tests.kube.controlplane.api import Api
from tests.kube.controlplane.build import Programs
from tests.kube.controlplane.kubelets import stages
from tests.kube.polling import eventually

# Besides what is on by default: gangs of Kubernetes' own.
FEATURE_GATES = "GenericWorkload=true"
ADMIN = "admin"
_USERS = {  # name: group
    ADMIN: "system:masters",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
    "kwok": "system:masters",
}
_GPUS, _CPUS, _MEMORY, _PODS = "8", "64", "512Gi", "110"
_TRIES = 3  # somebody else may take a port between our choice and the server's
# No kubelet but ours beats; ours does so seldom, and a slow test machine is not a lost node.
_GRACE = "24h"


@dataclass(frozen=True)
class ControlPlane:
    """A cluster that answers at `url`; kubeconfigs, certificates and logs lie in `folder`.

    etcd: where its store answers, to whoever is on this machine.
    """

    url: str
    etcd: str
    folder: Path
    programs: Programs
    tokens: dict[str, str]

    @property
    def api(self) -> Api:
        """The API, as somebody who may do everything."""
        return Api(self.url, self.tokens[ADMIN], _certificate(self.folder))

    def kubeconfig(self, user: str = ADMIN) -> Path:
        return self.folder / f"{user.removeprefix('system:')}.kubeconfig"

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """What kubectl prints when it is given `text` to read; its complaint if it fails."""
        command = [*self.programs.command("kubectl"), f"--kubeconfig={self.kubeconfig()}"]
        done = subprocess.run(
            [*command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            env={"HOME": str(self.folder)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add_nodes(self, *names: str, gpus: str = _GPUS, labels=None, taints=()) -> None:
        """Make nodes of 64 cores and 512 GiB, and return once they have a kubelet each."""
        room = {"nvidia.com/gpu": gpus, "cpu": _CPUS, "memory": _MEMORY, "pods": _PODS}
        for name in names:
            known = {"kubernetes.io/hostname": name, **(labels or {})}
            node = {
                "metadata": {"name": name, "labels": known},
                "spec": {"taints": list(taints)},
                "status": {"capacity": room, "allocatable": room},
            }
            self.api.create("/api/v1/nodes", node)
        for name in names:
            eventually(partial(self._is_ready, name, list(taints)))

    def _is_ready(self, name: str, taints: list) -> bool:
        node = self.api.get(f"/api/v1/nodes/{name}")
        said = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
        return said.get("Ready") == "True" and node["spec"].get("taints", []) == taints

    def remove_nodes(self, *names: str) -> None:
        for name in names:
            self.api.delete(f"/api/v1/nodes/{name}")


@contextmanager
def running_control_plane(folder: Path, programs: Programs) -> Iterator[ControlPlane]:
    """A control plane with its data in `folder`, which must be empty; no node is in it."""
    for attempt in range(_TRIES):
        with ExitStack() as throughout:
            try:
                plane = _start(folder / str(attempt), programs, throughout)
            except CannotStart as error:
                if attempt == _TRIES - 1 or "address already in use" not in str(error):
                    raise
            else:
                yield plane
                return


def _start(folder: Path, programs: Programs, throughout: ExitStack) -> ControlPlane:
    """The servers in their order, each ended with the stack; the last one is up, and usable."""
    folder.mkdir(parents=True)
    etcd, peer, secure = ports.any_free(), ports.any_free(), ports.any_free()
    url, store = f"https://{ports.HOST}:{secure}", f"http://{ports.HOST}:{etcd}"
    tokens = {user: secrets.token_hex(16) for user in _USERS}
    plane = ControlPlane(url, store, folder, programs, tokens)
    _write_credentials(plane)

    def run(name: str, *flags: str, command=None, ready=lambda: True) -> None:
        program = Program(
            name=name,
            argv=(*(command or programs.command(name)), *flags),
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
            cwd=folder,
            log=folder / f"{name}.log",
            ready=ready,
            on_parent_death=SIGKILL,  # nothing of it is wanted afterwards
        )
        process = spawn(program)
        throughout.callback(stop, process, by=SIGKILL)
        wait_until_ready(process, program, within=120)

    health = f"{store}/health"
    run("etcd", *_etcd_flags(plane, peer), ready=partial(ports.answers, health))
    run("kube-apiserver", *_apiserver_flags(plane, secure), ready=partial(_is_up, plane))
    run("kube-controller-manager", *_controller_flags(plane))
    run("kube-scheduler", *_scheduler_flags(plane))
    run("kwok", *_kubelet_flags(plane), command=(str(programs.kwok),))
    eventually(partial(_is_usable, plane), within=60)
    return plane


def _is_up(plane: ControlPlane) -> bool:
    try:
        return plane.api.code_of("/readyz") == 200
    except OSError:  # it does not listen yet, or has not made its certificate
        return False


def _is_usable(plane: ControlPlane) -> bool:
    """Pods can be made once their namespace has its service account."""
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    return plane.api.ask("GET", account)[0] == 200


def _certificate(folder: Path) -> Path:
    return folder / "certificates" / "apiserver.crt"


def _write_credentials(plane: ControlPlane) -> None:
    folder = plane.folder
    lines = [f'{plane.tokens[user]},{user},{user},"{group}"' for user, group in _USERS.items()]
    _write(folder / "tokens.csv", "\n".join(lines))
    for user in _USERS:
        _write(plane.kubeconfig(user), json.dumps(_kubeconfig(plane, user)))
    try:
        subprocess.run(
            ["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"],
            capture_output=True,
            check=True,
        )
    except OSError as error:
        raise CannotStart(
            "openssl, which makes the key for service accounts, is missing"
        ) from error


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _kubeconfig(plane: ControlPlane, user: str) -> dict:
    """The certificate need not be there yet: the API server makes it when it starts."""
    cluster = {"server": plane.url, "certificate-authority": str(_certificate(plane.folder))}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": plane.tokens[user]}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    }


def _etcd_flags(plane: ControlPlane, peer: int) -> list[str]:
    others = f"http://{ports.HOST}:{peer}"
    return [
        "--name=test",
        f"--data-dir={plane.folder / 'etcd'}",
        f"--listen-client-urls={plane.etcd}",
        f"--advertise-client-urls={plane.etcd}",
        f"--listen-peer-urls={others}",
        f"--initial-advertise-peer-urls={others}",
        f"--initial-cluster=test={others}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _apiserver_flags(plane: ControlPlane, port: int) -> list[str]:
    folder, key = plane.folder, plane.folder / "accounts.key"
    return [
        f"--etcd-servers={plane.etcd}",
        f"--bind-address={ports.HOST}",
        f"--secure-port={port}",
        f"--cert-dir={_certificate(folder).parent}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--runtime-config=api/beta=true",
        f"--feature-gates={FEATURE_GATES}",
        "--max-requests-inflight=1000",
        "--max-mutating-requests-inflight=500",
        "--profiling=false",
        "--allow-privileged=true",  # as any cluster with GPUs: its drivers' pods need it
    ]


def _controller_flags(plane: ControlPlane) -> list[str]:
    return [
        f"--kubeconfig={plane.kubeconfig('system:kube-controller-manager')}",
        f"--service-account-private-key-file={plane.folder / 'accounts.key'}",
        f"--root-ca-file={_certificate(plane.folder)}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
        f"--node-monitor-grace-period={_GRACE}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        f"--feature-gates={FEATURE_GATES}",
    ]


def _scheduler_flags(plane: ControlPlane) -> list[str]:
    kubeconfig = str(plane.kubeconfig("system:kube-scheduler"))
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000},
    }
    file = plane.folder / "scheduler.json"
    _write(file, json.dumps(configuration))
    return [f"--config={file}", "--secure-port=0", f"--feature-gates={FEATURE_GATES}"]


def _kubelet_flags(plane: ControlPlane) -> list[str]:
    file = plane.folder / "kubelets.yaml"
    _write(file, "\n---\n".join(json.dumps(stage) for stage in stages()))
    return [
        f"--kubeconfig={plane.kubeconfig('kwok')}",
        f"--config={file}",
        "--manage-all-nodes=true",
        "--node-port=0",
    ]
