"""What a person at the terminal is told: steps with their time, then one calm line per event."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from portal.embedded.demo import USER, Options


def say(text: str, *, end: str = "\n") -> None:
    """Print, unless nobody listens any more: a closed terminal is no reason to fall over."""
    with suppress(OSError):
        print(text, end=end, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is being done, then how long it took."""
    began = time.monotonic()
    say(f"  {what} … ", end="")
    try:
        yield
    except BaseException:
        say("")
        raise
    say(f"{time.monotonic() - began:.1f} s")


def welcome(options: Options, link: str) -> str:
    """The lines shown once everything runs."""
    feed = "run a slice of a public trace of jobs" if options.feed else "wait for your jobs"
    return f"""
Muster runs at {options.address}

  Sign in (this link works once):  {link}
  Another link, for anybody:       bin/manage sign_in_link --user {USER}

  This is a simulation: no GPU is used. Twelve made-up nodes {feed},
  and their clock goes {options.speed:g} times as fast as yours.
  Logs: {options.logs}
  Stop: Ctrl-C. Begin anew, without this data: bin/run --reset
"""
