import time

DEADLINE_SECONDS = 10


def eventually(question, *, within=DEADLINE_SECONDS):
    """The first answer that is true; fails with the last one when none is in time."""
    deadline = time.monotonic() + within
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still {answer!r} after {within} s"
        time.sleep(0.01)
    return answer
