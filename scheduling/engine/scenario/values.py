"""The small notations of a scenario: times, sizes, shapes, places, devices, quotas.

Readers raise ValueError with a message that names the word at fault.
"""

import re
from collections.abc import Iterable
from typing import Final

from scheduling.engine.arrays import UNLIMITED
from scheduling.engine.jobs import Access, Group, Request
from scheduling.engine.snapshot import PARTS_PER_GPU

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MIB: Final = {"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024}
_THOUSANDTH: Final = 1000
MOST_OF_A_NODE: Final = 1024  # GPUs, and so the numbers that devices may have
_MOST_DIGITS: Final = 9  # so that no sum or product leaves 64 bits
_BETWEEN_GROUPS: Final = re.compile(r"\+(?=(?:\w+:)?\d+(?:\.\.\d+)?x)")
_GROUP: Final = re.compile(r"(?:([A-Za-z]\w*):)?(\d+)(?:\.\.(\d+))?x(.+)")


def seconds(word: str) -> int:
    """Whole seconds of `90s`, `30m`, `-2h`, `+3d` or `2m30s`."""
    sign = -1 if word.startswith("-") else 1
    parts = re.findall(r"(\d+)([smhd])", word)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != word.lstrip("+-"):
        raise ValueError(f"{word!r} is no time: write 90s, 30m, 2h or 3d")
    return sign * sum(whole(number) * _SECONDS[unit] for number, unit in parts)


def duration(word: str) -> int:
    """Seconds as in `seconds`, of a length of time: never negative."""
    length = seconds(word)
    if length < 0:
        raise ValueError(f"{word} is negative: a duration is 0s or more")
    return length


def mib(word: str) -> int:
    """Whole MiB of `40GiB` or `46068MiB`."""
    found = re.fullmatch(r"(\d+)(MiB|GiB|TiB)", word)
    if not found:
        raise ValueError(f"{word!r} is no size: write 40GiB or 46068MiB")
    return whole(found[1]) * _MIB[found[2]]


def whole(word: str) -> int:
    """A whole number that is not negative."""
    if not word.isdecimal():
        raise ValueError(f"{word!r} is no whole number")
    if len(word.lstrip("0")) > _MOST_DIGITS:
        raise ValueError(f"{word[:40]} is too large: a number has {_MOST_DIGITS} digits at most")
    return int(word)


def at_most(most: int, word: str) -> int:
    """A whole number up to `most`."""
    number = whole(word)
    if number > most:
        raise ValueError(f"{word} is too many: {most} at most")
    return number


def _count(word: str) -> int:
    """A whole number that is 1 or more."""
    number = whole(word)
    if number < 1:
        raise ValueError(f"{word} is too few: 1 at least")
    return number


def milli(word: str) -> int:
    """Thousandths of `8` or `0.5`."""
    found = re.fullmatch(r"(\d+)(?:\.(\d{1,3}))?", word)
    if not found:
        raise ValueError(f"{word!r} is no number")
    return whole(found[1]) * _THOUSANDTH + int((found[2] or "0").ljust(3, "0"))


def gpu_parts(word: str) -> int:
    """Quota parts of a number of GPUs: `8` or `0.5`."""
    return milli(word) * PARTS_PER_GPU // _THOUSANDTH


def groups(word: str) -> tuple[Group, ...]:
    """The member groups of a SHAPE: `4x8`, `2..4x1`, `actor:3..6x1+learner:2x1`."""
    found = tuple(_group(part) for part in _BETWEEN_GROUPS.split(word))
    names = [group.name for group in found]
    if len(names) != len(set(names)):
        raise ValueError(f"{word!r} names two groups alike")
    return found


def _group(word: str) -> Group:
    found = _GROUP.fullmatch(word)
    if not found:
        raise ValueError(f"{word!r} is no shape: write 4x8, 2..4x1 or actor:3x1+learner:2x1")
    name, least, most, request = found.groups()
    few, many = whole(least), whole(most or least)
    if not 1 <= few <= many:
        raise ValueError(f"{word!r} has fewer members at most than at least, or none")
    return Group(name=name or "", min_member=few, max_member=many, request=_request(request))


def _request(word: str) -> Request:
    kind, _, rest = word.partition(":")
    if word.isdecimal():
        count = whole(word)
        return Request(kind=Access.WHOLE, count=count) if count else Request()
    first, _, second = rest.partition(",")
    if kind == "mig" and first:
        return Request(kind=Access.SLICE, profile=first, count=_count(second or "1"))
    if kind == "share" and first:
        return Request(kind=Access.SHARE, gpu_memory_mib=mib(first), count=_count(second or "1"))
    if kind == "frac" and first.endswith("m") and second:
        return Request(
            kind=Access.FRACTION, gpu_milli=_count(first[:-1]), gpu_memory_mib=mib(second)
        )
    raise ValueError(f"{word!r} is nothing that a member could ask for")


def place(word: str) -> tuple[tuple[str, int, str], ...]:
    """(group, members, node) of a PLACE: `2@a,3@b` or `actor:3@a,learner:2@b`."""
    found = []
    for part in word.split(","):
        item = re.fullmatch(r"(?:(\w+):)?(\d+)@(.+)", part)
        if not item:
            raise ValueError(f"{part!r} is no place: write 2@node")
        found.append((item[1] or "", whole(item[2]), item[3]))
    return tuple(found)


def numbers(word: str) -> tuple[int, ...]:
    """The numbers of `0-3+5`."""
    found: list[int] = []
    for part in word.split("+"):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not ends:
            raise ValueError(f"{part!r} is no number and no range")
        first, last = whole(ends[1]), whole(ends[2] or ends[1])
        if last >= MOST_OF_A_NODE:
            raise ValueError(f"{part!r} is beyond the {MOST_OF_A_NODE} GPUs that a node may have")
        found += range(first, last + 1)
    return tuple(found)


def partition(word: str) -> tuple[tuple[int, ...], ...]:
    """Sets of GPUs by number: `0+2,1+3,4-5,6-7`."""
    return tuple(numbers(part) for part in word.split(","))


Quota = tuple[str, int, int, int]
"""A flavor's word, and nominal, borrowing limit and lending limit in parts."""


def quotas(word: str) -> tuple[Quota, ...]:
    """The quotas of `A100:8+4-2,T4:8`."""
    return tuple(_quota(part) for part in word.split(","))


def _quota(word: str) -> Quota:
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"(.+):{number}(?:\+{number})?(?:-{number})?", word)
    if not found:
        raise ValueError(f"{word!r} is no quota: write A100:8 or A100:8+4-2")
    model, nominal, borrow, lend = found.groups()
    limits = [UNLIMITED if limit is None else gpu_parts(limit) for limit in (borrow, lend)]
    return model, gpu_parts(nominal), limits[0], limits[1]


def time_text(after: int) -> str:
    """`+120m`, or `+2m30s` where whole minutes do not do."""
    sign = "-" if after < 0 else "+"
    return sign + duration_text(abs(after))


def duration_text(length: int) -> str:
    """`90m`, `2m30s` or `30s`."""
    minutes, rest = divmod(length, _SECONDS["m"])
    if not rest:
        return f"{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def gpus_text(parts: int) -> str:
    """GPUs of quota parts: `2`, `0.25` or, rounded, `0.429`."""
    if parts >= UNLIMITED:
        return "unlimited"
    return f"{parts / PARTS_PER_GPU:.3f}".rstrip("0").rstrip(".")


def mib_text(size: int) -> str:
    """`40GiB` or `46068MiB`."""
    gib, rest = divmod(size, _MIB["GiB"])
    return f"{size}MiB" if rest else f"{gib}GiB"


def numbers_text(found: Iterable[int]) -> str:
    """`0-2+4` of 0, 1, 2 and 4; two neighbours are written apart."""
    runs: list[list[int]] = []
    for number in sorted(found):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    long = 3
    texts = [f"{run[0]}-{run[-1]}" if len(run) >= long else "+".join(map(str, run)) for run in runs]
    return "+".join(texts)
