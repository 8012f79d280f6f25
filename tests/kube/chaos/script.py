"""What happens in one round, drawn from its seed: gangs, deaths, weather."""

from dataclasses import dataclass
from random import Random

from scheduling.services.requests import GroupRequest
from tests.kube.chaos.steps import STEPS

NODES = 4
GPUS = 8

# What has to happen in a round for these steps to be taken at all.
LOSES = {"stop written, nobody told", "some told again"}
CLOSES = {"late start found, stop half written"}
BLIND_AT_THE_END = {"a member noted as gone", "removal half settled", "removal settled"}
BLIND_AT_SHRINK = {"a leaving member noted as gone"}
ELASTIC = {
    "half of the new members written",
    "size written, nobody told",
    "half of the leaving written",
    "Job resized",
    "some gates of new members open",
    *BLIND_AT_SHRINK,
}


@dataclass(frozen=True)
class Gang:
    """after: seconds from the one before it. runs: for how long its pods do; None until stopped.

    cancelled_when: the state in which somebody cancels it; None if nobody does.
    """

    name: str
    groups: tuple[GroupRequest, ...]
    after: float = 0.0
    runs: float | None = 0.5
    cancelled_when: str | None = None

    @property
    def stays(self):
        return self.runs is None


@dataclass(frozen=True)
class Death:
    """The step after which a process of the role dies, at which time it is done."""

    step: str
    count: int

    @property
    def role(self):
        return STEPS[self.step].who


@dataclass(frozen=True)
class Script:
    """certain: deaths that are to happen. perhaps: further ones, if it comes to that.

    kills: (seconds, role) at which whoever is alive then is killed, wherever it is.
    closes: which gate it is whose node is closed before it opens; None for no node.
    bind_seconds: the product's time to bind.
    claimant: comes when the elastic gang has grown, and needs what it grew by.
    outages: (seconds, how long) nobody answers.
    """

    seed: int
    gangs: tuple[Gang, ...]
    certain: tuple[Death, ...]
    perhaps: tuple[Death, ...]
    kills: tuple[tuple[float, str], ...]
    closes: int | None
    bind_seconds: int
    claimant: Gang | None
    blind_at_shrink: bool
    blind_at_the_end: bool
    workers: int
    slow: float
    fails: float
    strays: float
    watch_seconds: float
    outages: tuple[tuple[float, float], ...]
    lost_messages: float


def script_of(seed):
    """The same for the same seed, but for what the machine's clock makes of it."""
    random = Random(seed)  # noqa: S311 - hides nothing
    certain = tuple(Death(step, 1) for step in _certain(seed))
    steps = {death.step for death in certain}
    is_elastic = bool(steps & ELASTIC) or random.random() < 0.3
    closes = bool(steps & CLOSES) or random.random() < 0.15
    return Script(
        seed=seed,
        gangs=tuple(_gangs(random, is_elastic=is_elastic)),
        certain=certain,
        perhaps=tuple(_perhaps(random)),
        kills=tuple(_kills(random)),
        closes=random.randint(1, 3) if closes else None,
        bind_seconds=5 if closes else 30,
        claimant=Gang("claimant", (_group(1, GPUS),), runs=0.2) if is_elastic else None,
        blind_at_shrink=bool(steps & BLIND_AT_SHRINK),
        blind_at_the_end=bool(steps & BLIND_AT_THE_END),
        workers=random.choice([1, 1, 2]),
        slow=random.choice([0, 0, 0.2, 0.5]),
        fails=random.choice([0, 0, 0.1, 0.3]),
        strays=random.choice([0, 0, 0.03, 0.1]),
        watch_seconds=random.choice([10.0, 10.0, 1.0, 0.3]),
        outages=((random.uniform(0.2, 2), random.uniform(0.2, 0.8)),) * random.choice([0, 0, 1]),
        lost_messages=random.choice([0, 0.3, 1.0] if not steps & LOSES else [1.0]),
    )


def _certain(seed):
    """Two of the steps each time, so that fifteen seeds in a row have them all."""
    names = list(STEPS)
    return [names[(2 * seed + place) % len(names)] for place in range(2)]


def _perhaps(random):
    for step in random.sample(sorted(STEPS), random.choice([0, 1, 2])):
        yield Death(step, random.randint(1, STEPS[step].most))


def _kills(random):
    for _ in range(random.choice([0, 0, 1, 2])):
        yield random.uniform(0.1, 2.5), random.choice(["worker", "watcher"])


def _group(members, gpus, **more):
    return GroupRequest(members=members, gpus_per_member=gpus, cpu_milli=500, **more)


def _gangs(random, *, is_elastic):
    """One that stays to the end, and a few that come and go."""
    if is_elastic:
        yield Gang("filler", (_group(3, GPUS),), runs=0.3)
        yield Gang("stays", (_group(1, GPUS, max_member=4),), runs=None)
    else:
        yield Gang("stays", (_group(2, 2),), runs=None)
    for place in range(3 if is_elastic else 4):
        shape = random.choice(_SHAPES)
        yield Gang(
            f"{shape.__name__}-{place}".replace("_", ""),
            tuple(shape(random)),
            after=random.uniform(0, 0.2),
            runs=random.choice([0.1, 0.3, 0.8]),
            cancelled_when=random.choice([*[None] * 6, "queued", "starting", "running"]),
        )


def _single(random):
    yield _group(1, random.choice([1, 2, 8]))


def _gang(random):
    yield _group(random.choice([2, 4]), random.choice([1, 2, 4]))


def _nodes(random):
    yield _group(2, GPUS)


def _groups(random):
    yield _group(1, 0, name="head")
    yield _group(random.choice([2, 3]), random.choice([2, 4]), name="workers")


def _cpu(random):
    yield _group(random.choice([1, 3]), 0)


def _elastic(random):
    yield _group(1, 4, max_member=3)


_SHAPES = (_single, _gang, _nodes, _groups, _cpu, _elastic)
