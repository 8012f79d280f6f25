"""What commands that read files of an operator's have in common."""

import sys
from pathlib import Path
from typing import NoReturn

from django.core.management.base import BaseCommand

from topology.catalog.gpus import MODELS, GpuModel, begun_by, find_model

UNREADABLE = 2
_MOST_GPUS = 64


class ReadingCommand(BaseCommand):
    """A command that needs no database and ends with status 2 where it cannot read what it got."""

    requires_system_checks: list[str] = []

    def read(self, name: str) -> str:
        """The text of a file; of standard input for -."""
        try:
            found = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            return found.decode()
        except OSError as error:
            self.refuse(f"cannot read {name}: {error.strerror}")
        except UnicodeDecodeError:
            self.refuse(f"cannot read {name}: it is no UTF-8 text")

    def model(self, word: str) -> GpuModel:
        """The GPU model that a word means."""
        model = find_model(word)
        if model is None:
            several = ", ".join(own.key for own in begun_by(word))
            known = ", ".join(own.key for own in MODELS if own.has_mig)
            self.refuse(
                f"{word} may be any of {several}"
                if several
                else f"there is no GPU model {word}; with MIG there are {known}"
            )
        return model

    def models(self, words: list[str]) -> list[GpuModel]:
        """The GPUs of a node, from words such as A30 or 4xA100-40GB."""
        found: list[GpuModel] = []
        for word in words:
            count, times, name = word.partition("x")
            many = bool(times) and count.isascii() and count.isdecimal()
            found += [self.model(name if many else word)] * (int(count) if many else 1)
            if len(found) > _MOST_GPUS:
                self.refuse(f"{word}: no node has more than {_MOST_GPUS} GPUs")
        return found

    def refuse(self, why: str) -> NoReturn:
        self.stderr.write(why)
        raise SystemExit(UNREADABLE)
