"""The tree that an installation's processes run in, told what its manifests tell them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.dockerfile import lay_out
from tests.deploy.manifests import environment


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """Runs a command in the image's tree, in an installation's environment."""
    tree = lay_out(tmp_path_factory.mktemp("image"))
    told = {
        **environment(),
        "MUSTER_ALIVE_FILE": "",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(*command, **more):
        return subprocess.run(
            command,
            cwd=tree,
            env={**told, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    run.tree = tree
    return run
