import os
import signal

import pytest
import redis

from portal.embedded import valkey
from portal.embedded.programs import CannotStart


def test_what_was_told_survives_a_kill(tmp_path):
    with valkey.running_valkey(tmp_path / "v", durable=True) as url, redis.from_url(url) as client:
        client.set("kept", "7")
        pid = client.info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)

    with valkey.running_valkey(tmp_path / "v", durable=True) as url, redis.from_url(url) as client:
        assert client.get("kept") == b"7"
        assert client.info("server")["process_id"] != pid


def test_without_any_server_it_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(valkey.importlib.util, "find_spec", lambda _: None)

    with pytest.raises(CannotStart, match="set REDIS_URL to a server of your own"):
        valkey.find_binary()
