"""What deploy/ makes of itself: by Helm and by kustomize, as objects."""

import subprocess
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
CHART = DEPLOY / "helm" / "muster"
NAMES = ("full", "read-only", "k3s", "external", "webhooks")  # of sets of values, and of overlays


class Helm:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        return subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, timeout=120, check=False
        )

    def template(self, *arguments, release="muster", namespace="muster"):
        """The objects that the chart makes."""
        done = self.run("template", release, CHART, "--namespace", namespace, *arguments)
        assert done.returncode == 0, done.stderr
        return objects(done.stdout)

    def rendered(self, name):
        return self.template("--values", CHART / "ci" / f"{name}-values.yaml")


def objects(text):
    return [found for found in yaml.safe_load_all(text) if found]
