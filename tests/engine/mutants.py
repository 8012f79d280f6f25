"""The engine with one small mistake in it, many times over: which mistakes do the tests find?

`python -m tests.engine.mutants --sample 200 --seed 1` makes so many at random, each in a copy of
the project, runs the tests of the engine there until one fails, and lists what none found.
Some of those change nothing that anybody could see; the others want a test.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "scheduling" / "engine"
FIRST = ("test_stories.py", "test_scenarios.py", "test_cases.py", "test_golden.py")  # quick ones
TIMEOUT = 600  # seconds; whoever takes so long has been made to loop

_COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_RECKONED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult}
_JOINED = {ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum"}


@dataclass(frozen=True)
class Mutant:
    """path: from the project's root. line: where. was, now: the expression. source: the module."""

    path: str
    line: int
    was: str
    now: str
    source: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.was}  ->  {self.now}"


def sites_in(path):
    """(path, number) of every mutant of one module, in the order of its text."""
    return [(path, number) for number, _ in enumerate(_changes(ast.parse(path.read_text())))]


def mutant_at(path, number):
    tree = ast.parse(path.read_text())
    node, change = next(islice(_changes(tree), number, None))
    was, line = ast.unparse(node), node.lineno
    now = ast.unparse(change())
    return Mutant(str(path.relative_to(ROOT)), line, was, now, ast.unparse(tree) + "\n")


def _changes(tree):
    """(node, what changes it and returns what stands there then), for all that can be got wrong."""
    for node in _code(tree):
        match node:
            case ast.Compare() if type(node.ops[0]) in _COMPARED:
                yield (
                    node,
                    partial(_with, node, ops=[_COMPARED[type(node.ops[0])](), *node.ops[1:]]),
                )
            case ast.BinOp() if type(node.op) in _RECKONED | _JOINED:
                yield node, partial(_with, node, op=(_RECKONED | _JOINED)[type(node.op)]())
            case ast.BoolOp():
                yield node, partial(_with, node, op=_JOINED[type(node.op)]())
            case ast.UnaryOp(op=ast.Not()):
                yield node, partial(_with, node, operand=_denied(node.operand))
            case ast.IfExp() | ast.If():
                yield node.test, lambda node=node: _with(node, test=_denied(node.test)).test
            case ast.Constant(value=bool()):
                yield node, partial(_with, node, value=not node.value)
            case ast.Constant(value=int()):
                yield node, partial(_with, node, value=node.value + 1)
            case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
                yield node, partial(_with, node, func=ast.Name(_CALLED[name], ast.Load()))


def _with(node, **fields):
    for name, value in fields.items():
        setattr(node, name, value)
    return ast.fix_missing_locations(node)


def _denied(test):
    return ast.UnaryOp(ast.Not(), test)


def _code(tree):
    """All nodes but annotations and decorators, which say what is meant and not what is done."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from _code(child)


def is_found(mutant, copy):
    """Whether a test fails in `copy`, a folder with the whole project, with `mutant` in place."""
    module = copy / mutant.path
    before = module.read_text()
    module.write_text(mutant.source)
    folder = copy / "tests" / "engine"
    others = sorted(own.name for own in folder.glob("test_*.py") if own.name not in FIRST)
    names = [*FIRST, *(name for name in others if name != "test_mutants.py")]
    files = [str(Path("tests", "engine", name)) for name in names]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not long", *files],
            cwd=copy,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        module.write_text(before)
    if done.returncode < 0:
        raise ChildProcessError(f"the tests were killed: nothing is known of {mutant}")
    return done.returncode != 0


def survivors(chosen, workers, told):
    """Those of the chosen mutants that no test finds. told: called with each as it is decided."""
    with TemporaryDirectory() as folder:
        copies = SimpleQueue()
        for number in range(workers):
            copies.put(_copy_of_project(Path(folder) / str(number)))

        def tried(mutant):
            copy = copies.get()
            try:
                found = is_found(mutant, copy)
            finally:
                copies.put(copy)
            told(mutant, found)
            return found

        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(tried, chosen))
    return [mutant for mutant, found in zip(chosen, results, strict=True) if not found]


def _copy_of_project(folder):
    """Python and data that the engine's tests need, without what is installed or built."""
    for name in ("scheduling", "topology", "tenants", "portal", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "manage.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def sample(count, seed):
    """So many mutants of the engine, drawn without any twice."""
    sites = [site for module in sorted(ENGINE.glob("*.py")) for site in sites_in(module)]
    draw = random.Random(seed)  # noqa: S311 - a seed is to give the same mutants again
    return [mutant_at(*site) for site in draw.sample(sites, min(count, len(sites)))]


def main():
    own = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    own.add_argument("--sample", type=int, default=200)
    own.add_argument("--seed", type=int, default=1)
    own.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    own.add_argument("--json", type=Path, metavar="OUT", help="what became of each, a line each")
    options = own.parse_args()
    chosen = sample(options.sample, options.seed)
    counts = Counter()

    def told(mutant, found):
        counts[found] += 1
        if options.json:
            with options.json.open("a") as out:
                out.write(json.dumps({"mutant": str(mutant), "found": found}) + "\n")
        sys.stderr.write(f"\r{sum(counts.values())} of {len(chosen)}, {counts[False]} not found ")

    left = survivors(chosen, options.workers, told)
    sys.stdout.write("\n".join(["", *map(str, left), ""]))
    sys.stdout.write(f"{counts[True]} of {len(chosen)} found\n")


if __name__ == "__main__":
    main()
