"""How the programs of the control plane come about, with a Go that only says that it has built."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube.controlplane import build
from tests.kube.polling import eventually
from tests.processes import is_running

GO = """#!/bin/sh
case "$1" in
    env) echo go{version} ;;
    version) echo go version go{version} linux/amd64 ;;
    build)
        echo "$$ $PWD" >>{folder}/built
        {does}
        while [ "$1" != -o ]; do shift; done
        echo program >"$2" ;;
esac
"""


class Machine:
    """A folder for everything, and what was built in it."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        self.set_go()

    def set_go(self, *, version="1.26.1", does=":"):
        go = self.folder / "bin" / "go"
        go.write_text(GO.format(version=version, does=does, folder=self.folder))
        go.chmod(0o755)

    def builds(self):
        """The process and the folder of each build so far."""
        file = self.folder / "built"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(line.split()[0]), Path(line.split()[1]).name) for line in lines]

    def names(self):
        return [name for _, name in self.builds()]

    def assets(self, *names):
        folder = self.folder / "assets"
        folder.mkdir()
        for name in names:
            (folder / name).touch(mode=0o755)
        return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return Machine(tmp_path)


def said(text):
    """Nobody listens."""


def test_what_is_there_is_not_built_again(machine):
    first = build.ensure_built(said)
    second = build.ensure_built(said)

    assert machine.names() == ["kwok", "servers"]
    assert first == second
    assert first.command("etcd") == (str(first.servers), "etcd")
    assert first.kwok.read_text() == "program\n"


def test_helm_is_built_once_and_apart(machine):
    servers = build.ensure_built(said).servers
    first, second = build.ensure_helm(said), build.ensure_helm(said)

    assert machine.names() == ["kwok", "servers", "helm"]
    assert first == second
    assert first.parent != servers.parent


def test_another_go_builds_anew(machine):
    build.ensure_built(said)
    machine.set_go(version="1.27.0")
    build.ensure_built(said)

    assert machine.names() == ["kwok", "servers", "kwok", "servers"]


def test_a_build_that_fails_says_why_and_leaves_nothing(machine):
    machine.set_go(does="echo the proxy is away; exit 1")

    with pytest.raises(build.CannotBuild, match=r"(?s)go build.*failed with 1.*the proxy is away"):
        build.ensure_built(said)

    assert [path.name for path in build.cache_folder().glob("*/*")] == ["lock"]


def test_servers_that_are_given_are_not_built(machine, monkeypatch):
    assets = machine.assets(*build.SERVERS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    programs = build.ensure_built(said)

    assert machine.names() == ["kwok"]
    assert programs.command("etcd") == (str(assets / "etcd"),)


def test_given_servers_that_lack_one_do_not_count(machine, monkeypatch):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine.assets("etcd", "kube-apiserver")))

    build.ensure_built(said)

    assert machine.names() == ["kwok", "servers"]


def test_where_no_home_can_be_written_the_checkout_keeps_them(machine, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/proc/nobody")

    assert build.cache_folder() == build.ROOT / ".data" / "controlplane"


def test_a_home_that_is_not_said_is_looked_up(machine, monkeypatch):
    monkeypatch.delenv("HOME")
    machine.set_go(does=f'echo "$HOME" >>{machine.folder}/homes')

    build.ensure_built(said)

    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert (machine.folder / "homes").read_text().splitlines() == [home, home]


def test_a_build_ends_with_whoever_started_it(machine):
    machine.set_go(does="sleep 60")
    starter = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} {build.__file__} & echo $!; wait"],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    builder = int(starter.stdout.readline())
    [(go, _)] = eventually(machine.builds)

    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()

    eventually(lambda: not is_running(go) and not is_running(builder))
