"""Where a webhook may lead, and what is made of an answer: a real server, and names that lie."""

import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from portal.core.errors import Refused
from tenants.services import webhook_wire
from tenants.services.webhook_wire import NotTaken, look_at, post

PUBLIC = "93.184.216.34"


@pytest.fixture
def names(monkeypatch):
    """Names and the addresses that they have; a list of lists is asked one after the other."""
    known = {}

    def getaddrinfo(host, port, **_options):
        if host not in known:
            raise socket.gaierror
        return [(2, 1, 6, "", (address, port)) for address in known[host]]

    monkeypatch.setattr(webhook_wire.socket, "getaddrinfo", getaddrinfo)
    return known


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.got.append((self.path, self.headers["Host"], body))
        if server.pause:
            time.sleep(server.pause)
        self.send_response(server.status)
        if server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(server.answer)

    def log_message(self, *_said):
        pass


@pytest.fixture
def chat(settings):
    """A server on loopback whose name an operator has allowed."""
    server = HTTPServer(("127.0.0.1", 0), Chat)
    server.got, server.status, server.answer, server.pause = [], 200, b"ok", 0
    settings.WEBHOOK_INTERNAL_HOSTS = ["127.0.0.1"]
    server.url = f"http://127.0.0.1:{server.server_port}/hook?key=1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - an address to be refused
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "2001:0:0:0:0:0:f5ff:fffe",
    ],
)
def test_what_leads_inside_is_refused_also_where_one_of_many_does(names, address):
    names["hook.example.org"] = [PUBLIC, address]

    with pytest.raises(Refused, match="private network") as refused:
        look_at("https://hook.example.org/x")

    assert refused.value.field == "url"


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946"])
def test_what_leads_outside_is_taken_by_its_address(names, address):
    names["hook.example.org"] = [address]

    target = look_at("https://HOOK.example.org./a/b?c=d")

    assert (target.host, target.port, target.path) == ("hook.example.org", 443, "/a/b?c=d")
    assert target.addresses == (address,)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hook.example.org",
        "http://hook.example.org/",
        "ftp://hook.example.org/",
        "file:///etc/passwd",
        "https://",
        "https://user:word@hook.example.org/",
        "https://hook.example.org:99999/",
        "https://hook.example.org/a b",
        "https://hook.example.org/\r\nX: y",
        "https://[::1",
        "https://nowhere.example.org/",
        "https://hook.example.org/" + "x" * 2000,
        "https://höök.example.org/",
    ],
)
def test_what_is_no_address_is_refused(names, url):
    names["hook.example.org"] = [PUBLIC]

    with pytest.raises(Refused):
        look_at(url)


def test_a_number_that_is_an_address_in_disguise_is_refused():
    for host in ("2130706433", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]"):
        with pytest.raises(Refused):
            look_at(f"https://{host}/")


def test_a_name_that_leads_inside_by_now_is_not_called(names, monkeypatch):
    names["hook.example.org"] = ["127.0.0.1"]
    monkeypatch.setattr(
        webhook_wire.socket, "create_connection", lambda *_a, **_k: pytest.fail("it called")
    )

    with pytest.raises(NotTaken, match="private network"):
        post("https://hook.example.org/", b"{}", {})


def test_the_call_goes_to_the_address_that_was_looked_at(names, monkeypatch):
    names["hook.example.org"] = [PUBLIC]
    called = []

    def create_connection(address, timeout):
        called.append((address, timeout))
        raise ConnectionRefusedError

    monkeypatch.setattr(webhook_wire.socket, "create_connection", create_connection)

    with pytest.raises(NotTaken, match="could not be reached"):
        post("https://hook.example.org/", b"{}", {})

    assert called == [((PUBLIC, 443), 5)]


def test_what_is_sent_arrives_once_and_whole(chat):
    post(chat.url, b'{"text": "x"}', {"Content-Type": "application/json"})

    (got,) = chat.got
    assert got == ("/hook?key=1", f"127.0.0.1:{chat.server_port}", b'{"text": "x"}')


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (404, b"the secret body", "the status 404"),
        (500, b"", "the status 500"),
        (302, b"", "the status 302"),
        (200, b'{"errcode": 310000, "errmsg": "the secret body"}', "the error 310000"),
        (200, b'{"code": 19021}', "the error 19021"),
        (200, b'{"StatusCode": 1}', "the error 1"),
    ],
)
def test_a_refusal_is_told_by_its_number_alone(chat, status, answer, says):
    chat.status, chat.answer = status, answer

    with pytest.raises(NotTaken, match=says) as refused:
        post(chat.url, b"{}", {})

    assert "secret body" not in str(refused.value)
    assert len(chat.got) == 1  # a redirect is not followed


@pytest.mark.parametrize("answer", [b"", b"ok", b'{"errcode": 0}', b"[1]", b"[" * 4000, b"\xff"])
def test_any_other_answer_is_well(chat, answer):
    chat.answer = answer

    post(chat.url, b"{}", {})


def test_who_does_not_answer_in_time_is_left(chat, monkeypatch):
    monkeypatch.setattr(webhook_wire, "STEP_SECONDS", 0.2)
    chat.pause = 1

    with pytest.raises(NotTaken, match="in time"):
        post(chat.url, b"{}", {})


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_drips_is_cut(settings, monkeypatch, begins):
    """Each byte comes in time, and the whole would never end."""
    monkeypatch.setattr(webhook_wire, "WHOLE_SECONDS", 0.5)
    settings.WEBHOOK_INTERNAL_HOSTS = ["127.0.0.1"]
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def drip():
        caller, _address = listener.accept()
        with caller:
            caller.sendall(begins)
            while not is_over.wait(0.1):
                try:
                    caller.sendall(b"H")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    began = time.monotonic()
    with suppress(NotTaken):  # an answer that has begun well is well
        post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
    took = time.monotonic() - began
    is_over.set()
    thread.join()
    listener.close()

    assert took < 3
