"""What operators see of a tenant's place in clusters."""

import pytest

from tests.factories import TenancyFactory
from tests.scene import NOON
from tests.scheduling.web.quota.test_requests import text_of

PAGE = "/tenants/nlp/"
WALL = "ResourceQuota muster: spec.hard"


@pytest.fixture
def tenancy(scene):
    def make(**said):
        return TenancyFactory(tenant=scene.language, cluster=scene.cluster, **said)

    return make


def test_what_is_as_it_should_be_is_said(as_person, tenancy):
    tenancy()

    assert "as it should be." in text_of(as_person("root").get(PAGE))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"mended": [WALL], "mended_at": NOON}, f"Put right: {NOON:%Y-%m-%d %H:%M} {WALL}"),
        ({"refusal": "forbidden"}, "the cluster refuses: forbidden"),
        ({"drift": [WALL], "refusal": "no"}, f"no Looked at: 2026-01-01 00:00 {WALL}"),
    ],
)
def test_what_is_not_is_said_in_words(as_person, tenancy, said, words):
    tenancy(**said)

    assert words in text_of(as_person("root").get(PAGE))


def test_nothing_is_kept_in_a_cluster_to_look_at(as_person, tenancy):
    row = tenancy()
    row.cluster.is_writable = False
    row.cluster.save()

    assert "connected to look only: nothing is kept" in text_of(as_person("root").get(PAGE))


@pytest.mark.parametrize(("is_simulated", "count"), [(False, 1), (True, 0)])
def test_a_real_cluster_without_policies_is_pointed_out(as_person, tenancy, is_simulated, count):
    row = tenancy(unguarded=["muster-gate"])
    row.cluster.is_simulated = is_simulated
    row.cluster.save()

    assert text_of(as_person("root").get(PAGE)).count("manage.py cluster_objects") == count


def test_the_tenants_own_people_are_not_told(as_person, tenancy):
    tenancy(drift=[WALL])

    assert WALL not in text_of(as_person("mei").get(PAGE))
