"""The topology quality never falls when something gets closer, and links are ordered."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topology.catalog.links import (
    WEIGHTS,
    Closeness,
    Link,
    LinkKind,
    nvlink_mb_per_second,
    quality,
    set_points,
    slowest,
    unknown_shares,
)

SHARES = st.fractions(0, 1)
CLOSENESS = st.builds(Closeness, *[st.none() | SHARES for _ in WEIGHTS])
ALL_KNOWN = st.builds(Closeness, *[SHARES for _ in WEIGHTS])
LINKS = st.builds(Link, st.sampled_from([own for own in LinkKind if own != LinkKind.NVLINK])) | (
    st.builds(Link, st.just(LinkKind.NVLINK), st.integers(1, 18))
)
NV18, PIX, SYS = Link(LinkKind.NVLINK, 18), Link(LinkKind.PIX), Link(LinkKind.SYS)


@given(CLOSENESS)
def test_quality_is_a_percentage(closeness):
    assert 0 <= quality(closeness) <= 100


@given(CLOSENESS, st.sampled_from(sorted(WEIGHTS)), SHARES, SHARES)
def test_more_of_one_share_never_lowers_the_quality(closeness, name, one, other):
    less, more = (replace(closeness, **{name: share}) for share in sorted((one, other)))

    assert quality(more) >= quality(less)


@given(ALL_KNOWN, st.sampled_from(list(combinations(WEIGHTS, 2))), SHARES)
def test_the_same_gain_is_worth_more_in_the_heavier_share(closeness, names, part):
    heavier, lighter = names
    gain = part * (1 - max(getattr(closeness, name) for name in names))

    more = {name: getattr(closeness, name) + gain for name in names}

    assert quality(replace(closeness, **{heavier: more[heavier]})) >= quality(
        replace(closeness, **{lighter: more[lighter]})
    )


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_whole_share_is_outweighed_by_nothing_below_it(name):
    below = {other for other in WEIGHTS if WEIGHTS[other] < WEIGHTS[name]}
    without = Closeness(**{own: Fraction(own in below) for own in WEIGHTS})
    alone = Closeness(**{own: Fraction(own == name) for own in WEIGHTS})

    assert quality(alone) >= quality(without)


@given(CLOSENESS)
def test_unknown_shares_are_neither_good_nor_bad(closeness):
    """A share that is unknown leaves the quality where it lies between the worst and the best."""
    unknown = [name for name in WEIGHTS if getattr(closeness, name) is None]
    assume(unknown and len(unknown) < len(WEIGHTS))

    worst = replace(closeness, **{name: Fraction(0) for name in unknown})
    best = replace(closeness, **{name: Fraction(1) for name in unknown})

    assert quality(worst) <= quality(closeness) <= quality(best)


@pytest.mark.parametrize(
    ("several", "names"), [(True, ("network", "gpudirect", "numa")), (False, ("numa",))]
)
def test_unknown_shares_are_named_where_they_apply(several, names):
    closeness = Closeness(Fraction(1), None, None, None)

    assert unknown_shares(closeness, is_on_several_nodes=several) == names


@given(st.lists(LINKS, min_size=1), LINKS)
def test_a_closer_link_never_lowers_the_points_of_a_set(links, link):
    closer = [max(link, links[0]), *links[1:]]

    assert set_points(closer) >= set_points(links)
    assert slowest(closer) >= slowest(links)


def test_points_are_those_of_the_device_plugin():
    assert [link.points for link in (NV18, PIX, SYS)] == [1800, 50, 10]
    assert set_points([NV18, PIX, SYS]) == 1860


def test_a_ring_is_as_fast_as_its_slowest_link():
    assert slowest([NV18, SYS, PIX]) == SYS
    assert slowest([]) is None


@pytest.mark.parametrize(("kind", "lanes"), [(LinkKind.PIX, 2), (LinkKind.NVLINK, 0)])
def test_only_nvlink_has_lanes(kind, lanes):
    with pytest.raises(ValueError, match=kind.name):
        Link(kind, lanes)


@pytest.mark.parametrize(
    ("version", "lanes", "marketed"), [(5, 12, 600), (6, 18, 900), (7, 18, 1800)]
)
def test_nvlink_is_about_as_fast_as_it_is_sold(version, lanes, marketed):
    both_ways = 2 * nvlink_mb_per_second(version, lanes) / 1000

    assert both_ways == pytest.approx(marketed, rel=0.07)
    assert nvlink_mb_per_second(99, lanes) is None
