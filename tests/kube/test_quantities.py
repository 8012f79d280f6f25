import pytest

from topology.kube import quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2", 2000), ("1.5", 1500), ("250m", 250), ("100n", 0), ("1e3", 1_000_000), ("1k", 1_000_000)],
)
def test_cpu_is_read_as_thousandths(text, expected):
    assert quantities.milli(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1Gi", 1024), ("1048576Ki", 1024), ("1G", 953), ("1073741824", 1024), ("1023Ki", 0)],
)
def test_memory_is_read_as_whole_mebibytes_and_never_rounded_up(text, expected):
    assert quantities.mebibytes(text) == expected


@pytest.mark.parametrize("text", ["", "eight", "8Qi"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises((ArithmeticError, ValueError)):
        quantities.whole(text)
