"""Pasted `nvidia-smi topo -m`: what is read, and what is refused with its line."""

from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.catalog.links import Link, LinkKind
from topology.catalog.topo_text import TopologyTextError, read_topology

DATA = Path(__file__).parents[2] / "data" / "gpu"
NV12, NV18 = Link(LinkKind.NVLINK, 12), Link(LinkKind.NVLINK, 18)
PIX, PHB, SYS = Link(LinkKind.PIX), Link(LinkKind.PHB), Link(LinkKind.SYS)

# A DGX-1 with V100: two quads, six NVLinks a GPU.
CUBE_MESH = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_2\tCPU Affinity
GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tSYS\t0-19,40-59
GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tSYS\t0-19,40-59
GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tSYS\t0-19,40-59
GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tSYS\t0-19,40-59
GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tPIX\t20-39,60-79
GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tPIX\t20-39,60-79
GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tPHB\t20-39,60-79
GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tPHB\t20-39,60-79
mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tSYS
mlx5_2\tSYS\tSYS\tSYS\tSYS\tPIX\tPIX\tPHB\tPHB\tSYS\t X
"""


def text(name):
    return (DATA / f"topo-{name}.txt").read_bytes().decode()


def test_bridged_pairs_need_not_be_neighbours():
    matrix = read_topology(text("nvlink-pairs"))
    nvlink = {pair for pair in combinations(range(8), 2) if matrix.links[pair[0]][pair[1]] == NV12}

    assert matrix.gpus == tuple(range(8))
    assert nvlink == {(0, 2), (1, 3), (4, 5), (6, 7)}
    assert matrix.islands() == ((0, 2), (1, 3), (4, 5), (6, 7))
    assert matrix.island_of() == (0, 1, 0, 1, 2, 2, 3, 3)
    assert matrix.numa == (frozenset({0}),) * 4 + (frozenset({1}),) * 4


def test_network_cards_are_no_gpus_and_escape_codes_no_columns():
    matrix = read_topology(text("hgx8-nics"))

    assert matrix.gpus == tuple(range(8))
    assert set(matrix.pairs()) == {NV18}
    assert matrix.nics == ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5")
    assert [matrix.nearest_nics(gpu) for gpu in range(8)] == [
        (nic,) for nic in matrix.nics for _ in range(2)
    ]
    assert matrix.numa == (frozenset({0}),) * 4 + (frozenset({1}),) * 4
    assert matrix.cpus[0] == "0-47,96-143"


def test_ranges_of_numa_nodes_and_unknown_ones():
    matrix = read_topology(text("numa-range"))
    links = {pair: matrix.links[pair[0]][pair[1]] for pair in combinations(range(4), 2)}

    assert links == dict.fromkeys(links, SYS) | {(0, 1): PIX, (2, 3): PHB}
    assert matrix.numa == (
        frozenset({0}),
        frozenset({0}),
        frozenset({1, 2}),
        frozenset(),
    )
    assert matrix.cpus == ("0-15", "0-15", "16-47", "")
    assert matrix.islands() == ((0,), (1,), (2,), (3,))


def test_a_cube_mesh_has_two_islands_of_four():
    matrix = read_topology(CUBE_MESH)

    assert matrix.islands() == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert matrix.nics == ("mlx5_0", "mlx5_2")
    assert matrix.nearest_nics(2) == ("mlx5_0",)
    assert matrix.numa == (frozenset(),) * 8


@pytest.mark.parametrize("name", ["nvlink-pairs", "hgx8-nics"])
def test_tabs_may_have_become_spaces_on_the_way(name):
    spaces = text(name).replace("\t", "  ")

    assert read_topology(spaces) == read_topology(text(name))


def test_a_prompt_in_front_does_no_harm():
    assert read_topology(f"root@node:~# nvidia-smi topo -m\n{CUBE_MESH}") == read_topology(
        CUBE_MESH
    )


def test_one_gpu_is_a_node_too():
    matrix = read_topology("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-11\t0\n")

    assert (matrix.islands(), matrix.cpus, matrix.numa) == (((0,),), ("0-11",), (frozenset({0}),))


LINES = CUBE_MESH.splitlines()


def changed(line, old, new):
    """The cube mesh with one cell of one line replaced."""
    lines = LINES.copy()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    return "\n".join(lines)


REFUSED = {
    "nothing": ("", 1, "no header"),
    "something else": ("Wed Jan 1\nNo devices were found", 1, "no header"),
    "only the header": (LINES[0], 2, "the row of GPU0 is missing"),
    "cut off between rows": ("\n".join(LINES[:5]), 6, "the row of GPU4 is missing"),
    "cut off inside a row": (
        "\n".join(LINES[:5]).rpartition("\tSYS\tSYS\tSYS")[0],
        5,
        "cut off: GPU3 has 4 of 10 links",
    ),
    "network cards cut off": ("\n".join(LINES[:9]), 10, "the row of mlx5_0 is missing"),
    "header cut off": (
        "\n".join([LINES[0].partition("\tGPU7")[0], *LINES[1:]]),
        9,
        "GPU7 has a row but does not stand in the header",
    ),
    "a row left out": ("\n".join(LINES[:3] + LINES[4:]), 4, "the row of GPU2 should stand here"),
    "asymmetric": (changed(6, "NV2", "NV1"), 6, "GPU4 has NV1 to GPU0, but GPU0 has NV2 to GPU4"),
    "asymmetric to a card": (changed(11, "PIX", "PHB"), 11, "mlx5_2 has PHB to GPU4"),
    "no cross on the diagonal": (changed(4, " X ", "PIX"), 4, "GPU2 meets itself"),
    "a cross off the diagonal": (changed(3, "NV1", "X"), 3, "GPU1 meets itself"),
    "unknown link": (changed(3, "NV1", "NVX"), 3, "NVX in the row of GPU1 is no kind of link"),
    "no NVLinks": (changed(3, "NV1", "NV0"), 3, "NV0 in the row of GPU1"),
    "named twice": (changed(1, "GPU3", "GPU2"), 1, "names a device twice"),
    "NUMA that is none": (
        text("numa-range").replace("1-2", "1-x"),
        4,
        "1-x is no NUMA node",
    ),
    "NUMA without end": (
        text("numa-range").replace("1-2", "1-99999999"),
        4,
        "no range of NUMA nodes",
    ),
}


@pytest.mark.parametrize(("pasted", "line", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_with_its_line(pasted, line, why):
    with pytest.raises(TopologyTextError) as refused:
        read_topology(pasted)

    assert refused.value.line == line
    assert why in refused.value.text()
    assert str(refused.value).startswith(f"line {line}: ")


@given(st.integers(0, len(CUBE_MESH)))
def test_a_text_cut_anywhere_is_refused_or_lacks_no_link(length):
    """Only the last row's last cell and what follows may go without being missed."""
    whole = read_topology(CUBE_MESH)
    try:
        matrix = read_topology(CUBE_MESH[:length])
    except TopologyTextError:
        assert length < len(CUBE_MESH) - 1
    else:
        assert (matrix.links, matrix.nic_links) == (whole.links, whole.nic_links)


@given(st.integers(0, len(CUBE_MESH)), st.text("GPUNVX0123\t \n-:", max_size=9))
def test_a_garbled_text_is_read_or_refused_and_nothing_else(at, garbage):
    with suppress(TopologyTextError):
        read_topology(CUBE_MESH[:at] + garbage + CUBE_MESH[at + len(garbage) :])
