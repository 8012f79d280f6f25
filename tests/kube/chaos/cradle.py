"""Inside the nursery: all is imported here, once, and each life is a fork of it."""

import ctypes
import gc
import json
import logging
import os
import signal
import socket

from celery import signals
from celery.concurrency import solo
from django.conf import settings
from django.core.management import call_command
from kombu.transport import redis

from portal.celery import app
from portal.core import queueing
from portal.settings import base
from scheduling.management.commands import watch_cluster
from tests.kube.chaos import steps
from tests.kube.chaos.nursery import Life
from topology.kube import client

LOADED = (signals, solo, redis, watch_cluster, client)  # what a life would import by itself
SOON_SECONDS = 1  # what the product does within a quarter of a minute
VISIBLE_AGAIN_SECONDS = 2  # a task that lasts longer, or whose worker died, is done by another, too
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def rock(descriptor):
    """Bear whoever is asked for, until nobody can ask any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are waited for by nobody
    settings.CACHES = base.CACHES  # one for all processes, as in production
    queueing.AGAIN_AFTER = SOON_SECONDS
    os.environ["CELERY_SKIP_CHECKS"] = "true"
    app.loader.import_default_modules()
    gc.freeze()
    with socket.socket(fileno=descriptor) as channel, channel.makefile("r") as questions:
        for question in questions:
            pid = os.fork()
            if not pid:
                channel.close()
                _live(Life(**json.loads(question)))
            channel.sendall(f"{pid}\n".encode())


def _live(life):
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        logging.getLogger().handlers[0].setFormatter(
            logging.Formatter(f"%(asctime)s {life.name} %(levelname)s %(name)s %(message)s")
        )
        settings.BIND_TIMEOUT_SECONDS = life.bind_seconds
        if life.step:
            steps.die_after(life.step, life.count, name=life.name)
        {"worker": _work, "watcher": _watch}[life.role](life)
    finally:
        os._exit(1)


def _work(life):
    app.conf.broker_transport_options = {
        "visibility_timeout": VISIBLE_AGAIN_SECONDS,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }
    worker = app.Worker(
        hostname=f"{life.name}@muster",
        pool_cls="solo",
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
        quiet=True,
        loglevel="INFO",
        redirect_stdouts=False,
    )
    worker.start()


def _watch(life):
    call_command("watch_cluster", cluster=life.cluster)
