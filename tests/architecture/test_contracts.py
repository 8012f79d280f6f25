"""Each import contract holds, and breaks when it should: one forbidden import at a time."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
NAMES = {contract["id"]: contract["name"] for contract in CONFIG["contracts"]}
TOOLS = {"tests", "tools", "manage.py"}  # beside the product: they import it, never the reverse

# Contract, the module that gets a new line, the line.
FORBIDDEN = [
    ("pure", "scheduling/engine/fit.py", "import django"),
    ("pure", "topology/catalog/gpus.py", "import portal.core.errors"),
    ("pure", "topology/layouts/node.py", "import django"),
    ("pure", "simcluster/__main__.py", "import topology.models"),
    ("apps", "portal/core/errors.py", "import tenants.models"),
    ("apps", "topology/querysets.py", "import scheduling.states"),
    ("apps", "tenants/access.py", "import portal.settings.base"),
    ("portal", "portal/core/errors.py", "import portal.urls"),
    ("portal", "portal/helpers.py", ""),
    ("inside", "scheduling/services/lifecycle.py", "import scheduling.tasks"),
    ("inside", "scheduling/states.py", "import scheduling.querysets"),
    ("inside", "topology/kube/names.py", "import topology.models"),
    ("inside", "topology/layouts/node.py", "import topology.kube.names"),
    ("inside", "topology/agent/survey.py", "import topology.kube.names"),
    ("agent", "topology/agent/survey.py", "import yaml"),
    ("agent", "topology/agent/survey.py", "import topology.layouts.node"),
    ("inside", "scheduling/utils.py", ""),
    ("kubernetes", "topology/services/inventory.py", "import kubernetes"),
    ("kubernetes", "scheduling/tasks.py", "import kubernetes.client"),
    ("acyclic", "tenants/models/user.py", "import tenants.models.tenant\nimport tenants.access"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The Python files of the product, and the cache of what they import."""
    folder = tmp_path_factory.mktemp("contracts")
    for package in CONFIG["root_packages"]:
        for source in (ROOT / package).rglob("*.py"):
            target = folder / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder, *contracts):
    """By name, whether each contract is kept."""
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    linter = Path(sys.executable).parent / "lint-imports"
    run = subprocess.run(
        [linter, *chosen], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    lines = run.stdout.splitlines()
    verdicts = {
        identifier: line.removeprefix(name).split()[0] == "KEPT"
        for identifier, name in NAMES.items()
        for line in lines
        if line.startswith((f"{name} KEPT", f"{name} BROKEN"))
    }
    assert verdicts, run.stdout + run.stderr
    return verdicts


def test_every_contract_is_kept(copy):
    assert lint(copy) == dict.fromkeys(NAMES, True)


def test_every_contract_is_shown_to_break():
    assert {contract for contract, _, _ in FORBIDDEN} == set(NAMES)


@pytest.mark.parametrize(("contract", "module", "line"), FORBIDDEN)
def test_a_forbidden_import_breaks_its_contract(copy, contract, module, line):
    path = copy / module
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")

    kept = lint(copy, contract)

    path.unlink() if before is None else path.write_text(before)
    assert kept == {contract: False}


def test_no_package_is_left_out_of_the_contracts():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert packages - TOOLS == set(CONFIG["root_packages"])
