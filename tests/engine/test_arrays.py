import numpy as np
import pytest

from scheduling.engine.arrays import frozen, frozen_flags, read_only


@pytest.mark.parametrize(("freeze", "dtype"), [(frozen, np.int64), (frozen_flags, np.bool_)])
def test_what_nobody_can_write_to_is_taken_as_it_is_and_all_else_is_copied(freeze, dtype):
    written = np.ones(3, dtype=dtype)
    view = read_only(written)

    copies = [freeze(own, (3,), "own") for own in (written, view)]
    again = freeze(copies[0], (3,), "own")
    written[0] = 0

    assert again is copies[0]
    assert [own.tolist() for own in copies] == [[1, 1, 1]] * 2
    assert not any(own.flags.writeable for own in copies)
    with pytest.raises(ValueError, match=r"own is \(3,\), expected \(2,\)"):
        freeze(again, (2,), "own")
