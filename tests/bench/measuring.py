"""Seconds of CPU, which other work on the machine disturbs least; peak memory; growth."""

import math
import multiprocessing
import resource
import statistics
import time
from pathlib import Path

import numpy as np
from django.db import connection

ROUNDS = 5
PROTOCOL = f"CPU seconds, median of {ROUNDS} after a warm-up, one process, one core"


def cpu_seconds(work, rounds=ROUNDS, handed=None, clock=time.process_time):
    """What `work` takes: the median of some rounds, after one that does not count.

    handed: makes what `work` is given anew for each round, at no cost.
    """
    return statistics.median(_times(work, rounds, handed, clock))


def least_cpu_seconds(work, rounds=3):
    """What `work` takes on a machine that does nothing else: the least of some rounds."""
    return min(_times(work, rounds))


def cpu_clock_with_database():
    """CPU seconds of this process and of the server's that serves it, on this machine."""
    server = connection.connection.info.backend_pid
    nanoseconds = Path(f"/proc/{server}/schedstat").read_text().split()[0]
    return time.process_time() + int(nanoseconds) / 1e9


def _times(work, rounds, handed=None, clock=time.process_time):
    times = []
    for _ in range(1 + rounds):
        given = () if handed is None else (handed(),)
        began = clock()
        work(*given)
        times.append(clock() - began)
    return times[1:]


def timed(work):
    """(what `work` returns, CPU seconds that it takes), done once: for what takes minutes."""
    began = time.process_time()
    done = work()
    return done, time.process_time() - began


def exponent(sizes, seconds):
    """The power of its size that a cost grows with: the slope of a line through the logarithms."""
    slope, _ = np.polyfit([math.log(own) for own in sizes], [math.log(own) for own in seconds], 1)
    return float(slope)


def peak_mib(work):
    """The most memory in MiB that a fresh process holds which does `work` once."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=_say_peak, args=(work, answers))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the measured process ended with {process.exitcode}")
    return answers.get()


def _say_peak(work, answers):
    work()
    answers.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
