"""The tree of cohorts in the browser: nothing is saved before it was seen what it would come to."""

import pytest

from portal.core.models import AuditEvent
from tenants.models import Cohort, Quota
from tests.factories import CohortFactory, TenantFactory
from tests.scheduling.web.operators.test_policy import part, text_of

PAGE = "/admin/cohorts/"
LAB = PAGE + "of/lab/"
MOVE = "/tenants/vision/cohort/"


def save(client, path, data):
    """Look, then save what was seen."""
    seen = client.post(path, data | {"do": "look"}).context["mark"]
    return client.post(path, data | {"do": "save", "seen": seen})


@pytest.mark.parametrize("count", [1, 3])
def test_the_page_shows_the_tree_in_a_fixed_number_of_queries(
    as_root, scene, count, django_assert_num_queries
):
    top = CohortFactory(name="top")
    for number in range(count):
        CohortFactory(name=f"low-{number}", parent=top)
        TenantFactory(slug=f"alone-{number}")

    with django_assert_num_queries(8):  # session, user, tree 3, flavors, banners, unread
        page = as_root.get(PAGE)

    roots = [branch.cohort.name for branch in page.context["roots"]]
    assert roots == ["research", "top"]
    assert [leaf.tenant.slug for leaf in page.context["roots"][0].leaves] == ["nlp", "vision"]
    assert "alone-0" in part(page, "alone")


@pytest.mark.parametrize("who", ["mei", "omar", "newcomer"])
def test_the_tree_is_operators(as_person, who):
    client = as_person(who)
    CohortFactory(name="lab")

    for path in (PAGE, PAGE + "new/", LAB, LAB + "limits/"):
        assert client.get(path).status_code == 403
    assert client.post(LAB + "remove/").status_code == 403
    assert "/admin/cohorts/" not in client.get("/").content.decode()


def test_a_lead_is_refused_and_a_stranger_finds_nothing(as_person):
    for path in ("/tenants/nlp/cohort/", "/tenants/nlp/limits/"):
        assert as_person("mei").get(path).status_code == 403
        assert as_person("newcomer").get(path).status_code == 404


def test_a_cohort_is_made_and_hung_in_another(as_root, scene):
    as_root.post(PAGE + "new/", {"name": "lab", "parent": "research", "weight": "2"})

    made = Cohort.objects.get(name="lab")
    assert (made.parent.name, made.weight) == ("research", 2)


def test_a_move_shows_who_gains_and_loses_and_saves_nothing_before_it_is_asked(as_root, scene):
    CohortFactory(name="lab")
    Quota.objects.update(borrowing_limit=None)

    shown = as_root.post(MOVE, {"cohort": "lab", "do": "look"})
    hasty = as_root.post(MOVE, {"cohort": "lab", "do": "save"})  # without having looked

    assert "nlp H100-SXM 16 8 → 0 8 fewer" in part(shown, "effects-table")
    assert (shown.status_code, hasty.status_code) == (200, 409)
    scene.vision.refresh_from_db()
    assert scene.vision.cohort.name == "research"

    seen = shown.context["mark"]
    answer = as_root.post(MOVE, {"cohort": "lab", "do": "save", "seen": seen})
    scene.vision.refresh_from_db()
    assert (answer.status_code, scene.vision.cohort.name) == (302, "lab")
    event = AuditEvent.objects.get(action="move_tenant")
    assert (event.before["cohort"], event.after["cohort"]) == ("research", "lab")


def test_who_was_seconds_too_late_sees_what_it_would_come_to_now(as_root, scene):
    CohortFactory(name="lab")
    seen = as_root.post(MOVE, {"cohort": "lab", "do": "look"}).context["mark"]
    Quota.objects.filter(tenant=scene.vision).update(nominal=20)

    answer = as_root.post(MOVE, {"cohort": "lab", "do": "save", "seen": seen})

    assert answer.status_code == 409
    assert "Something has changed since" in part(answer, "form-errors")
    assert answer.context["mark"] != seen
    scene.vision.refresh_from_db()
    assert scene.vision.cohort.name == "research"


def test_a_circle_is_refused_beside_its_field(as_root):
    lab = CohortFactory(name="lab")
    CohortFactory(name="inner", parent=lab)

    answer = as_root.post(LAB, {"name": "lab", "parent": "inner", "weight": "1", "do": "look"})

    assert answer.status_code == 422
    assert "cannot hang in itself" in part(answer, "form-errors")


def test_a_rename_says_that_it_meets_nobody(as_root):
    CohortFactory(name="lab")
    data = {"name": "labs", "parent": "", "weight": "1"}

    shown = as_root.post(LAB, data | {"do": "look"})
    save(as_root, LAB, data)

    assert "Nobody is guaranteed or may borrow another number" in part(shown, "no-effects")
    assert list(Cohort.objects.exclude(name="research").values_list("name", flat=True)) == ["labs"]


def test_limits_of_a_cohort_and_of_a_tenant_are_set_and_a_cohorts_taken_away(as_root, scene):
    flavor, cohort = scene.flavors[0], CohortFactory(name="lab")
    data = {"flavor": flavor.pk, "nominal": "4", "borrowing_limit": "", "lending_limit": "2"}

    save(as_root, LAB + "limits/", data)
    save(as_root, "/tenants/nlp/limits/", data)

    fields = ("nominal", "borrowing_limit", "lending_limit")
    for owner in ({"cohort": cohort}, {"tenant": scene.language}):
        assert Quota.objects.filter(flavor=flavor, **owner).values_list(*fields).get() == (
            4,
            None,
            2,
        )
    assert (
        f'value="{flavor.pk}" selected'
        in as_root.get(f"{LAB}limits/?flavor={flavor.pk}").content.decode()
    )
    save(as_root, LAB + "limits/", data | {"none": "on"})
    assert not Quota.objects.filter(cohort=cohort).exists()


def test_only_an_empty_cohort_is_taken_away(as_root):
    CohortFactory(name="lab")

    as_root.post(LAB + "remove/")
    kept = as_root.post(PAGE + "of/research/remove/", follow=True)

    assert "move those first" in text_of(kept)
    assert list(Cohort.objects.values_list("name", flat=True)) == ["research"]


def test_what_is_not_there_is_not_found(as_root):
    for path in (LAB, LAB + "limits/"):
        assert as_root.get(path).status_code == 404
    assert as_root.post(LAB + "remove/").status_code == 404
