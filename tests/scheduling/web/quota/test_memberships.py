"""People of a tenant in the browser, and what becomes of the jobs of who goes."""

import pytest

from scheduling.models import Job
from scheduling.states import FINAL, HOLDING
from tenants.models import Membership, Role
from tests.scheduling.web.quota.test_requests import text_of

PEOPLE = "/tenants/nlp/memberships/"


def roles(scene):
    return dict(scene.language.memberships.values_list("user__username", "role"))


def test_a_lead_lets_somebody_in_with_a_role(as_person, scene):
    as_person("mei").post(PEOPLE, {"username": "newcomer", "role": Role.VIEWER})

    assert roles(scene) == {"mei": 3, "omar": 2, "newcomer": 1}


@pytest.mark.parametrize(
    ("name", "words"),
    [("nobody", "Nobody has that user name."), ("omar", "is in nlp already")],
)
def test_who_cannot_be_let_in_is_said(as_person, scene, name, words):
    answer = as_person("mei").post(PEOPLE, {"username": name, "role": Role.VIEWER})

    assert answer.status_code == 422
    assert words in text_of(answer)


@pytest.mark.parametrize("name", ["nobody", "newcomer"])
def test_who_is_no_lead_is_not_told_who_has_an_account(as_person, scene, name):
    answer = as_person("omar").post(PEOPLE, {"username": name, "role": Role.VIEWER})

    assert answer.status_code == 403


def test_a_role_is_changed(as_person, scene):
    as_person("mei").post(PEOPLE + "omar/role/", {"role": "3"})

    assert roles(scene)["omar"] == Role.LEAD


def test_the_last_lead_stays(as_person, scene):
    client = as_person("mei")

    role = client.post(PEOPLE + "mei/role/", {"role": "1"}, follow=True)
    client.post(PEOPLE + "mei/remove/", {"jobs": "keep"})

    assert "A tenant needs a lead" in text_of(role)
    assert roles(scene)["mei"] == Role.LEAD


@pytest.mark.parametrize(
    ("jobs", "cancelled"),
    [
        ("keep", set()),
        ("cancel_waiting", {"moe-128-experts", "ablation-dropout", "fresh-submission"}),
        (
            "cancel_all",
            {
                "moe-128-experts",
                "ablation-dropout",
                "fresh-submission",
                "llama-70b-pretrain",
                "tokenizer-sweep",
            },
        ),
    ],
)
def test_what_becomes_of_their_jobs_is_asked(as_person, scene, jobs, cancelled):
    before = Job.objects.filter(owner=scene.omar, state="cancelled").count()
    client = as_person("mei")

    page = client.get(PEOPLE + "omar/remove/")
    client.post(PEOPLE + "omar/remove/", {"jobs": jobs})

    assert "On GPUs in this tenant: 2 jobs of Omar Haddad. Waiting: 3." in text_of(page)
    assert roles(scene) == {"mei": 3}
    theirs = Job.objects.filter(owner=scene.omar)
    gone = theirs.filter(state="cancelled").count() - before
    on_the_way = theirs.filter(state="stopping", stopping_to="cancelled").count()
    waiting = {name for name in cancelled if scene.jobs[name].state not in HOLDING}
    assert (gone, on_the_way) == (len(waiting), 2 if jobs == "cancel_all" else 1)
    assert theirs.exclude(state__in=FINAL).count() == 5 - gone


def test_without_an_answer_nobody_is_put_out(as_person, scene):
    answer = as_person("mei").post(PEOPLE + "omar/remove/", {})

    assert answer.status_code == 422
    assert Membership.objects.filter(user=scene.omar).exists()


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", {"username": "newcomer", "role": 1}),
        ("mei/role/", {"role": 1}),
        ("mei/remove/", {"jobs": "keep"}),
    ],
)
def test_below_lead_people_are_seen_and_not_changed(as_person, scene, path, sent):
    client = as_person("omar")

    assert client.get(PEOPLE).status_code == 200
    assert client.post(PEOPLE + path, sent).status_code == 403
    assert roles(scene) == {"mei": 3, "omar": 2}
