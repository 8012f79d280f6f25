"""Kubernetes quantities (500m, 64Gi, 1e3) as whole numbers of a unit, never rounded up."""

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


# The pods of a large cluster ask for the same few amounts, and a list of them asks for each.
_remembered = lru_cache(maxsize=4096)


@_remembered
def milli(text: str) -> int:
    """Thousandths: 1500 of "1.5"."""
    return int(_amount(text) * 1000)


@_remembered
def whole(text: str) -> int:
    return int(_amount(text))


@_remembered
def mebibytes(text: str) -> int:
    return int(_amount(text) / 2**20)


def _amount(text: str) -> Fraction:
    """ValueError when it is no quantity."""
    for suffix in (text[-2:], text[-1:]):
        if suffix in _SUFFIXES:
            return Fraction(Decimal(text.removesuffix(suffix))) * _SUFFIXES[suffix]
    return Fraction(Decimal(text))
