import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from scheduling import cycle
from scheduling.engine import codec
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.scenario import read_scenario
from scheduling.models import Cycle, Job
from scheduling.services.recording import export_cycle
from scheduling.services.submission import GroupRequest, JobRequest, submit_job
from tests.factories import ClusterFactory, MembershipFactory, NodeFactory, QuotaFactory
from tests.scheduling.world import after, lender_and_borrower

T0 = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    """One node of eight GPUs, quota for all of them, and a job of sixteen that never fits."""
    cluster = ClusterFactory()
    node = NodeFactory(cluster=cluster)
    member = MembershipFactory()
    QuotaFactory(tenant=member.tenant, flavor=node.flavor, nominal=8)
    asked = JobRequest(
        name="big", cluster=cluster, groups=(GroupRequest(gpus_per_member=8, members=2),)
    )
    submit_job(asked, tenant=member.tenant, by=member.user, at=T0)
    return cluster


def replay(text, tmp_path):
    file = tmp_path / "cycle.json"
    file.write_text(text)
    out = StringIO()
    call_command("replay_snapshot", str(file), stdout=out)
    return out.getvalue()


def test_a_recorded_cycle_gives_the_same_plan_again(cluster, tmp_path):
    cycle.run(cluster.pk, at=T0 + timedelta(seconds=5))

    answer = replay(export_cycle(Cycle.objects.get()), tmp_path)

    assert answer == "same: 1 decisions, byte for byte\n"


def test_a_recorded_plan_is_doubted_under_the_policy_that_it_was_made_with(tmp_path):
    world = read_scenario(
        """
        node   a 1xA100-40GB
        tenant A
        tenant B
        run    x 1x1 on 1@a tenant=A
        job    j 1x1 tenant=B p5
        policy across=5
        """
    )
    snapshot, policy = world.snapshot(), world.world.policy
    parts = {"snapshot": snapshot, "policy": policy, "plan": plan_cycle(snapshot, policy)}
    text = json.dumps({name: json.loads(codec.encode(part)) for name, part in parts.items()})

    assert replay(text, tmp_path) == "same: 2 decisions, byte for byte\n"


def test_a_cycle_that_decides_the_same_is_not_recorded_twice(cluster):
    for second in range(3):
        cycle.run(cluster.pk, at=T0 + timedelta(seconds=second))

    assert Cycle.objects.count() == 1


def test_a_plan_that_is_no_longer_the_same_is_shown_line_by_line(cluster, tmp_path):
    cycle.run(cluster.pk, at=T0)
    parts = json.loads(export_cycle(Cycle.objects.get()))
    parts["plan"]["value"]["decisions"] = []

    with pytest.raises(SystemExit) as exit_:
        replay(json.dumps(parts), tmp_path)

    assert exit_.value.code == 1


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    with pytest.raises(CommandError, match="is no recorded cycle"):
        replay("[" * 200_000, tmp_path)


def test_a_file_that_is_no_cycle_is_refused(tmp_path):
    with pytest.raises(CommandError, match="is no recorded cycle"):
        replay("{}", tmp_path)


def test_a_snapshot_over_the_limit_is_not_kept(cluster):
    cluster.snapshot_limit_kib = 0
    cluster.save()

    cycle.run(cluster.pk, at=T0)

    with pytest.raises(LookupError, match="too large"):
        export_cycle(Cycle.objects.get())


def scenario(cycle):
    out, err = StringIO(), StringIO()
    call_command("scenario_from_cycle", str(cycle.pk), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_a_recorded_cycle_is_printed_as_a_scenario_that_plans_the_same(cluster):
    cycle.run(cluster.pk, at=T0 + timedelta(seconds=5))
    recorded = Cycle.objects.get()

    text, complaint = scenario(recorded)

    name = Job.objects.get().public_id
    level = "largest=1 now=1"
    assert complaint == ""
    assert read_scenario(text).plan_lines() == [f"hold {name} never_fits {level}"]


def test_jobs_that_run_wait_and_make_room_are_in_the_scenario(db):
    lender, borrower = lender_and_borrower()
    seldom, often = borrower.running(gpus=4), borrower.running(gpus=4)
    for job, saved_at in ((seldom, 100), (often, 300)):
        borrower.say(job, "running", checkpoint_at=after(saved_at), at=after(saved_at))
    owner = lender.submit(gpus=4, at=after(400))
    lender.plan(at=after(400))
    lender.plan(at=after(401))

    texts = [scenario(own) for own in Cycle.objects.order_by("pk")]

    assert [complaint for _, complaint in texts] == [""] * len(texts)
    decided = [read_scenario(text).plan_lines()[0] for text, _ in texts]
    assert decided[-2] == f"stop {often.public_id} for {owner.public_id}"
    assert decided[-1].startswith(f"hold {owner.public_id} making_room")


def test_a_scenario_of_a_cycle_whose_snapshot_was_not_kept_is_refused(cluster):
    cluster.snapshot_limit_kib = 0
    cluster.save()
    cycle.run(cluster.pk, at=T0)

    with pytest.raises(CommandError, match="was not kept"):
        scenario(Cycle.objects.get())
