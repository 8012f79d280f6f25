import threading

from topology.kube.mailbox import Mailbox
from topology.kube.values import NodeSeen


def said(name, version):
    return NodeSeen(name=name, version=version)


def all_of(mailbox):
    return list(iter(lambda: mailbox.take(seconds=0), None))


def test_things_are_taken_in_the_order_in_which_they_were_first_told():
    mailbox = Mailbox(10)

    for name in ("b", "a", "c"):
        mailbox.put(name, said(name, 1), seconds=0)

    assert all_of(mailbox) == [said("b", 1), said("a", 1), said("c", 1)]


def test_only_the_newest_of_a_thing_is_kept_in_its_old_place():
    mailbox = Mailbox(10)
    mailbox.put("a", said("a", 1), seconds=0)
    mailbox.put("b", said("b", 2), seconds=0)

    mailbox.put("a", said("a", 3), seconds=0)

    assert all_of(mailbox) == [said("a", 3), said("b", 2)]


def test_what_is_about_all_before_it_comes_after_it():
    mailbox = Mailbox(10)
    mailbox.put("list", said("list", 1), seconds=0)
    mailbox.put("a", said("a", 2), seconds=0)

    mailbox.put("list", said("list", 3), seconds=0, last=True)

    assert all_of(mailbox) == [said("a", 2), said("list", 3)]


def test_a_full_mailbox_takes_news_of_what_it_holds_and_of_nothing_else():
    mailbox = Mailbox(1)
    mailbox.put("a", said("a", 1), seconds=0)

    refused = mailbox.put("b", said("b", 2), seconds=0)
    replaced = mailbox.put("a", said("a", 3), seconds=0)

    assert (refused, replaced) == (False, True)
    assert all_of(mailbox) == [said("a", 3)]


def test_who_puts_waits_until_there_is_room():
    mailbox = Mailbox(1)
    mailbox.put("a", said("a", 1), seconds=0)
    waiting = threading.Thread(target=lambda: mailbox.put("b", said("b", 2), seconds=10))
    waiting.start()

    first = mailbox.take(seconds=0)
    second = mailbox.take(seconds=10)
    waiting.join()

    assert (first, second) == (said("a", 1), said("b", 2))


def test_an_empty_mailbox_gives_nothing_in_time():
    assert Mailbox(1).take(seconds=0.01) is None
