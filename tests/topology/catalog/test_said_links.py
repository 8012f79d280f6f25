"""Links as the node agent says them, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.agent.machine import Nic
from topology.agent.survey import _links as said_by_the_agent
from topology.catalog.links import Link, LinkKind
from topology.catalog.matrix import LinkMatrix
from topology.catalog.said_links import matrix_of, read_link

LINKS = st.one_of(
    st.sampled_from([Link(kind) for kind in LinkKind if kind != LinkKind.NVLINK]),
    st.integers(1, 18).map(lambda lanes: Link(LinkKind.NVLINK, lanes)),
)
OVER_PCIE = st.sampled_from([Link(kind) for kind in LinkKind if kind != LinkKind.NVLINK])


@st.composite
def matrices(draw):
    """A matrix of up to nine GPUs, some of them lost, and up to three cards."""
    count = draw(st.integers(0, 9))
    gpus = tuple(sorted(draw(st.sets(st.integers(0, 15), min_size=count, max_size=count))))
    pair = {(a, b): draw(LINKS) for b in range(count) for a in range(b)}
    nics = tuple(f"mlx5_{n}" for n in range(draw(st.integers(0, 3))))
    numa = [draw(st.integers(-1, 3)) for _ in gpus]
    return LinkMatrix(
        gpus=gpus,
        links=tuple(
            tuple(pair.get((min(a, b), max(a, b))) for b in range(count)) for a in range(count)
        ),
        nics=nics,
        nic_links=tuple(tuple(draw(OVER_PCIE) for _ in nics) for _ in gpus),
        numa=tuple(frozenset() if n < 0 else frozenset({n}) for n in numa),
        cpus=("",) * count,
    )


@given(matrices())
def test_what_the_agent_says_is_the_matrix_it_saw(matrix):
    cards = [Nic(name=name, path=(), numa=None, link="", rate="") for name in matrix.nics]
    numa = {gpu: min(own) for gpu, own in zip(matrix.gpus, matrix.numa, strict=True) if own}

    assert matrix_of(said_by_the_agent(matrix, cards), numa) == matrix


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"gpus": [0, 1, 2], "links": ["NV1 NV1"]}, "cut off"),
        ({"gpus": [0, 1, 2], "links": ["NV1", "NV1"]}, "cut off"),
        ({"gpus": [0, 1], "links": ["NVX"]}, "no link"),
        ({"gpus": [0, 1], "links": ["NVLINK"]}, "no link"),
        ({"gpus": [0, 1], "links": ["PIX"], "nics": {"a": ""}, "nic_links": ["PIX"]}, "cut off"),
        ({"gpus": list(range(200)), "links": []}, "more than a node has"),
    ],
)
def test_what_is_torn_is_refused(said, why):
    with pytest.raises(ValueError, match=why):
        matrix_of(said, {})


@pytest.mark.parametrize("word", ["NV18", "PIX", "SYS", "NODE", "PHB", "PXB"])
def test_a_link_is_read_as_it_is_written(word):
    assert str(read_link(word)) == word
