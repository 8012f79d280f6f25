import subprocess

import pytest

from tests.kube.controlplane import build
from tests.kube.install.rendering import DEPLOY, Helm, objects


@pytest.fixture(scope="session")
def helm(control_plane_programs):
    """Helm itself; it shares what is compiled with the programs of the control plane."""
    try:
        return Helm(build.ensure_helm(print))
    except build.CannotBuild as error:
        reason = str(error)
    pytest.fail(f"Helm cannot be built: {reason}", pytrace=False)


@pytest.fixture(scope="session")
def kustomize(control_plane_programs):
    """What kubectl builds of an overlay, as objects."""

    def kustomize(name):
        command = [*control_plane_programs.command("kubectl"), "kustomize"]
        done = subprocess.run(
            [*command, DEPLOY / "kustomize" / "overlays" / name],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return objects(done.stdout)

    return kustomize
