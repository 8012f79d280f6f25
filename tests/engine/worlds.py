"""Random small scenarios with everything in them: a seed gives a text."""

import random

SHAPES = (
    "1x1",
    "1x2",
    "1x4",
    "2x2",
    "3x1",
    "1..4x1",
    "2..3x2",
    "a:1..3x1+b:1x2",
    "2x0",
    "2xmig:3g.20gb",
    "1xmig:1g.5gb",
    "2xshare:4GiB",
    "1xshare:4GiB,2",
    "3xfrac:300m,8GiB",
)
NODE_KEYS = (
    "",
    "",
    "rack=r1",
    "rack=r2",
    "cpu=8",
    "closed",
    "window=+30m",
    "islands=0+1",
    "mode=time_slicing:4 gpumem=40GiB",
    "mode=mps:2,many gpumem=40GiB",
    "mode=hami gpumem=40GiB",
    "layouts=auto",
)
JOB_KEYS = (
    "standby",
    "fixed",
    "island",
    "cpu=2",
    "required=rack",
    "required=node",
    "stop=30s",
    "save=60s grace=2m",
    "preferred=rack",
)
EVENTS = ("end {}", "fail {}", "cancel {}")


class Writer:
    """Writes one scenario, line by line."""

    def __init__(self, seed):
        self.draw = random.Random(seed)  # noqa: S311 -- a scenario that can be written again
        self.model = self.draw.choice(["A100", "A100-40GB"])
        self.nodes = [f"n{number}" for number in range(self.draw.randint(1, 4))]
        self.tenants = list("ABC"[: self.draw.randint(0, 3)])

    def text(self):
        names = [f"j{number}" for number in range(self.draw.randint(1, 8))]
        lines = [*self.hardware(), *self.owners()]
        lines += [f"job {name} {self.draw.choice(SHAPES)} {self.keys()}" for name in names]
        lines += self.events(names)
        order = self.draw.choice(["fifo", "fair", "expansion"])
        strict = self.draw.choice(["off", "off", "on"])
        reservations = self.draw.choice([0, 1, 1, 2, 9])
        lines.append(f"policy order={order} strict={strict} reservations={reservations}")
        return "\n".join(lines)

    def hardware(self):
        for name in self.nodes:
            keys = self.draw.choice(NODE_KEYS)
            yield f"node {name} {self.draw.choice([2, 4, 8])}x{self.model} {keys}"
            if self.model == "A100-40GB" and not keys.startswith("mode") and self.chance(0.3):
                yield f"gpu {name}/0 mig 3g.20gb@0,1g.5gb@4,1g.5gb@5"
            if self.chance(0.2):
                yield f"gpu {name}/1 faulty"

    def owners(self):
        yield "cohort lab"
        for name in self.tenants:
            quota = f"quota={self.model}:{self.draw.randint(0, 6)}"
            loan = self.draw.choice(["", "+2", "-1", "+4-2"])
            yield f"tenant {name} cohort=lab {quota}{loan}"

    def keys(self):
        words = [self.draw.choice(JOB_KEYS)] if self.chance(0.4) else []
        words += [f"p{self.draw.randint(0, 3)}"] if self.chance(0.5) else []
        words += [f"walltime={self.draw.choice([5, 20, 60])}m"] if self.chance(0.7) else []
        words += [f"tenant={self.draw.choice(self.tenants)}"] if self.tenants else []
        return " ".join(words)

    def events(self, names):
        minute = 0
        for number in range(self.draw.randint(0, 5)):
            minute += self.draw.choice([1, 5, 20])
            what = self.draw.choice(
                [
                    *(event.format(self.draw.choice(names)) for event in EVENTS),
                    f"close {self.draw.choice(self.nodes)}",
                    f"open {self.draw.choice(self.nodes)}",
                    f"gpu {self.nodes[0]}/0 faulty",
                    f"job k{number} {self.draw.choice(SHAPES)} {self.keys()} p3",
                    f"node x{number} 4x{self.model}",
                ]
            )
            yield f"@{minute}m {what}"

    def chance(self, part):
        return self.draw.random() < part
