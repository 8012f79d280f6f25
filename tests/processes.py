"""What runs on this machine, as tests that kill processes ask it."""

from pathlib import Path


def is_running(pid):
    """Whether there is such a process that has not ended; a zombie, not yet waited for, has.

    It may also end while its file is read: then the file is there, and reading it says that
    there is no such process.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
