import pytest
from django.core.management import CommandError, call_command

from portal.core.errors import Conflict, NotAllowed, Refused
from portal.core.models import AuditEvent
from scheduling.engine.policy import Order, Packing
from scheduling.models import Policy
from scheduling.services.policies import DEFAULT, newest_policy, policy_in_force, set_policy
from tests.factories import ClusterFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator():
    return UserFactory(is_operator=True)


def test_defaults_hold_until_somebody_sets_a_policy():
    assert policy_in_force(ClusterFactory()) == DEFAULT


def test_a_change_keeps_the_other_knobs_and_the_row_before(operator):
    cluster = ClusterFactory()

    set_policy(cluster, {"order": "fair"}, by=operator, seen=0)
    set_policy(cluster, {"packing": "fgd", "reservations": 2}, by=operator, seen=1, note="try")

    policy = policy_in_force(cluster)
    assert (policy.order, policy.packing, policy.reservations) == (Order.FAIR, Packing.FGD, 2)
    assert list(Policy.objects.order_by("number").values_list("number", "note")) == [
        (1, ""),
        (2, "try"),
    ]


def test_each_change_is_audited_with_what_it_was_before(operator):
    set_policy(ClusterFactory(), {"reservations": 3}, by=operator, seen=0, note="more")

    event = AuditEvent.objects.get(action="set_policy")
    assert (event.actor, event.reason) == (operator, "more")
    assert (event.before["reservations"], event.after["reservations"]) == (1, 3)


def test_the_second_of_two_operators_looks_again(operator):
    cluster = ClusterFactory()
    set_policy(cluster, {"reservations": 1}, by=operator, seen=0)

    with pytest.raises(Conflict):
        set_policy(cluster, {"reservations": 2}, by=operator, seen=0)

    assert newest_policy(cluster).values["reservations"] == 1


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("order", "alphabetical"),
        ("reservations", -1),
        ("reservations", 1.5),
        ("reservations", None),
        ("min_run", "long"),
        ("strict", "off"),
        ("speed", 1),
    ],
)
def test_a_knob_that_is_not_there_or_cannot_be_that_is_refused_by_name(operator, knob, value):
    with pytest.raises(Refused) as refusal:
        set_policy(ClusterFactory(), {knob: value}, by=operator, seen=0)

    assert refusal.value.field == knob
    assert not Policy.objects.exists()


def test_only_operators_set_policies():
    with pytest.raises(NotAllowed):
        set_policy(ClusterFactory(), {"reservations": 1}, by=UserFactory(), seen=0)


def test_the_command_shows_and_changes_the_policy(operator, capsys):
    cluster = ClusterFactory(slug="main")

    call_command("set_policy", "main", "order=fair", "across=null", "--as", operator.username)

    shown = capsys.readouterr().out.splitlines()
    assert ('order="fair"' in shown, "reservations=1" in shown) == (True, True)
    assert policy_in_force(cluster).order == Order.FAIR


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "there is no cluster nowhere"),
        (["main", "order=fair"], "say who changes it"),
        (["main", "order", "--as", "olga"], "order is no KNOB=VALUE"),
        (["main", "order=best", "--as", "olga"], "order cannot be that"),
    ],
)
def test_the_command_says_what_is_wrong(words, message):
    ClusterFactory(slug="main")
    UserFactory(username="olga", is_operator=True)

    with pytest.raises(CommandError, match=message):
        call_command("set_policy", *words)

    assert not Policy.objects.exists()
