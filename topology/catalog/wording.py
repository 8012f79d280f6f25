"""Sentences in modules that know nothing of translation.

They are marked by `gettext_noop`, so that they are collected, and translated by whoever shows them:
`misfit.text(gettext)`.
"""

from collections.abc import Callable

Translate = Callable[[str], str]


def gettext_noop(text: str) -> str:
    """The text itself."""
    return text
