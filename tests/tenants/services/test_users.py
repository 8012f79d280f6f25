"""Accounts where two operators act at once, and what is left of an account that was closed."""

import threading
from datetime import timedelta
from functools import partial

import pytest
from django.core import mail
from django.db import connections, transaction

from portal.core.errors import Conflict, PortalError, Refused
from tenants.models import User
from tenants.services.mail import send_due_mail
from tenants.services.sign_in import LinkSpent, use_sign_in_link
from tenants.services.users import (
    UserWish,
    activate_user,
    change_user,
    create_user,
    deactivate_user,
    reset_by_link,
)
from tests.factories import NotificationFactory, UserFactory
from tests.factories.tenants import T0
from tests.tenants.services.test_sign_in import secret_of, wait_until, waiting_for_a_lock

pytestmark = pytest.mark.django_db
BASE = "https://muster.example"


@pytest.fixture
def operators(db):
    return [UserFactory(username=name, is_operator=True) for name in ("anna", "boris")]


def together(*works):
    """What each of `works` raised, or None; they begin once all wait for what this holds."""
    came_to = [None] * len(works)

    def run(place, work):
        try:
            work()
        except PortalError as refusal:
            came_to[place] = type(refusal)
        except Exception as error:  # noqa: BLE001 - told by the test, where threads tell nothing
            came_to[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    with transaction.atomic():
        list(User.objects.select_for_update().order_by("pk"))
        for thread in threads:
            thread.start()
        wait_until(lambda: waiting_for_a_lock() == len(threads))
    for thread in threads:
        thread.join(timeout=20)
    return came_to


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["name no operator", "close"])
def test_of_two_operators_who_put_each_other_out_one_stays(operators, change):
    def put_out(other, by):
        if change == "close":
            deactivate_user(other, by=by)
        else:
            change_user(other, UserWish(username=other.username), by=by)

    anna, boris = operators
    came_to = together(partial(put_out, anna, boris), partial(put_out, boris, anna))

    assert sorted(came_to, key=str) == [Refused, None]
    assert User.objects.filter(is_operator=True, is_active=True).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other", ["ada", "Ada"])
def test_of_two_accounts_of_one_name_one_is_made(operators, other):
    anna, boris = operators

    came_to = at_the_same_instant(
        partial(create_user, UserWish(username="ada"), by=anna),
        partial(create_user, UserWish(username=other), by=boris),
    )

    assert sorted(came_to, key=str) == [Conflict, None]
    assert User.objects.filter(username__iexact="ada").count() == 1


def at_the_same_instant(first, second):
    """What each raised, or None: the second begins before the first is in the database."""
    came_to = []

    def run():
        try:
            second()
        except PortalError as refusal:
            came_to.append(type(refusal))
        except Exception as error:  # noqa: BLE001 - told by the test, where threads tell nothing
            came_to.append(error)
        else:
            came_to.append(None)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    with transaction.atomic():
        first()
        thread.start()
        wait_until(lambda: waiting_for_a_lock() or not thread.is_alive())
    thread.join(timeout=20)
    return [None, *came_to]


def test_a_name_is_kept_as_signing_in_reads_it(operators):
    """In wide letters, as a Chinese keyboard writes them."""
    anna, _ = operators

    user = create_user(UserWish(username="ａｄａ"), by=anna)  # noqa: RUF001 - that is the point

    assert user.username == "ada"
    with pytest.raises(Conflict):
        create_user(UserWish(username="ａda"), by=anna)  # noqa: RUF001 - that is the point


def test_a_new_link_voids_those_before_it(operators):
    anna, boris = operators
    first, second = (
        secret_of(reset_by_link(boris, by=anna, at=T0, base_url=BASE)) for _ in range(2)
    )

    with pytest.raises(LinkSpent):
        use_sign_in_link(first, at=T0)
    assert use_sign_in_link(second, at=T0) == boris


def test_a_link_of_an_account_that_was_closed_stays_void_when_it_opens_again(operators):
    anna, boris = operators
    secret = secret_of(reset_by_link(boris, by=anna, at=T0, base_url=BASE))

    deactivate_user(boris, by=anna)
    activate_user(boris, by=anna)

    with pytest.raises(LinkSpent):
        use_sign_in_link(secret, at=T0)


def test_a_closed_account_gets_no_mail_neither_then_nor_when_it_opens_again(operators, settings):
    settings.SENDS_MAIL = True
    anna, boris = operators
    for user in operators:
        NotificationFactory(user=user, mail_due_at=T0)
    deactivate_user(boris, by=anna)

    send_due_mail(at=T0)
    activate_user(boris, by=anna)
    send_due_mail(at=T0 + timedelta(days=30))

    assert [message.to for message in mail.outbox] == [[anna.email]]
