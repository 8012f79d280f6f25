"""Where services may live: whom they run as, what that user can reach, how long a path may be."""

import contextlib
import hashlib
import os
import pwd
import shutil
import stat
from pathlib import Path

from portal.embedded.programs import Account, CannotStart

# Beside the data of a root's checkout when that lies where no other user may look.
FALLBACK = Path("/var/lib/muster")
SHORT = Path("/tmp")  # noqa: S108 - a folder of our own in it, whose owner is checked
UNPRIVILEGED = ("postgres", "nobody")
LONGEST_SOCKET_PATH = 100  # bytes; the kernel's limit is 107


def account_for_servers() -> Account | None:
    """Whom PostgreSQL runs as: nobody in particular for root, the caller (None) for anyone else."""
    if os.geteuid() != 0:
        _require_a_name(os.geteuid())
        return None
    for name in UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid != 0:
                return Account(name, entry.pw_uid, entry.pw_gid)
    raise CannotStart(
        "PostgreSQL must not run as root, and this machine has no user named"
        f" {' or '.join(UNPRIVILEGED)}. Run this as an ordinary user, add one with"
        " `useradd --system --user-group postgres`, or set DATABASE_URL to a server of your own."
    )


def _require_a_name(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise CannotStart(
            f"PostgreSQL asks for the name of its user, and this machine has none for number {uid}."
            " Run this as a user of the machine (or add a line to /etc/passwd),"
            " or set DATABASE_URL to a server of your own."
        ) from None


def can_reach(account: Account | None, path: Path) -> bool:
    """Whether `account` may enter every folder above `path`, by their modes; the caller may."""
    return account is None or all(_may_enter(account, folder) for folder in path.resolve().parents)


def _may_enter(account: Account, folder: Path) -> bool:
    if not folder.exists():
        return True  # it will be made by us, and open
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def home_for(folder: Path, account: Account | None) -> Path:
    """A folder of `account`'s own for the data called `folder`, made if need be.

    It is `folder` itself where the account can reach it, else one under FALLBACK with a name made
    from it: the mode of no folder that was there before is changed.
    """
    home = folder.resolve()
    if not can_reach(account, home):
        _make(FALLBACK, 0o755)
        home = FALLBACK / digest(folder)
    _make(home, 0o700)
    if account is not None and home.stat().st_uid != account.uid:
        _hand_over(home, account)
    return home


def _make(folder: Path, mode: int) -> None:
    missing = [path for path in [*reversed(folder.parents), folder] if not path.exists()]
    for path in missing:
        path.mkdir()
        path.chmod(mode if path == folder else 0o755)  # whatever the umask says


def open_to_all(folder: Path) -> None:
    """Let everybody read and run what the owner may, whatever the umask was when it was made."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            may = mode & (stat.S_IRUSR | stat.S_IXUSR)
            path.chmod(mode | may >> 3 | may >> 6)


def _hand_over(home: Path, account: Account) -> None:
    if any(home.iterdir()):
        raise CannotStart(
            f"{home} should belong to the user {account.name}, whom PostgreSQL runs as, and does"
            f" not: it was made by another user. Run `bin/run --reset` (the data is lost),"
            f" or give it over with `chown -R {account.name} {home}`."
        )
    os.chown(home, account.uid, account.gid)


def socket_folder(home: Path, account: Account | None, *, longest_name: int) -> Path:
    """Where a socket of the service in `home` goes: there, or in a short place if that is too long.

    longest_name: bytes of the name of the socket itself.
    """
    room = LONGEST_SOCKET_PATH - longest_name - 1
    if len(os.fsencode(home)) <= room and "," not in str(home):  # libpq lists hosts with commas
        return home
    folder = SHORT / f"muster-{os.geteuid()}-{digest(home)}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if account is not None:
            os.chown(folder, account.uid, account.gid)
    owner = account.uid if account else os.geteuid()
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner or status.st_mode & 0o077:
        raise CannotStart(f"{folder} is not ours alone, so no socket is put there: remove it.")
    return folder


def digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def forget(folder: Path) -> None:
    """Remove `folder`, what stood for it under FALLBACK, and the short places of their sockets."""
    homes = (folder.resolve(), FALLBACK / digest(folder))
    for home in homes:
        shutil.rmtree(SHORT / f"muster-{os.geteuid()}-{digest(home)}", ignore_errors=True)
    for home in homes:
        shutil.rmtree(home, ignore_errors=True)
