import os
import pwd
import sys
import time

import pytest

from portal.embedded.programs import Account, Program


@pytest.fixture
def eventually():
    """Asks a question until the answer is yes; the last answer, after `within` seconds."""

    def ask(question, *, within=10):
        deadline = time.monotonic() + within
        while not (answer := question()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return answer

    return ask


@pytest.fixture
def child(tmp_path):
    """Makes a small Python program. It may use `tmp`, a path, and what `code` imports."""

    def make(name, code, **rest):
        text = (
            f"import os, pathlib, signal, sys, time\ntmp = pathlib.Path({str(tmp_path)!r})\n{code}"
        )
        return Program(
            name=name,
            argv=(sys.executable, "-c", text),
            env={"PATH": os.environ["PATH"]},
            log=tmp_path / f"{name}.log",
            **rest,
        )

    return make


@pytest.fixture
def unprivileged():
    """Somebody who may read nothing of root's."""
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
