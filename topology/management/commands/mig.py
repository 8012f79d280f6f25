import re
from typing import Any, Final

from django.core.management.base import CommandParser

from topology.catalog.gpus import GpuModel
from topology.catalog.mig import (
    ImpossibleLayoutError,
    MigInstance,
    check_layout,
    find_layout,
    find_misfit,
    layout_order,
)
from topology.management.reading import ReadingCommand

NO_PLACE = 1
_PROFILE: Final = re.compile(r"\d+g\.\d+gb(\+[a-z.,]+|-me)?")


class Command(ReadingCommand):
    help = (
        "Say whether a GPU can be cut into the given MIG instances, and where they would stand: "
        "`ok`, or `no` and the profile that has no place. Needs no database and no service."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="a GPU model, as A100-40GB")
        parser.add_argument("profile", nargs="+", help="a MIG profile, as 3g.20gb; may be repeated")
        parser.add_argument(
            "--keep",
            nargs="+",
            action="extend",
            default=[],
            metavar="PROFILE@START",
            help="an instance that stands already and stays, as 3g.20gb@4",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        model = self.model(options["model"])
        wanted = [self._profile(word) for word in options["profile"]]
        standing = [self._instance(model, word) for word in options["keep"]]
        self._check_standing(model, standing)
        misfit = find_misfit(model, wanted, standing)
        if misfit is not None:
            self.stdout.write(f"no {misfit.profile}")
            self.stderr.write(str(misfit))
            raise SystemExit(NO_PLACE)
        layout = find_layout(model, wanted, standing) or ()
        self.stdout.write(" ".join(["ok", *map(str, layout_order(model, layout))]))

    def _profile(self, word: str) -> str:
        if not _PROFILE.fullmatch(word):
            self.refuse(f"{word} is no MIG profile: write 3g.20gb")
        return word

    def _instance(self, model: GpuModel, word: str) -> MigInstance:
        profile, _, start = word.rpartition("@")
        if not (start.isascii() and start.isdecimal()):
            self.refuse(f"{word} is no instance of {model.key}: write 3g.20gb@4")
        return MigInstance(int(start), self._profile(profile))

    def _check_standing(self, model: GpuModel, standing: list[MigInstance]) -> None:
        try:
            check_layout(model, standing)
        except ImpossibleLayoutError as error:
            self.refuse(f"--keep: {error}")
