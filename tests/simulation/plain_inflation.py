"""Fragmentation by inflation once more, as plainly as the protocol reads: for comparing with only.

Nothing of the product is used here. Nodes and tasks are dictionaries, one step follows another, and
the only thing kept is what a task would do to a node in a state that was looked at before.
"""

import csv
import gzip
import hashlib
import math
import random
from collections import Counter


def rows(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read_nodes(path):
    nodes = [
        {
            "name": row["sn"],
            "cpu": int(row["cpu_milli"]),
            "memory": int(row["memory_mib"]),
            "gpus": [1000] * int(row["gpu"]),
            "model": row["model"],
        }
        for row in rows(path)
    ]
    return sorted(nodes, key=lambda node: node["name"])


def read_tasks(path):
    tasks = []
    for row in rows(path):
        number = int(row["num_gpu"])
        named = row.get("gpu_spec") or ""
        tasks.append(
            {
                "name": row["name"],
                "cpu": int(row["cpu_milli"]),
                "memory": int(row["memory_mib"]),
                "number": number,
                "milli": int(row["gpu_milli"]) if number > 0 else 0,
                "models": tuple(sorted(named.split("|"))) if number > 0 and named else (),
            }
        )
    return sorted(tasks, key=lambda task: task["name"])


def total(task):
    return task["number"] * task["milli"]


def draw(rng, most):
    return math.trunc(rng.random() * most)


def shuffle(items, rng):
    for i in range(len(items) - 1, 0, -1):
        j = draw(rng, i + 1)
        items[i], items[j] = items[j], items[i]


def arrivals(tasks, target, rng):
    order = list(tasks)
    shuffle(order, rng)
    asked = sum(total(task) for task in order)
    while asked > target:
        asked -= total(order.pop(draw(rng, len(order))))
    while True:
        extra = tasks[draw(rng, len(tasks))]
        if asked + extra["milli"] > target:
            return order
        order.append(extra)
        asked += total(extra)


def usual_shapes(tasks):
    """[(shape, count)]; a shape is (cpu, number, milli, models)."""
    counts = Counter((task["cpu"], task["number"], task["milli"], task["models"]) for task in tasks)

    def rank(shape):
        cpu, number, milli, models = shape
        return counts[shape], (cpu, milli, number, models)

    taken, covered = [], 0
    for shape in sorted(counts, key=rank, reverse=True):
        if 100 * covered >= 95 * len(tasks):
            break
        taken.append((shape, counts[shape]))
        covered += counts[shape]
    return taken


def fragmentation(model, cpu, gpus, shapes):
    """W x F of a node: a whole number."""
    sum_of_all = 0
    for (need_cpu, number, milli, models), count in shapes:
        fitting = [left for left in gpus if left >= milli]
        if (
            number == 0
            or cpu < need_cpu
            or (models and model not in models)
            or len(fitting) < number
        ):
            unusable = sum(gpus)
        else:
            unusable = sum(left for left in gpus if left < milli)
        sum_of_all += count * unusable
    return sum_of_all


def is_feasible(node, task):
    if node["cpu"] < task["cpu"] or node["memory"] < task["memory"]:
        return False
    if task["number"] == 0:
        return True
    if task["models"] and node["model"] not in task["models"]:
        return False
    return len(fitting_gpus(node["gpus"], task)) >= task["number"]


def fitting_gpus(gpus, task):
    return [index for index, left in enumerate(gpus) if left >= task["milli"]]


def is_fraction(task):
    return task["number"] == 1 and task["milli"] < 1000


def with_task(gpus, task, chosen):
    return [left - task["milli"] if i in chosen else left for i, left in enumerate(gpus)]


def lowest_gpus(node, task):
    return fitting_gpus(node["gpus"], task)[: task["number"]] if task["number"] else []


class Random:
    def __init__(self, rng):
        self.rng = rng

    def choose(self, nodes, feasible, task):
        node = nodes[feasible[draw(self.rng, len(feasible))]]
        if not is_fraction(task):
            return node, lowest_gpus(node, task)
        fitting = fitting_gpus(node["gpus"], task)
        return node, [fitting[draw(self.rng, len(fitting))]]


class BestFit:
    def __init__(self, exact):
        self.exact = exact

    def choose(self, nodes, feasible, task):
        best, best_rank = None, None
        for index in feasible:
            rank = self.rank(nodes[index], task)
            if best is None or rank > best_rank:
                best, best_rank = nodes[index], rank
        if not is_fraction(task):
            return best, lowest_gpus(best, task)
        fitting = fitting_gpus(best["gpus"], task)
        return best, [min(fitting, key=lambda index: (best["gpus"][index], index))]

    def rank(self, node, task):
        cpu, gpu = node["cpu"] - task["cpu"], sum(node["gpus"]) - total(task)
        if self.exact:
            return -(cpu + 16 * gpu)
        return math.trunc((1.0 - (0.5 * cpu / 128000 + 0.5 * gpu / 8000)) * 100)


class Descent:
    def __init__(self, shapes, exact):
        self.shapes = shapes
        self.weight = sum(count for _, count in shapes)
        self.exact = exact
        self.looked_at = {}

    def choose(self, nodes, feasible, task):
        best, best_score, best_gpus = None, None, None
        for index in feasible:
            score, gpus = self.look(nodes[index], task)
            if best is None or score > best_score:
                best, best_score, best_gpus = nodes[index], score, gpus
        return best, best_gpus

    def look(self, node, task):
        """The best score on this node, and the GPUs that give it."""
        state = node["model"], node["cpu"], tuple(node["gpus"])
        what = task["cpu"], task["number"], task["milli"]
        if (state, what) not in self.looked_at:
            self.looked_at[state, what] = self.look_anew(state, task)
        return self.looked_at[state, what]

    def look_anew(self, state, task):
        model, cpu, gpus = state
        fitting = fitting_gpus(gpus, task)
        ways = [[index] for index in fitting] if is_fraction(task) else [fitting[: task["number"]]]
        if task["number"] == 0:
            ways = [[]]
        before = fragmentation(model, cpu, gpus, self.shapes)
        best, best_score = None, None
        for way in ways:
            after = with_task(gpus, task, way)
            drop = before - fragmentation(model, cpu - task["cpu"], after, self.shapes)
            score = self.score(drop)
            if best is None or score > best_score:
                best, best_score = way, score
        return best_score, best

    def score(self, drop):
        if self.exact:
            return drop
        x = drop / self.weight / 1000.0
        return math.trunc(100.0 / (1.0 + math.exp(-x)))


class Muster:
    """What is left is worth what it could be used for, less five times what would lie idle.

    A milli of a GPU that a shape could use counts as 100, one that it could not as -500, a milli of
    CPU that a task without GPUs could use as 1; all by the weight of the shape, millionths in all.
    """

    def __init__(self):
        self.seen = Counter()
        self.learn_at = 1
        self.weights = {}

    def see(self, nodes, task):
        """Count a task that arrives; learn anew after a quarter more, or 500."""
        self.seen[self.ask(task)] += 1
        arrived = self.seen.total()
        if arrived < self.learn_at:
            return
        self.learn_at = arrived + min(500, max(1, arrived // 4))
        free = sum(sum(node["gpus"]) for node in nodes)
        scarce = {}
        for ask, count in self.seen.items():
            number, milli = ask[2], ask[3]
            scarce[ask] = count * 10**6
            if number > 0:
                usable = sum(number * milli * self.copies(ask, node) for node in nodes)
                scarce[ask] = scarce[ask] * free // max(2000, usable)
        self.weights = {ask: 10**6 * own // sum(scarce.values()) for ask, own in scarce.items()}

    def ask(self, task):
        return task["cpu"], task["memory"], task["number"], task["milli"], task["models"]

    def copies(self, ask, node):
        """How many such tasks a node could take if it took nothing else."""
        cpu, memory, number, milli, models = ask
        limits = []
        if cpu > 0:
            limits.append(node["cpu"] // cpu)
        if memory > 0:
            limits.append(node["memory"] // memory)
        if number > 0:
            limits.append(sum(left // milli for left in node["gpus"]) // number)
        if models and node["model"] not in models:
            limits.append(0)
        return min(limits)

    def worth(self, node):
        worth = 0
        for ask, weight in self.weights.items():
            cpu, _, number, milli, _ = ask
            copies = self.copies(ask, node)
            if number == 0:
                worth += weight * copies * cpu
                continue
            idle = [left for left in node["gpus"] if copies == 0 or left < milli]
            worth += weight * (100 * copies * number * milli - 500 * sum(idle))
        return worth

    def choose(self, nodes, feasible, task):
        best, best_score, best_gpus = None, None, None
        for index in feasible:
            node = nodes[index]
            before = self.worth(node)
            for way in self.ways(node, task):
                after = dict(
                    node,
                    cpu=node["cpu"] - task["cpu"],
                    memory=node["memory"] - task["memory"],
                    gpus=with_task(node["gpus"], task, way),
                )
                spare = 500 * 10**6 // 1280 if task["number"] > 0 else -(500 * 10**6 // 6400)
                score = self.worth(after) - before + spare * after["cpu"]
                if best is None or score > best_score:
                    best, best_score, best_gpus = node, score, way
        return best, best_gpus

    def ways(self, node, task):
        if is_fraction(task):
            return [[index] for index in fitting_gpus(node["gpus"], task)]
        return [lowest_gpus(node, task)]


def inflate(nodes, tasks, policy, seed, *, exact):
    """{"log": SHA-256, "arrivals", "lost", "allocated": {bucket: %}, "fragmented": {bucket: %}}."""
    rng = random.Random(seed)  # noqa: S311 - the protocol says so
    nodes = [dict(node, gpus=list(node["gpus"])) for node in nodes]
    capacity = sum(sum(node["gpus"]) for node in nodes)
    order = arrivals(tasks, capacity * 13 // 10, rng)
    if not exact and policy in {"best_fit", "fgd"}:
        shuffle(nodes, rng)
    shapes = usual_shapes(tasks)
    weight = sum(count for _, count in shapes)
    chooser = {
        "random": lambda: Random(rng),
        "best_fit": lambda: BestFit(exact),
        "fgd": lambda: Descent(shapes, exact),
        "muster": Muster,
    }[policy]()

    lines, lost, arrived, used = [], 0, 0, 0
    wasted = {node["name"]: waste_of(node, shapes) for node in nodes}
    all_wasted = sum(wasted.values())
    allocated, fragmented = {}, {}
    for task in order:
        arrived += total(task)
        if policy == "muster":
            chooser.see(nodes, task)
        feasible = [index for index, node in enumerate(nodes) if is_feasible(node, task)]
        if feasible:
            node, gpus = chooser.choose(nodes, feasible, task)
            node["cpu"] -= task["cpu"]
            node["memory"] -= task["memory"]
            node["gpus"] = with_task(node["gpus"], task, gpus)
            used += total(task)
            all_wasted -= wasted[node["name"]]
            wasted[node["name"]] = waste_of(node, shapes)
            all_wasted += wasted[node["name"]]
            lines.append(f"{task['name']},{node['name']},{'-'.join(map(str, gpus))}\n")
        else:
            lost += 1
            lines.append(f"{task['name']},,\n")
        bucket = round(100 * arrived / capacity)
        allocated.setdefault(bucket, []).append(100 * used / capacity)
        fragmented.setdefault(bucket, []).append(100 * all_wasted / weight / capacity)
    return {
        "log": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "arrivals": len(order),
        "lost": lost,
        "allocated": means(allocated),
        "fragmented": means(fragmented),
    }


def waste_of(node, shapes):
    return fragmentation(node["model"], node["cpu"], node["gpus"], shapes)


def means(buckets):
    return {bucket: round(sum(own) / len(own), 2) for bucket, own in buckets.items()}
