"""Kubernetes quantities: 500m, 64Gi, 8."""

from fractions import Fraction

_SUFFIXES = {
    "": Fraction(1),
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


def milli(text: object) -> int:
    """Thousandths of the unit, rounded up; ValueError when it is no quantity."""
    raw = str(text).strip()
    number = raw.rstrip("numkMGTPEi")
    suffix = raw[len(number) :]
    if suffix not in _SUFFIXES:
        raise ValueError(f"{raw!r} is no quantity")
    value = Fraction(number) * _SUFFIXES[suffix] * 1000
    return -((-value.numerator) // value.denominator)


def plain(thousandths: int) -> str:
    """A quantity as text, in whole units where it can be: 8, 1500m."""
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)
