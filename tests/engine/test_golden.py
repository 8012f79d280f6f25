import pytest

from scheduling.engine.codec import decode, encode
from scheduling.engine.cycle import plan_cycle
from scheduling.engine.policy import Policy
from scheduling.engine.snapshot import Snapshot
from tests.engine.golden import FOLDER, SEEDS, read

RECORDED = sorted(FOLDER.glob("*.json.gz"))


def test_every_recorded_cycle_is_here():
    assert len(RECORDED) == len(SEEDS)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.split(".")[0])
def test_a_recorded_cycle_is_planned_as_it_was(path):
    recorded = read(path)

    plan = plan_cycle(decode(recorded["snapshot"], Snapshot), decode(recorded["policy"], Policy))

    assert encode(plan) == recorded["plan"]
