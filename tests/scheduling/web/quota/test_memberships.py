"""People of a tenant in the browser, and what becomes of the jobs of who goes."""

import pytest

from portal.core.models import AuditEvent
from scheduling.models import Job
from scheduling.states import FINAL, HOLDING
from tenants.models import Membership, Role
from tests.factories import MembershipFactory
from tests.scheduling.web.quota.test_requests import text_of
from tests.scheduling.web.test_new_job import filled_in

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
        ("mei/caps/", {"gpus_at_once": 1}),
        ("mei/remove/", {"jobs": "keep"}),
    ],
)
def test_below_lead_people_are_seen_and_not_changed(as_person, scene, path, sent):
    client = as_person("omar")

    assert client.get(PEOPLE).status_code == 200
    assert client.post(PEOPLE + path, sent).status_code == 403
    assert roles(scene) == {"mei": 3, "omar": 2}


CAPS = {"gpus_at_once": "", "job_hours": "", "highest_priority": ""}


def caps(scene):
    return scene.language.memberships.values_list("gpus_at_once", "job_hours").get(user=scene.omar)


def test_a_lead_says_what_somebody_may_ask_for_at_most(as_person, scene):
    client = as_person("mei")

    answer = client.post(
        PEOPLE + "omar/caps/", CAPS | {"gpus_at_once": 500, "job_hours": 24}, follow=True
    )

    assert caps(scene) == (500, 24)
    assert "Limits of Omar Haddad are set." in text_of(answer)
    for page in (PEOPLE, "/tenants/nlp/"):
        assert "500 GPUs 24 h a job" in text_of(client.get(page))


@pytest.mark.parametrize(("over", "stopped"), [("leave", 0), ("stop", 1)])
def test_what_becomes_of_jobs_above_a_lower_cap_is_asked(as_person, scene, over, stopped):
    client, lower = as_person("mei"), CAPS | {"gpus_at_once": 1}
    before = Job.objects.filter(state="stopping").count()

    asked = client.post(PEOPLE + "omar/caps/", lower)
    unchanged = caps(scene)
    client.post(PEOPLE + "omar/caps/", lower | {"asked": "1", "over": over})

    assert "1 running job of Omar Haddad is above the new limit." in text_of(asked)
    assert (unchanged, caps(scene)) == ((None, None), (1, None))
    assert Job.objects.filter(state="stopping").count() - before == stopped


def test_an_answer_to_another_number_is_no_answer(as_person, scene):
    sent = CAPS | {"gpus_at_once": 1, "asked": "40", "over": "stop"}

    answer = as_person("mei").post(PEOPLE + "omar/caps/", sent)

    assert "What becomes of it?" in text_of(answer)
    assert caps(scene) == (None, None)


@pytest.mark.parametrize("sent", [{"gpus_at_once": 0}, {"job_hours": "x"}])
def test_what_is_no_limit_is_said(as_person, scene, sent):
    answer = as_person("mei").post(PEOPLE + "omar/caps/", CAPS | sent)

    assert answer.status_code == 422
    assert caps(scene) == (None, None)


def test_the_form_of_a_new_job_says_what_its_owner_may_ask_for(as_person, scene):
    scene.language.memberships.filter(user=scene.omar).update(job_hours=1)
    sent = filled_in(scene) | {"tenant": "nlp", "max_hours": "1.5", "try": "1"}

    answer = as_person("omar").post("/jobs/new/", sent)

    assert answer.status_code == 422
    assert "In nlp a job of yours may run for 1 h at most" in text_of(answer)


def test_jobs_are_handed_over_to_another_member(as_person, scene):
    heir = scene.language.memberships.get(user=scene.mei)
    live = set(Job.objects.filter(owner=scene.omar).exclude(state__in=FINAL))
    ended = set(Job.objects.filter(owner=scene.omar)) - live

    answer = as_person("mei").post(
        PEOPLE + "omar/remove/", {"jobs": "hand_over", "heir": heir.pk}, follow=True
    )

    assert "Handed over to Mei Lin: 5." in text_of(answer)
    assert live <= set(Job.objects.filter(owner=scene.mei))
    assert set(Job.objects.filter(owner=scene.omar)) == ended
    lines = AuditEvent.objects.filter(action="hand_over_job")
    assert {line.after["owner"] for line in lines} == {"mei"}
    assert lines.count() == 5


@pytest.mark.parametrize("heir", ["", "viewer", "stranger"])
def test_nobody_who_may_run_no_jobs_is_handed_any(as_person, scene, heir):
    others = {
        "viewer": MembershipFactory(tenant=scene.language, role=Role.VIEWER),
        "stranger": MembershipFactory(role=Role.LEAD),
    }
    sent = {"jobs": "hand_over", "heir": others[heir].pk if heir else ""}

    answer = as_person("mei").post(PEOPLE + "omar/remove/", sent)

    assert answer.status_code == 422
    assert scene.language.memberships.filter(user=scene.omar).exists()
    assert Job.objects.filter(owner=scene.omar).exclude(state__in=FINAL).count() == 5
