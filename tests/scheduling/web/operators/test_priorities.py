"""Priority classes in the browser: who may use what, who does, and how operators change them."""

import pytest

from portal.core.errors import Refused
from portal.core.models import AuditEvent
from scheduling.services.submission import submit_job
from scheduling.web.copying import pattern_of
from tenants.models import PriorityClass
from tests.factories import JobFactory, PriorityClassFactory
from tests.scheduling.web.operators.test_policy import part, text_of
from tests.scheduling.world import T0, World

PAGE = "/admin/priorities/"
HIGH = PAGE + "of/high/"


def form(**said):
    return {"name": "rush", "value": "300", "description": "For demos"} | said


def mark(client, path=HIGH):
    return client.get(path).context["mark"]


def row_of(page, name):
    (found,) = [row for row in page.context["rows"] if row.row.name == name]
    return found


def test_the_list_says_who_may_and_who_does(as_root, scene):
    scene.vision.highest_priority = PriorityClass.objects.get(name="normal")
    scene.vision.save()

    page = as_root.get(PAGE)

    high, low = row_of(page, "high"), row_of(page, "low")
    assert [row.row.name for row in page.context["rows"]] == ["high", "normal", "low"]
    assert (high.barred, high.allowed, high.waiting, high.holding) == (("vision",), ("nlp",), 1, 0)
    assert (low.barred, low.waiting + low.holding) == ((), 7)
    assert "all but vision" in text_of(page)


def test_jobs_of_a_value_without_a_class_are_not_left_out(as_root, scene):
    JobFactory(cluster=scene.cluster, tenant=scene.language, priority=77)

    assert "No class has the value 77, but jobs do: 1 wait, 0 hold GPUs." in text_of(
        as_root.get(PAGE)
    )


def test_a_class_is_created_and_audited(as_root):
    answer = as_root.post(PAGE + "new/", form(is_default="on"))

    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    assert PriorityClass.objects.get(is_default=True).name == "rush"
    assert part(as_root.get(PAGE), "priority-history").startswith(
        "Created : rush, 300, For demos, default"
    )


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"name": "high"}, "Another class has that name."),
        ({"value": "200"}, "high has that value."),
        ({"value": "1000001"}, "less than or equal to 1000000"),
        ({"value": "much"}, "Enter a whole number."),
        ({"name": "two words"}, "Enter a valid"),
    ],
)
def test_what_cannot_be_is_said_beside_its_field(as_root, said, complaint):
    answer = as_root.post(PAGE + "new/", form(**said))

    assert answer.status_code == 422
    assert complaint in text_of(answer)
    assert PriorityClass.objects.count() == 3


def test_a_class_is_renamed_while_jobs_have_it_but_keeps_its_value(as_root, scene):
    refused = as_root.post(HIGH, form(seen=mark(as_root), name="urgent", value="250"))
    renamed = as_root.post(HIGH, form(seen=mark(as_root), name="urgent", value="200"))

    assert (refused.status_code, renamed.status_code) == (422, 302)
    assert "1 job has it and would keep the old value" in text_of(refused)
    assert list(PriorityClass.objects.filter(value=200).values_list("name", flat=True)) == [
        "urgent"
    ]
    event = AuditEvent.objects.get(action="change_priority_class")
    assert (event.before["name"], event.after["name"]) == ("high", "urgent")


def test_a_class_without_jobs_gets_another_value(as_root):
    PriorityClassFactory(name="unused", value=7)
    path = PAGE + "of/unused/"

    as_root.post(path, form(seen=mark(as_root, path), name="unused", value="8"))

    assert PriorityClass.objects.get(name="unused").value == 8


def test_there_is_always_a_default(as_root):
    path = PAGE + "of/normal/"
    data = form(seen=mark(as_root, path), name="normal", value="100")

    unset = as_root.post(path, data)
    retired = as_root.post(path + "retire/")

    assert "make another the default instead" in text_of(unset)
    assert retired.status_code == 302
    normal = PriorityClass.objects.get(name="normal")
    assert (normal.is_default, normal.retired_at) == (True, None)


def test_the_second_of_two_operators_looks_again(as_root):
    seen = mark(as_root)
    as_root.post(HIGH, form(seen=seen, name="high", value="200", description="theirs"))

    answer = as_root.post(HIGH, form(seen=seen, name="high", value="200", description="mine"))

    assert answer.status_code == 409
    assert PriorityClass.objects.get(name="high").description == "theirs"


def test_a_retired_class_is_offered_to_nobody_until_it_is_brought_back(as_root, as_person, scene):
    offered = 'value="%d"' % PriorityClass.objects.get(name="high").pk  # noqa: UP031 - of HTML
    omar = as_person("omar")

    as_root.post(HIGH + "retire/")
    without = omar.get("/jobs/new/").content.decode()
    copy = pattern_of(scene.jobs["moe-128-experts"])
    listed = text_of(as_root.get(PAGE))
    as_root.post(HIGH + "retire/", {"back": "1"})

    assert offered not in without
    assert not copy.initial["priority"]
    assert "high retired" in listed
    assert offered in omar.get("/jobs/new/").content.decode()
    actions = AuditEvent.objects.filter(object_kind="priorityclass").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "retire_priority_class",
        "restore_priority_class",
    ]


def test_a_retired_class_is_refused_of_who_still_asks_for_it(db):
    world = World.of()
    gone = PriorityClassFactory(name="gone", retired_at=T0)

    with pytest.raises(Refused) as refusal:
        submit_job(
            world.request(priority_class=gone), tenant=world.tenant, by=world.researcher, at=T0
        )

    assert refusal.value.field == "priority"


@pytest.mark.parametrize("who", ["mei", "omar", "newcomer"])
@pytest.mark.parametrize("path", [PAGE, PAGE + "new/", HIGH, HIGH + "retire/"])
def test_only_operators_see_and_change_them(as_person, who, path):
    client = as_person(who)

    assert client.post(path, form()).status_code in {403, 405}
    assert client.get(path).status_code in {403, 405}
    assert PriorityClass.objects.filter(retired_at=None).count() == 3


def test_what_is_not_there_is_not_found(as_root):
    assert as_root.get(PAGE + "of/none/").status_code == 404


@pytest.mark.parametrize("count", [1, 5])
def test_the_list_costs_the_same_for_any_number(as_root, count, django_assert_num_queries):
    for number in range(count):
        PriorityClassFactory(name=f"p-{number}", value=1000 + number)

    # session, user, clusters, announcements; jobs, classes, tenants; who changed what
    with django_assert_num_queries(8):
        as_root.get(PAGE)
