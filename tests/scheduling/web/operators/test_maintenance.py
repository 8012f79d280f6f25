"""Maintenance and blocks in the browser: the list for everybody, forms for operators."""

from datetime import timedelta

import pytest

from portal.core.models import AuditEvent
from scheduling.models import CapacityBlock, Job
from scheduling.reports.upcoming import upcoming_in
from scheduling.services.blocks import BlockRequest, promise_block
from scheduling.services.maintenance import WindowRequest, plan_maintenance
from scheduling.web.operators.timeline import draw_timeline
from tests.scene import NOON
from tests.scheduling.web.operators.test_policy import part, text_of
from topology.models import MaintenanceWindow

PAGE = "/cluster/maintenance/"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# The scene's clock shows noon of 2 March and runs 60 times as fast as the wall's.


@pytest.fixture
def window(scene):
    """Of the first two nodes, tomorrow from noon to four."""
    wanted = WindowRequest(
        nodes=scene.nodes[:2], from_at=NOON + DAY, until_at=NOON + DAY + 4 * HOUR, note="Firmware"
    )
    return plan_maintenance(wanted, cluster=scene.cluster, by=scene.root)


@pytest.fixture
def block(scene):
    """Four GPUs of the first node for `nlp`, in three days."""
    wanted = BlockRequest(
        name="course",
        amounts={scene.nodes[0]: 4},
        from_at=NOON + 3 * DAY,
        until_at=NOON + 4 * DAY,
        tenant=scene.language,
    )
    return promise_block(wanted, cluster=scene.cluster, by=scene.root)


def window_form(**said):
    usual = {
        "cluster": "demo",
        "from_at": "2026-03-05T08:00",
        "until_at": "2026-03-05T12:00",
        "note": "New switch",
        "nodes": ["h100-01", "l40s-02"],
        "action": "save",
    }
    return usual | said


def block_form(**said):
    usual = {
        "cluster": "demo",
        "from_at": "2026-03-09T08:00",
        "until_at": "2026-03-10T08:00",
        "name": "deadline",
        "tenant": "vision",
        "gpus-h100-01": "8",
        "gpus-h100-02": "4",
        "gpus-l40s-01": "",
        "action": "save",
    }
    return usual | said


def mark_on(client, path):
    return client.get(path).context["mark"]


def test_everybody_sees_what_is_kept_free_and_when(as_person, scene, window, block):
    page = as_person("omar").get(PAGE)

    assert part(page, "maintenance-say").startswith("2 are planned. No job is started")
    assert "Firmware" in text_of(page)
    assert "for jobs of nlp" in text_of(page)
    assert "Plan maintenance" not in text_of(page)
    assert f"{PAGE}windows/{window.pk}/" not in page.content.decode()
    # llama runs on both nodes; its limit is over, but it is limited: it counts only before its end
    assert [row.staying for row in upcoming_in(scene.cluster, at=NOON)] == [0, 0]


def test_who_may_still_be_there_is_counted_but_not_whom_a_block_is_for(scene, window, block):
    Job.objects.filter(state="running").update(walltime_seconds=None)

    rows = upcoming_in(scene.cluster, at=NOON)

    assert [(row.kind, row.gpus, row.staying) for row in rows] == [
        ("window", 16, 1),
        ("block", 4, 0),
    ]


def test_what_is_over_is_not_listed(scene, window):
    assert upcoming_in(scene.cluster, at=window.until_at) == []
    assert len(upcoming_in(scene.cluster, at=window.until_at - timedelta(seconds=1))) == 1


def test_the_picture_has_what_begins_within_two_weeks(scene, window, block):
    later = WindowRequest(nodes=scene.nodes[:1], from_at=NOON + 20 * DAY, until_at=NOON + 21 * DAY)
    plan_maintenance(later, cluster=scene.cluster, by=scene.root)

    drawn = draw_timeline(upcoming_in(scene.cluster, at=NOON), NOON)

    assert [(round(bar.x, 2), round(bar.width, 2)) for bar in drawn.bars] == [
        (10.71, 1.19),  # a day and a half of 14, four hours of them
        (25.0, 7.14),
    ]
    assert (round(drawn.now_x, 2), drawn.later) == (3.57, 1)


def test_an_operator_plans_maintenance_with_one_form(as_root, scene):
    answer = as_root.post(PAGE + "windows/new/", window_form())

    window = MaintenanceWindow.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    assert sorted(node.name for node in window.nodes.all()) == ["h100-01", "l40s-02"]
    assert (window.from_at - NOON, window.until_at - window.from_at) == (68 * HOUR, 4 * HOUR)
    assert window.note == "New switch"
    page = as_root.get(PAGE)
    assert part(page, "kept-history").startswith(
        "Maintenance planned : New switch, h100-01, l40s-02, 2026-03-05 08:00 – 2026-03-05 12:00"
    )


def test_the_form_takes_times_of_the_readers_zone(as_root):
    as_root.cookies["zone"] = "Asia/Shanghai"

    as_root.post(
        PAGE + "windows/new/", window_form(from_at="2026-03-05T16:00", until_at="2026-03-05T20:00")
    )

    assert MaintenanceWindow.objects.get().from_at - NOON == 68 * HOUR


@pytest.mark.parametrize(
    ("path", "form", "complaint"),
    [
        ("windows/new/", window_form(nodes=[]), "Choose at least one node."),
        ("windows/new/", window_form(nodes=["nothing"]), "Choose at least one node."),
        ("windows/new/", window_form(until_at="2026-03-05T08:00"), "It ends after it begins."),
        ("windows/new/", window_form(until_at="2026-03-01T08:00"), "That is over already"),
        ("windows/new/", window_form(until_at="2500-03-01T08:00"), "the years 2000 to 2199"),
        ("windows/new/", window_form(from_at="soon"), "Enter a valid date/time."),
        (
            "blocks/new/",
            block_form(**{"gpus-h100-01": "9"}),
            "Not so many GPUs are there: h100-01.",
        ),
        ("blocks/new/", block_form(**{"gpus-h100-01": "some"}), "Not so many GPUs are there"),
        (
            "blocks/new/",
            block_form(**{"gpus-h100-01": "0", "gpus-h100-02": ""}),
            "Choose GPUs of at least one node.",
        ),
        ("blocks/new/", block_form(name="two words"), "Enter a valid"),
        ("blocks/new/", block_form(name="course"), "There is a block course in this cluster"),
        (
            "blocks/new/",
            block_form(from_at="2026-03-05T13:00", until_at="2026-03-05T14:00"),
            "h100-01 has 4 GPUs left beside other blocks of that time.",
        ),
    ],
)
def test_what_cannot_be_planned_is_said_and_what_was_written_is_kept(
    as_root, block, path, form, complaint
):
    answer = as_root.post(PAGE + path, form)

    assert answer.status_code == 422
    assert complaint in text_of(answer)
    assert form.get("note", form.get("name")) in answer.content.decode()
    assert (MaintenanceWindow.objects.count(), CapacityBlock.objects.count()) == (0, 1)


def test_blocks_one_after_the_other_take_the_same_gpus(as_root, block):
    again = block_form(from_at="2026-03-06T13:00", until_at="2026-03-07T13:00")

    assert as_root.post(PAGE + "blocks/new/", again).status_code == 302


def test_an_operator_sees_first_whom_it_touches(as_root, scene):
    Job.objects.filter(state="running").update(walltime_seconds=None)

    answer = as_root.post(PAGE + "windows/new/", window_form(action="check"))

    assert answer.status_code == 200
    assert part(answer, "touched-says") == (
        "2 running jobs may not have ended when it begins. They are not stopped."
    )
    assert "yolo-detector" in text_of(answer)
    assert "llama-70b-pretrain" in text_of(answer)
    assert "checked" in answer.content.decode()
    assert not MaintenanceWindow.objects.exists()


def test_a_block_does_not_touch_the_jobs_that_it_is_for(as_root, scene):
    Job.objects.filter(state="running").update(walltime_seconds=None)

    theirs = as_root.post(PAGE + "blocks/new/", block_form(action="check", tenant="nlp"))
    others = as_root.post(PAGE + "blocks/new/", block_form(action="check", tenant="vision"))

    assert part(theirs, "touched-says").startswith("Every job that runs there now ends before")
    assert part(others, "touched-says").startswith("1 running job may not have ended")


def test_a_window_and_a_block_are_changed_and_the_change_is_audited(as_root, window, block):
    paths = (f"{PAGE}windows/{window.pk}/", f"{PAGE}blocks/{block.pk}/")
    forms = (window_form(note="Later"), block_form(name="course-2", **{"gpus-h100-01": "2"}))

    for path, form in zip(paths, forms, strict=True):
        answer = as_root.post(path, form | {"seen": mark_on(as_root, path)})
        assert answer.status_code == 302

    window.refresh_from_db()
    block.refresh_from_db()
    assert (window.note, window.nodes.count()) == ("Later", 2)
    assert (block.name, block.tenant.slug) == ("course-2", "vision")
    assert dict(block.parts.values_list("node__name", "gpus")) == {"h100-01": 2, "h100-02": 4}
    event = AuditEvent.objects.get(action="change_block")
    assert (event.before["gpus"], event.after["gpus"]) == (
        {"h100-01": 4},
        {"h100-01": 2, "h100-02": 4},
    )


def test_the_second_of_two_operators_looks_again(as_root, window):
    path = f"{PAGE}windows/{window.pk}/"
    late = window_form(note="mine", seen=mark_on(as_root, path))
    as_root.post(path, late | {"note": "theirs"})

    answer = as_root.post(path, late)

    assert answer.status_code == 409
    assert "Somebody else changed it in the meantime" in text_of(answer)
    assert answer.context["form"]["note"].value() == "theirs"
    window.refresh_from_db()
    assert window.note == "theirs"


def test_what_has_not_begun_is_cancelled_without_a_trace_but_the_audit(as_root, window, block):
    as_root.post(f"{PAGE}windows/{window.pk}/cancel/")
    as_root.post(f"{PAGE}blocks/{block.pk}/cancel/")

    assert not MaintenanceWindow.objects.exists()
    assert not CapacityBlock.objects.exists()
    assert set(AuditEvent.objects.values_list("action", flat=True)) >= {
        "cancel_maintenance",
        "cancel_block",
    }
    assert "Maintenance cancelled : Firmware, h100-01, h100-02" in text_of(as_root.get(PAGE))


def test_what_is_under_way_ends_at_once(as_root, window, block):
    for row in (window, block):
        row.from_at = NOON - HOUR
        row.save()

    as_root.post(f"{PAGE}windows/{window.pk}/cancel/")
    as_root.post(f"{PAGE}blocks/{block.pk}/cancel/")

    for row in (window, block):
        row.refresh_from_db()
        assert row.from_at < row.until_at < NOON + HOUR * 12
    assert as_root.get(f"{PAGE}windows/{window.pk}/").status_code == 404


@pytest.mark.parametrize("who", ["mei", "omar", "newcomer"])
def test_only_operators_plan(as_person, window, block, who):
    client = as_person(who)
    paths = ["windows/new/", f"windows/{window.pk}/", "blocks/new/", f"blocks/{block.pk}/"]

    asked = [client.get(PAGE + path).status_code for path in paths]
    sent = [client.post(PAGE + path, window_form()).status_code for path in paths]
    cancelled = [client.post(f"{PAGE}{path}cancel/").status_code for path in (paths[1], paths[3])]

    assert {*asked, *sent, *cancelled} == {403}
    assert client.get(PAGE).status_code == 200
    assert (MaintenanceWindow.objects.count(), CapacityBlock.objects.count()) == (1, 1)


@pytest.mark.parametrize("entry", ["0", "99999999", "99999999999999999999"])
def test_what_is_not_there_is_not_found(as_root, entry):
    assert as_root.get(f"{PAGE}windows/{entry}/").status_code == 404
    assert as_root.post(f"{PAGE}blocks/{entry}/cancel/").status_code == 404


def test_a_job_that_waits_for_maintenance_leads_there(as_person, scene):
    job = scene.jobs["moe-128-experts"]
    client = as_person("omar")
    before = client.get(f"/jobs/{job.public_id}/").content.decode()
    Job.objects.filter(pk=job.pk).update(reason="maintenance", reason_numbers={}, version=7)

    page = client.get(f"/jobs/{job.public_id}/").content.decode()

    assert 'id="to-maintenance"' not in before
    assert f'id="to-maintenance" href="{PAGE}?cluster=demo"' in page


def test_a_nodes_page_leads_to_the_form_with_the_node_chosen(as_root):
    address = f"{PAGE}windows/new/?node=h100-02"

    assert address in as_root.get("/cluster/nodes/h100-02/").content.decode()
    chosen = [
        line["node"].name
        for _model, lines in as_root.get(address).context["form"].pools()
        for line in lines
        if line["chosen"]
    ]
    assert chosen == ["h100-02"]


@pytest.mark.parametrize("count", [1, 8])
def test_the_list_costs_the_same_for_any_number(as_root, scene, count, django_assert_num_queries):
    for number in range(count):
        span = {"from_at": NOON + DAY, "until_at": NOON + 2 * DAY}
        nodes = scene.nodes[: number + 1]
        plan_maintenance(WindowRequest(nodes=nodes, **span), cluster=scene.cluster, by=scene.root)
        wanted = BlockRequest(name=f"b-{number}", amounts={scene.nodes[number]: 1}, **span)
        promise_block(wanted, cluster=scene.cluster, by=scene.root)

    # session, user, frame (2); running, windows, nodes, blocks, parts, nodes; who planned it
    with django_assert_num_queries(11):
        as_root.get(PAGE)
