from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import CommandParser

from topology.catalog.gpus import GpuModel
from topology.catalog.mig import layout_order
from topology.layouts.device_plugin import PluginConfig, node_problems, offer, read_plugin_configs
from topology.layouts.faults import Fault, Problem, RefusedError
from topology.layouts.mig_parted import MigConfig, read_mig_configs
from topology.layouts.node import GpuLayout, apply_config
from topology.layouts.pasted import is_of_the_plugin
from topology.management.reading import ReadingCommand

REFUSED = 1


class Command(ReadingCommand):
    help = (
        "Read a configuration of mig-parted or of the device plugin, and say of each that the file "
        "holds what it makes of a node, or why it is refused. Needs no database and no service."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="the file, or a ConfigMap with it; - for standard input")
        parser.add_argument(
            "gpus", nargs="+", metavar="GPU", help="the node's GPUs in order, as 4xA100-40GB or A30"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        text = self.read(options["file"])
        models = self.models(options["gpus"])
        refused = False
        try:
            for name, answer, problems in _judged(text, models):
                refused |= bool(problems)
                self.stdout.write(f"{'no' if problems else 'ok'} {name}{answer}")
                for problem in problems:
                    self.stdout.write(f"   {problem}")
        except RefusedError as error:
            self.refuse(str(error))
        if refused:
            raise SystemExit(REFUSED)


def _judged(
    text: str, models: Sequence[GpuModel]
) -> Iterator[tuple[str, str, tuple[Problem, ...]]]:
    """Of each configuration its name, what it makes of the node, and why it is refused."""
    try:
        configs = read_mig_configs(text)
    except RefusedError as error:
        if not is_of_the_plugin(error.problem):
            raise
        for own in read_plugin_configs(text):
            yield _plugin(own, models)
        return
    for config in configs:
        yield _mig(config, models)


def _mig(config: MigConfig, models: Sequence[GpuModel]) -> tuple[str, str, tuple[Problem, ...]]:
    change = apply_config(config, models)
    gpus = [
        f"; GPU {gpu}: {_words(models[gpu], layout)}"
        for gpu, layout in sorted(change.layouts.items())
    ]
    return config.name, "".join(gpus), change.problems


def _words(model: GpuModel, layout: GpuLayout) -> str:
    if layout is None:
        return "MIG off"
    return " ".join(map(str, layout_order(model, layout))) or "MIG on"


def _plugin(
    config: PluginConfig, models: Sequence[GpuModel]
) -> tuple[str, str, tuple[Problem, ...]]:
    whole = [None] * len(models)
    offered = offer(config, models, whole)
    names = ", ".join(f"{name}: {count}" for name, count in offered.resources.items())
    unshared = [own for own in node_problems(config, models, whole) if _is_real(own)]
    name = config.name or "the configuration"
    return name, f"; {names} on {offered.gpus} GPUs", (*config.problems, *unshared)


def _is_real(problem: Problem) -> bool:
    """MIG instances are not known here, so that nothing is said of those that are not there."""
    return problem.fault != Fault.NOT_ON_NODE
