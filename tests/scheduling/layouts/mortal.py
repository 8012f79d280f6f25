"""Workers that die while they change a node: each is killed by SIGKILL, without a word.

A program of its own, without threads, so that it can fork. It reads "CHANGE STEP CALL" lines: a
child then does the task of a change and is killed after that call of the cluster in that step. It
answers each with what ended the child: -9, or 0 where the child did not come so far.
"""

import os
import signal
import sys

import django


def main():
    django.setup()
    from django.db import connections  # noqa: PLC0415 - after the setup

    import topology.kube.client  # noqa: F401, PLC0415 - once, for all children
    from scheduling.tasks import advance_change  # noqa: F401, PLC0415 - once, for all children

    for line in sys.stdin:
        change, step, call = line.split()
        connections.close_all()
        child = os.fork()
        if child == 0:
            live(int(change), step, int(call))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def live(change_id, step, call):
    """Do what a worker does, up to that call."""
    from portal.core import queueing  # noqa: PLC0415 - after the setup
    from scheduling.tasks import advance_change  # noqa: PLC0415 - as above
    from topology.kube import layout_doors  # noqa: PLC0415 - as above

    queueing._send = lambda _name, _arguments: None  # noqa: SLF001 - there is no broker
    left = [call]

    def mortal(method):
        def called(self, *arguments, **named):
            answer = method(self, *arguments, **named)
            left[0] -= is_at(change_id, step)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return called

    doors = layout_doors.LiveLayoutDoors
    for name in ("node", "cordon", "label", "put_config", "pods_on", "evict"):
        setattr(doors, name, mortal(getattr(doors, name)))
    advance_change(change_id=change_id)


def is_at(change_id, step):
    from topology.models import NodeChange  # noqa: PLC0415 - after the setup

    return NodeChange.objects.filter(pk=change_id, step=step).exists()


if __name__ == "__main__":
    main()
