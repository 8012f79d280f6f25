"""The audit page: for operators, with what was before and after."""

import pytest
from django.test import Client

from portal.core import audit
from portal.core.models import AuditEvent
from portal.site.audit import PAGE_SIZE
from tests.factories import JobFactory, UserFactory

pytestmark = pytest.mark.django_db

PAGE = "/admin/audit/"


@pytest.fixture
def operator():
    client = Client()
    client.force_login(UserFactory(username="root", is_operator=True))
    return client


def lines(response):
    return [
        (row.event.action, [(one.name, one.before, one.after) for one in row.differences])
        for row in response.context["rows"]
    ]


def test_a_change_shows_what_differs_and_nothing_else(operator):
    before, after = {"gpus": 4, "name": "a"}, {"gpus": 8, "name": "a", "note": "x" * 200}
    audit.record("set_quota", JobFactory(), by=None, before=before, after=after, reason="asked")

    response = operator.get(PAGE)

    assert lines(response) == [("set_quota", [("gpus", "4", "8"), ("note", "", "x" * 119 + "…")])]
    assert "<q>asked</q>" in response.content.decode()


def test_values_are_written_for_people(operator):
    before = {"drift": ["Namespace nlp: missing", "ResourceQuota nlp: missing"], "open": True}
    after = {"drift": [], "open": False, "cuts": {"3g.40gb": 2}}
    audit.record("keep_tenancy", JobFactory(), by=None, before=before, after=after)

    assert lines(operator.get(PAGE)) == [
        (
            "keep_tenancy",
            [
                ("cuts", "", "3g.40gb: 2"),
                ("drift", "Namespace nlp: missing, ResourceQuota nlp: missing", ""),
                ("open", "yes", "no"),
            ],
        )
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("action=hold_job", ["hold_job"]),
        ("actor=ada", ["cancel_job"]),
        ("tenant=nlp", ["cancel_job"]),
        ("kind=job", ["hold_job", "cancel_job"]),
        ("actor=nobody", []),
        ("before=zzz", ["hold_job", "cancel_job"]),
        ("before=99999999999999999999", ["hold_job", "cancel_job"]),
    ],
)
def test_lines_are_found_by_what_they_are_about(operator, query, found):
    job = JobFactory(tenant__slug="nlp")
    audit.record("cancel_job", job, by=UserFactory(username="ada"))
    audit.record("hold_job", JobFactory(), by=None)

    assert [action for action, _ in lines(operator.get(f"{PAGE}?{query}"))] == found


def test_jobs_which_are_most_lines_can_be_left_out(operator):
    audit.record("submit_job", JobFactory(), by=None)
    audit.record("add_member", UserFactory(), by=None)

    page = operator.get(f"{PAGE}?without_jobs=1")

    assert [action for action, _ in lines(page)] == ["add_member"]
    assert 'name="without_jobs" value="1" checked' in page.content.decode()


def test_older_lines_are_a_page_away(operator):
    for number in range(PAGE_SIZE + 1):
        AuditEvent.objects.create(action=f"act_{number}", object_kind="job", object_id="j")

    first = operator.get(PAGE)
    second = operator.get(f"{PAGE}?before={first.context['older']}")

    assert (len(lines(first)), lines(second)) == (PAGE_SIZE, [("act_0", [])])
    assert second.context["older"] is None


@pytest.mark.parametrize("count", [1, 3])
def test_the_page_costs_the_same_for_any_number(operator, count, django_assert_num_queries):
    for _number in range(count):
        audit.record("hold_job", JobFactory(), by=UserFactory())

    with django_assert_num_queries(5):  # session, user, lines; frame (2)
        operator.get(PAGE)


def test_it_is_for_operators(client):
    client.force_login(UserFactory())

    assert client.get(PAGE).status_code == 403
