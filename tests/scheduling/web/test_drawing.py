"""Where the GPUs of a node stand in its picture."""

from collections import Counter

import pytest

from scheduling.web.drawing import draw
from topology.models import Gpu, Node
from topology.reports.floor import NodePlan


def picture_of(*sizes):
    islands = tuple(
        tuple(Gpu(pk=100 * island + place) for place in range(size))
        for island, size in enumerate(sizes)
    )
    return draw(NodePlan(Node(name="n-01"), islands), {})


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        ((8,), [8]),
        ((4, 4), [8]),
        ((1,) * 8, [8]),
        ((2,) * 4, [8]),
        ((6, 4), [6, 4]),
        ((16,), [8, 8]),
    ],
)
def test_a_row_has_up_to_eight_gpus_and_parts_no_island_that_fits(sizes, rows):
    cells = picture_of(*sizes).cells

    assert list(Counter(cell.y for cell in cells).values()) == rows


def test_gpus_without_nvlink_stand_as_those_of_one_island_without_its_line():
    alone, joined = picture_of(*(1,) * 8), picture_of(8)

    assert [cell.x for cell in alone.cells] == [cell.x for cell in joined.cells]
    assert (len(alone.brackets), len(joined.brackets)) == (0, 1)
