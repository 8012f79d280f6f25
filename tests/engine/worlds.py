"""Random small scenarios with everything in them: a seed gives a text."""

import random

WHOLE = ("1x1", "1x2", "1x4", "2x2", "3x1", "2x4", "1..4x1", "2..3x2", "a:1..3x1+b:1x2", "2x0")
CUT = (*WHOLE[:6], "2xmig:3g.20gb", "1xmig:1g.5gb", "3xmig:1g.5gb")
SHARED = (*WHOLE[:6], "2xshare:4GiB", "1xshare:4GiB,2", "3xshare:16GiB")
FRACTIONS = (*WHOLE[:6], "3xfrac:300m,8GiB", "1xfrac:700m,30GiB")
PLAIN = ("", "", "", "rack=r1", "rack=r2", "cpu=8", "closed", "window=+30m", "islands=0+1")
THEMES = {
    "plain": (WHOLE, PLAIN),
    "cut": (CUT, (*PLAIN, "layouts=auto")),
    "shared": (
        SHARED,
        (*PLAIN, "mode=time_slicing:4 gpumem=40GiB", "mode=mps:2,many gpumem=40GiB"),
    ),
    "fractions": (FRACTIONS, (*PLAIN, "mode=hami gpumem=40GiB")),
    "all": (
        ("1x1", "2x2", *CUT[-3:], *SHARED[-3:], *FRACTIONS[-2:]),
        ("layouts=auto", "mode=time_slicing:4 gpumem=40GiB", "mode=hami gpumem=40GiB", ""),
    ),
}
JOB_KEYS = (
    "standby",
    "fixed",
    "island",
    "cpu=2",
    "required=rack",
    "required=node",
    "required=node patience=10m",
    "stop=30s",
    "save=60s grace=2m",
    "preferred=rack",
    "not_before=+15m",
    "gpumem=60GiB",
    "class=latency_critical",
    "held",
)
EVENTS = ("end {}", "fail {}", "cancel {}")


class Writer:
    """Writes one scenario, line by line."""

    def __init__(self, seed):
        self.draw = random.Random(seed)  # noqa: S311 -- a scenario that can be written again
        self.model = self.draw.choice(["A100-80GB", "A100-40GB"])
        self.shapes, self.node_keys = THEMES[self.draw.choice([*THEMES, "plain", "plain"])]
        self.nodes = [f"n{number}" for number in range(self.draw.randint(1, 4))]
        self.tenants = list("ABC"[: self.draw.randint(0, 3)])
        self.jobs = [f"j{number}" for number in range(self.draw.randint(1, 8))]

    def text(self):
        lines = [*self.hardware(), *self.owners()]
        lines += [self.job(name, before=self.jobs[:at]) for at, name in enumerate(self.jobs)]
        if self.chance(0.15):
            lines.append(f"block open-day 2@{self.nodes[0]} from=+20m to=+50m")
        lines += self.events()
        order = self.draw.choice(["fifo", "fair", "expansion"])
        strict = self.draw.choice(["off", "off", "off", "on"])
        reservations = self.draw.choice([0, 1, 1, 2, 9])
        packing = self.draw.choice(["best_fit", "best_fit", "fgd", "muster"])
        lines.append(
            f"policy order={order} strict={strict} reservations={reservations} packing={packing}"
        )
        return "\n".join(lines)

    def hardware(self):
        for name in self.nodes:
            keys = self.draw.choice(self.node_keys)
            yield f"node {name} {self.draw.choice([2, 4, 8])}x{self.model} {keys}"
            sliced = self.shapes is CUT and "mode" not in keys and self.chance(0.4)
            if sliced and self.model == "A100-40GB":
                yield f"gpu {name}/0 mig 3g.20gb@0,1g.5gb@4,1g.5gb@5"
            if self.chance(0.2):
                yield f"gpu {name}/1 faulty"

    def owners(self):
        yield "cohort lab"
        for name in self.tenants:
            quota = f"quota={self.model}:{self.draw.randint(0, 6)}"
            loan = self.draw.choice(["", "", "+2", "-1", "+4-2"])
            budget = " budget=4h" if self.chance(0.1) else ""
            yield f"tenant {name} cohort=lab {quota}{loan}{budget}"

    def job(self, name, *, before=()):
        words = ["job", name, self.draw.choice(self.shapes)]
        words += [self.draw.choice(JOB_KEYS)] if self.chance(0.3) else []
        words += [f"p{self.draw.randint(0, 3)}"] if self.chance(0.5) else []
        if self.chance(0.7):
            minutes = self.draw.choice([5, 20, 60, 90])
            words.append(f"walltime={minutes}m takes={self.draw.randint(1, minutes)}m")
        words += [f"tenant={self.draw.choice(self.tenants)}"] if self.tenants else []
        if before and not self.tenants and self.chance(0.15):
            words.append(f"after={self.draw.choice(before)}:{self.draw.choice(['ok', 'any'])}")
        return " ".join(words)

    def events(self):
        minute = 0
        for number in range(self.draw.randint(0, 7)):
            minute += self.draw.choice([1, 5, 20])
            what = self.draw.choice(
                [
                    *(event.format(self.draw.choice(self.jobs)) for event in EVENTS),
                    f"close {self.draw.choice(self.nodes)}",
                    f"open {self.draw.choice(self.nodes)}",
                    f"gpu {self.nodes[0]}/0 faulty",
                    f"{self.job(f'k{number}')} p3",
                    self.job(f"l{number}"),
                    self.job(f"m{number}"),
                    f"node x{number} 4x{self.model}",
                ]
            )
            yield f"@{minute}m {what}"

    def chance(self, part):
        return self.draw.random() < part


class HonestWriter(Writer):
    """Worlds in which nothing comes between a promise and its keeping.

    No node closes or fails, nobody is cancelled, every job ends by its walltime, and who comes
    later is not more urgent.
    """

    def __init__(self, seed):
        super().__init__(seed)
        self.shapes, self.node_keys = WHOLE[:-1], ("", "", "rack=r1", "rack=r2", "cpu=16")
        self.tenants = []

    def text(self):
        lines = [*self.hardware()]
        lines += [self.job(f"j{number}") for number in range(self.draw.randint(4, 10))]
        minute = 0
        for number in range(self.draw.randint(2, 10)):
            minute += self.draw.choice([1, 5, 20])
            lines.append(f"@{minute}m {self.job(f'k{number}')}")
        reservations = self.draw.choice([1, 2, 9])
        lines.append(f"policy order=fifo reservations={reservations}")
        return "\n".join(lines)

    def job(self, name, *, before=()):
        minutes = self.draw.choice([5, 20, 60, 90])
        shape, key = self.draw.choice(self.shapes), self.draw.choice(["", "", "", "cpu=2"])
        level = self.draw.choice(["", "", "required=rack", "required=node"])
        takes = self.draw.randint(1, minutes)
        return f"job {name} {shape} walltime={minutes}m takes={takes}m {level} {key}"
