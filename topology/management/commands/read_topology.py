from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from topology.catalog.matrix import LinkMatrix
from topology.catalog.topo_text import TopologyTextError, read_topology
from topology.management.reading import ReadingCommand


class Command(ReadingCommand):
    help = (
        "Read what `nvidia-smi topo -m` printed: a line for each NVLink island and for each GPU. "
        "Needs no database and no service."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", default="-", help="the text; - or none: stdin")

    def handle(self, *_args: Any, **options: Any) -> None:
        text = self.read(options["file"])
        try:
            matrix = read_topology(text)
        except TopologyTextError as error:
            self.refuse(str(error))
        for line in _lines(matrix):
            self.stdout.write(line)


def _lines(matrix: LinkMatrix) -> Iterator[str]:
    for number, island in enumerate(matrix.islands()):
        members = ",".join(str(matrix.gpus[position]) for position in island)
        links = sorted({str(link) for link in matrix.pairs(island)})
        yield " ".join([f"island {number}: GPU {members}", *links])
    for position, gpu in enumerate(matrix.gpus):
        numa = ",".join(map(str, sorted(matrix.numa[position]))) or "unknown"
        nics = ",".join(matrix.nearest_nics(position)) or "none"
        yield f"GPU {gpu}: numa {numa}, nearest card {nics}"
