"""A Dockerfile as far as ours goes: its steps, and the tree that they copy."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "Dockerfile"


@dataclass(frozen=True)
class Step:
    """stage: the number of the image that is being made, from 0."""

    stage: int
    word: str
    rest: str


def steps():
    """Every step, each in one line."""
    text = re.sub(r"(?m)^#.*\n", "", FILE.read_text()).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    stage, found = -1, []
    for word, rest in lines:
        stage += word == "FROM"
        found.append(Step(stage, word, " ".join(rest.split())))
    return found


def copied():
    """What is copied from the repository."""
    copies = [step.rest.split() for step in steps() if step.word == "COPY"]
    return [name for copy in copies if not copy[0].startswith("--") for name in copy[:-1]]


def allowed():
    """What .dockerignore lets in, which refuses everything first."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    return [rule[1:] for rule in rules if rule.startswith("!")]


def lay_out(folder):
    """The tree of the image's working folder: what the step that runs our code finds."""
    for name in copied():
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif not name.startswith("requirements/"):
            shutil.copy(source, target)
    return folder
