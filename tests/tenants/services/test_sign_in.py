import threading
import time
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction

from portal.core.models import AuditEvent
from tenants.models import SignInLink
from tenants.services.sign_in import LinkSpent, make_sign_in_link, use_sign_in_link
from tests.factories.tenants import T0

BASE = "https://muster.example"


def secret_of(url):
    return url.removesuffix("/").rpartition("/")[2]


def test_a_link_signs_its_user_in_once(member):
    url = make_sign_in_link(member.user, at=T0, base_url=BASE + "/")
    secret = secret_of(url)

    assert url == f"{BASE}/sign-in/link/{secret}/"
    assert use_sign_in_link(secret, at=T0) == member.user
    with pytest.raises(LinkSpent):
        use_sign_in_link(secret, at=T0)
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "actor__username")) == [
        ("make_sign_in_link", None),
        ("use_sign_in_link", "ada"),
    ]


@pytest.mark.django_db(transaction=True)
def test_of_many_who_use_a_link_at_the_same_instant_one_gets_in(member):
    """They all wait for the link's row, which this test holds until the last of them has come."""
    secret = secret_of(make_sign_in_link(member.user, at=T0, base_url=BASE))
    let_in = []

    def use():
        try:
            let_in.append(use_sign_in_link(secret, at=T0))
        except LinkSpent:
            let_in.append(None)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=use) for _ in range(3)]
    with transaction.atomic():
        SignInLink.objects.select_for_update().get()
        for thread in threads:
            thread.start()
        wait_until(lambda: waiting_for_a_lock() == len(threads))
    for thread in threads:
        thread.join(timeout=20)

    assert sorted(let_in, key=str) == [None, None, member.user]


def waiting_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return cursor.fetchone()[0]


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_only_the_hash_of_a_link_is_kept(member):
    secret = secret_of(make_sign_in_link(member.user, at=T0, base_url=BASE))

    assert secret not in str(SignInLink.objects.values())


def test_a_link_lives_for_a_quarter_of_an_hour(member):
    secret = secret_of(make_sign_in_link(member.user, at=T0, base_url=BASE))

    with pytest.raises(LinkSpent):
        use_sign_in_link(secret, at=T0 + timedelta(minutes=15))
    assert use_sign_in_link(secret, at=T0 + timedelta(minutes=14, seconds=59)) == member.user


def test_a_link_of_somebody_who_was_put_out_opens_nothing(member):
    secret = secret_of(make_sign_in_link(member.user, at=T0, base_url=BASE))
    member.user.is_active = False
    member.user.save()

    with pytest.raises(LinkSpent):
        use_sign_in_link(secret, at=T0)


@pytest.mark.parametrize("secret", ["", "guessed", "\0", "x" * 5000])
def test_a_guess_opens_nothing(member, secret):
    make_sign_in_link(member.user, at=T0, base_url=BASE)

    with pytest.raises(LinkSpent):
        use_sign_in_link(secret, at=T0)


def test_the_command_prints_a_link_that_works(member, capsys, settings):
    settings.BASE_URL = BASE

    call_command("sign_in_link", "--user", "ada", "--hours", "2")

    printed = capsys.readouterr().out.strip()
    link = SignInLink.objects.get()
    assert printed.startswith(f"{BASE}/sign-in/link/")
    assert use_sign_in_link(secret_of(printed), at=link.expires_at - timedelta(minutes=1)) == (
        member.user
    )


def test_the_command_says_who_is_not_there(member):
    with pytest.raises(CommandError, match="there is no active user 'bob'"):
        call_command("sign_in_link", "--user", "bob")
