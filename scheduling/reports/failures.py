"""Why a job failed, in plain words: what happened, whose it is to mend, and what to do."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduling.models import Job, JobEvent, Member
from scheduling.states import JobState

KILLED = 137
SIGNALS_FROM = 128
LAST_SIGNAL = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """what: one sentence. remedies: what to do, likeliest first. is_ours: no fault of the job.

    member: who failed first, where one did.
    """

    what: str
    remedies: tuple[str, ...]
    is_ours: bool = False
    member: Member | None = None

    @property
    def member_name(self) -> str:
        return f"{self.member.group.name}-{self.member.rank}" if self.member else ""


Words = tuple[Promise, tuple[Promise, ...]]

_READ_LOG = gettext_lazy("Read the end of its log: the error is usually in the last lines.")
_LESS_MEMORY = gettext_lazy(
    "Ask for more memory, or use less: fewer data loader workers, smaller batches."
)
_CHECK_COMMAND = gettext_lazy("Check the command, and that the image has the program.")
_AGAIN = gettext_lazy("Submit it again; nothing needs to be changed.")

BY_CODE: dict[int, Words] = {
    1: (gettext_lazy("Its program ended with an error."), (_READ_LOG,)),
    2: (
        gettext_lazy("Its program was called in a way that it does not understand."),
        (gettext_lazy("Check the options in the command."), _READ_LOG),
    ),
    126: (
        gettext_lazy("Its program was found, and cannot be executed."),
        (
            gettext_lazy(
                "Make it executable, or call it by its interpreter, as in python train.py."
            ),
            gettext_lazy("Check that the image is built for the processors of the nodes."),
        ),
    ),
    127: (gettext_lazy("Its program was not found in the image."), (_CHECK_COMMAND,)),
    134: (
        gettext_lazy("Its program gave up on itself (SIGABRT)."),
        (
            gettext_lazy(
                "An assertion failed, or NCCL waited too long for another member: look for the "
                "member that went silent first."
            ),
            _READ_LOG,
        ),
    ),
    135: (
        gettext_lazy("Its program read memory that was not there (SIGBUS)."),
        (
            gettext_lazy("Shared memory is often too small: use fewer data loader workers."),
            _READ_LOG,
        ),
    ),
    KILLED: (
        gettext_lazy("Its program was killed (SIGKILL), most often for want of memory."),
        (_LESS_MEMORY, _READ_LOG),
    ),
    139: (
        gettext_lazy("Its program crashed in compiled code (segmentation fault)."),
        (
            gettext_lazy("Check that the versions of CUDA, driver and libraries go together."),
            _READ_LOG,
        ),
    ),
    143: (
        gettext_lazy("Its program was told to end (SIGTERM), and ended."),
        (gettext_lazy("Look at the events for who stopped it."), _READ_LOG),
    ),
}
BY_MESSAGE: dict[str, tuple[Words, bool]] = {
    "OOMKilled": (
        (gettext_lazy("It used more memory than it may, and was killed."), (_LESS_MEMORY,)),
        False,
    ),
    "ErrImagePull": (
        (
            gettext_lazy("Its image could not be fetched."),
            (gettext_lazy("Check the name of the image and its tag, and who may fetch it."),),
        ),
        False,
    ),
    "StartError": (
        (gettext_lazy("Its container could not be started."), (_CHECK_COMMAND,)),
        False,
    ),
    "ContainerCannotRun": (
        (gettext_lazy("Its container could not be started."), (_CHECK_COMMAND,)),
        False,
    ),
    "Evicted": (
        (
            gettext_lazy("Its node was short of disk or memory, and sent it away."),
            (_AGAIN, gettext_lazy("Write large files to a volume, not into the container.")),
        ),
        True,
    ),
    "UnexpectedAdmissionError": (
        (gettext_lazy("Its node could not give it the GPUs."), (_AGAIN,)),
        True,
    ),
}


def failure_of(job: Job, members: list[Member], events: tuple[JobEvent, ...]) -> Failure | None:
    """Why `job` failed; None of a job that did not.

    members: of its last attempt. events: oldest first.
    """
    if job.state == JobState.TIMED_OUT:
        return _timed_out(job)
    if job.state != JobState.FAILED:
        return None
    reason = events[-1].reason if events else ""
    if reason == "a job that it waited for failed":
        return _waited_in_vain()
    if reason.startswith("lost members"):
        return _lost_members()
    return _by_member(_first_failed(members), reason)


def _first_failed(members: list[Member]) -> Member | None:
    failed = [member for member in members if member.exit_code]
    order = {None: 1}
    return min(
        failed, key=lambda m: (order.get(m.ended_at, 0), m.ended_at or 0, m.rank), default=None
    )


def _timed_out(job: Job) -> Failure:
    saves = _("Have it save its work, so that it can go on where it was.")
    longer = _("Submit it again with a longer run, if it needs one.")
    return Failure(
        what=_("It was still running when its longest run was over."),
        remedies=(longer,) if job.checkpoint_at else (longer, saves),
    )


def _waited_in_vain() -> Failure:
    return Failure(
        what=_("A job that it was to come after failed, so it never ran."),
        remedies=(_("Mend that job, then submit both again."),),
    )


def _lost_members() -> Failure:
    return Failure(
        what=_("The cluster lost its members again and again."),
        remedies=(
            _("Look at the nodes that it ran on: one may be broken."),
            _("Tell an operator, then submit it again."),
        ),
        is_ours=True,
    )


def _by_member(member: Member | None, reason: str) -> Failure:
    if member is None:
        what = _("It failed: %(reason)s") % {"reason": reason} if reason else _("It failed.")
        return Failure(what=what, remedies=(str(_READ_LOG),))
    told = member.message.split(":")[0]
    (what, remedies), is_ours = BY_MESSAGE.get(told) or (_by_code(member.exit_code or 0), False)
    return Failure(
        what=str(what),
        remedies=tuple(str(remedy) for remedy in remedies),
        is_ours=is_ours,
        member=member,
    )


def _by_code(code: int) -> Words:
    if code in BY_CODE:
        return BY_CODE[code]
    if SIGNALS_FROM < code <= SIGNALS_FROM + LAST_SIGNAL:
        return gettext_lazy("Its program was ended by a signal."), (_READ_LOG,)
    return gettext_lazy("Its program ended with an exit code of its own."), (_READ_LOG,)
