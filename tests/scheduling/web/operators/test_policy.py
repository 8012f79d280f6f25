"""The policy of a cluster on its page: what is in force, changes, trials, history, the way back."""

import re
from dataclasses import fields

import pytest
from django.utils import translation

from portal.core.models import AuditEvent
from scheduling.engine import policy as engine
from scheduling.engine.codec import to_plain
from scheduling.models import Policy
from scheduling.services.policies import DEFAULT, policy_in_force, set_policy
from scheduling.web.operators.knobs import KNOBS
from scheduling.web.operators.policy import PolicyForm
from scheduling.web.spans import span_seconds, span_text
from tests.factories import ClusterFactory, PolicyFactory
from tests.scheduling.world import World

PAGE = "/admin/policies/"
NOT_TURNED_HERE = {"consolidation"}  # no cycle reads it


def text_of(response):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def part(response, name):
    """The text of the element with that id."""
    found = re.search(
        rf'id="{name}"[^>]*>(.*?)</(?:p|dd|ol)>', response.content.decode(), re.DOTALL
    )
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split())


@pytest.fixture
def as_shown(scene):
    """A function that gives what the browser sends: the form as shown, with changes."""

    def filled_in(*, seen=0, cluster="demo", note="because", action="save", **said):
        form = PolicyForm(before=policy_in_force(scene.cluster))
        shown = {name: form[name].value() for name in KNOBS}
        values = {"across": shown["across"] or "", "default_walltime": ""} | said
        data = {name: value for name, value in (shown | values).items() if value is not False}
        return data | {"seen": seen, "cluster": cluster, "note": note, "action": action}

    return filled_in


def test_every_knob_that_a_cycle_reads_is_on_the_page():
    assert {field.name for field in fields(engine.Policy)} - set(KNOBS) == NOT_TURNED_HERE


def test_the_page_says_what_is_in_force_and_what_is_usual(as_root, scene):
    set_policy(scene.cluster, {"hold_expiry": 5400}, by=scene.root, seen=0, note="slow stops")

    page = as_root.get(PAGE)

    assert part(page, "policy-say").startswith(
        "Policy 1 is in force. 1 of 16 knobs differs from its default."
    )
    assert "In force: 1 h 30 min. Default: 30 min." in text_of(page)
    assert "In force: 14 days, the default." in text_of(page)
    assert part(page, "policy-history").startswith(
        "Policy 1 · in force slow stops Devices are kept for: 30 min → 1 h 30 min"
    )


def test_a_change_is_written_with_its_note_and_audited(as_root, scene, as_shown):
    answer = as_root.post(PAGE, as_shown(hold_expiry="45 min", order="fair", across="200"))

    row = Policy.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    assert (row.number, row.note, row.by) == (1, "because", scene.root)
    wanted = {"hold_expiry": 2700, "order": "fair", "across": 200}
    assert row.values == to_plain(DEFAULT) | wanted
    assert AuditEvent.objects.get(action="set_policy").reason == "because"
    page = as_root.get(PAGE)
    assert "Stops across tenants from: none → high (200)" in text_of(page)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"hold_expiry": "soon"}, "Write a time with its unit: 30 min, 12 h, 14 days."),
        ({"hold_expiry": "11 years"}, "Write a time with its unit"),
        ({"hold_expiry": "600 weeks"}, "That is longer than ten years."),
        ({"reservations": "-1"}, "greater than or equal to 0"),
        ({"order": "alphabetical"}, "Select a valid choice"),
        ({"order": "fair", "note": ""}, "This field is required."),
        ({}, "Nothing differs from the policy in force."),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_changed(as_root, as_shown, said, complaint):
    answer = as_root.post(PAGE, as_shown(**said))

    assert answer.status_code == 422
    assert complaint in text_of(answer)
    assert not Policy.objects.exists()


def test_the_second_of_two_operators_sees_what_the_first_changed_and_keeps_their_own(
    as_root, scene, as_shown
):
    late = as_shown(order="fair", note="mine")
    set_policy(scene.cluster, {"reservations": 4}, by=scene.root, seen=0, note="theirs")

    answer = as_root.post(PAGE, late)

    assert answer.status_code == 409
    assert "Somebody else changed the policy in the meantime" in text_of(answer)
    assert "Promised places: 1 → 4" in text_of(answer)
    form = answer.context["form"]
    assert (form["order"].value(), form["reservations"].value(), form["note"].value()) == (
        "fair",
        4,
        "mine",
    )
    assert answer.context["seen"] == 1
    as_root.post(PAGE, as_shown(seen=1, order="fair", note="mine"))
    assert (policy_in_force(scene.cluster).reservations, Policy.objects.count()) == (4, 2)


def test_one_button_leads_back_to_an_earlier_policy(as_root, scene):
    set_policy(scene.cluster, {"reservations": 4}, by=scene.root, seen=0)
    set_policy(scene.cluster, {"order": "fifo"}, by=scene.root, seen=1)

    answer = as_root.post(PAGE + "restore/", {"cluster": "demo", "seen": 2, "number": 1})

    newest = Policy.objects.order_by("-number").first()
    assert (answer["Location"], newest.number, newest.note) == (PAGE, 3, "Back to policy 1.")
    assert newest.values == to_plain(DEFAULT) | {"reservations": 4}


@pytest.mark.parametrize(
    ("sent_back", "status"),
    [
        ({"seen": 0, "number": 0}, 409),
        ({"seen": 1, "number": 1}, 422),
        ({"seen": 1, "number": 7}, 404),
        ({"seen": 1, "number": "one"}, 404),
        ({"seen": 1, "number": 0, "cluster": "gone"}, 404),
        ({"seen": 1, "number": 0}, 302),
    ],
)
def test_the_way_back_is_checked_too(as_root, scene, sent_back, status):
    set_policy(scene.cluster, {"reservations": 4}, by=scene.root, seen=0)

    answer = as_root.post(PAGE + "restore/", {"cluster": "demo"} | sent_back)

    assert (answer.status_code, Policy.objects.count()) == (status, 2 if status == 302 else 1)


def test_a_change_goes_to_the_cluster_of_the_form_not_to_the_chosen_one(as_root, scene, as_shown):
    other = ClusterFactory(slug="other", name="Other")
    as_root.post("/preferences/cluster/", {"cluster": "other", "next": "/"})

    as_root.post(PAGE, as_shown(order="fair"))
    nowhere = as_root.post(PAGE, as_shown(order="fair", cluster="gone"))

    assert "Policy of Other" in text_of(as_root.get(PAGE))
    assert Policy.objects.get().cluster == scene.cluster != other
    assert nowhere.status_code == 404


@pytest.mark.parametrize("who", ["mei", "omar", "newcomer"])
@pytest.mark.parametrize("path", [PAGE, PAGE + "restore/"])
def test_only_operators_see_and_change_it(as_person, scene, as_shown, who, path):
    client = as_person(who)

    asked = client.post(path, as_shown(order="fair") | {"number": 0})

    assert asked.status_code == 403
    assert client.get(PAGE).status_code == 403
    assert PAGE not in client.get("/").content.decode()
    assert not Policy.objects.exists()


def test_an_operator_finds_it_from_home_and_from_the_map(as_root):
    for start in ("/", "/cluster/"):
        assert f'href="{PAGE}"' in as_root.get(start).content.decode()


@pytest.mark.django_db
def test_without_a_cluster_the_page_says_so(client, django_user_model):
    client.force_login(django_user_model.objects.create(username="olga", is_operator=True))

    assert "No cluster is known to the portal." in text_of(client.get(PAGE))


@pytest.mark.parametrize("count", [1, 15])
def test_the_history_costs_the_same_however_long(as_root, scene, count, django_assert_num_queries):
    PolicyFactory.create_batch(count, cluster=scene.cluster, by=scene.root)

    # session, user, frame (2); in force (2: form and page), newest, count, rows; names (2)
    with django_assert_num_queries(11):
        as_root.get(PAGE)


class TestTrial:
    """On a cluster of two nodes of 8 GPUs, with a cycle that was recorded."""

    @pytest.fixture
    def world(self, db):
        return World.of()

    @pytest.fixture
    def root(self, client, world, django_user_model):
        client.force_login(django_user_model.objects.create(username="olga", is_operator=True))
        return client

    def form(self, world, **said):
        shown = PolicyForm(before=policy_in_force(world.cluster))
        values = {name: shown[name].value() for name in KNOBS}
        values |= {"across": "", "default_walltime": "", "action": "try", "seen": 0}
        values |= {"cluster": world.cluster.slug} | said
        return {
            name: value
            for name, value in values.items()
            if value is not False and value is not None
        }

    def test_it_says_who_would_start_besides(self, root, world):
        world.tenant.quotas.update(nominal=64)
        world.running(gpus=8, walltime_seconds=7200)
        world.submit(name="wide", members=2, gpus=8, walltime_seconds=3600)
        long = world.submit(name="long", gpus=8, walltime_seconds=86_400)
        world.plan()

        answer = root.post(PAGE, self.form(world, reservations="0"))

        assert answer.status_code == 200
        assert part(answer, "trial-says") == (
            "Of 2 waiting jobs 1 would start with these knobs; with those in force 0."
        )
        assert part(answer, "trial-gained") == "long"
        assert f"/jobs/{long.public_id}/" in answer.content.decode()
        assert not Policy.objects.exists()

    def test_it_says_when_nothing_would_differ(self, root, world):
        world.submit(gpus=8)
        world.plan()

        answer = root.post(PAGE, self.form(world, hold_expiry="1 h"))

        assert part(answer, "trial-says") == (
            "It would have decided the same: 1 of 1 waiting jobs starts."
        )

    def test_without_a_recorded_cycle_there_is_nothing_to_try_it_on(self, root, world):
        answer = root.post(PAGE, self.form(world, hold_expiry="1 h"))

        assert "No cycle has been recorded with what it saw" in text_of(answer)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 1800, 5400, 86_400, 90_061, 1_209_600])
def test_a_span_is_read_as_it_is_written(language, seconds):
    with translation.override(language):
        assert span_seconds(span_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("1.5h", 5400), ("12h30min", 45_000), ("2 weeks", 1_209_600), ("30 分钟", 1800)],
)
def test_a_span_may_be_written_in_many_ways(text, seconds):
    assert span_seconds(text) == seconds


@pytest.mark.parametrize("text", [" ", "30", "min", "3 moons", "0.0001 h", "1 h and 2 min", "-1 h"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(text)):
        span_seconds(text)
