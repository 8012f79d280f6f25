"""The catalogue is complete, and compiled as it is written."""

import ast
import gettext
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.utils.translation.template import templatize

ROOT = Path(settings.BASE_DIR)
FOLDER = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES"
APPS = ("portal", "tenants", "topology", "scheduling")
ASKS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
IN_TEMPLATE = re.compile(r"""gettext\((u'(?:[^'\\]|\\.)*'|u"(?:[^"\\]|\\.)*")""")
HOLES = re.compile(r"%\(\w+\)\d*[sd]|%[sd]|\{\w+\}")
ENTRY = re.compile(
    r'^msgid ((?:".*"\n)+)(?:msgid_plural (?:".*"\n)+)?msgstr(?:\[0\])? ((?:".*"\n)+)', re.MULTILINE
)


def written():
    """Each English text of the .po file with its translation."""
    entries = ENTRY.findall((FOLDER / "django.po").read_text() + "\n")
    return {_joined(english): _joined(chinese) for english, chinese in entries}


def _joined(lines):
    return "".join(ast.literal_eval(line) for line in lines.splitlines())


def compiled():
    with (FOLDER / "django.mo").open("rb") as file:
        catalogue = gettext.GNUTranslations(file)._catalog  # noqa: SLF001 - it has no public reader
    plain = {key: text for key, text in catalogue.items() if isinstance(key, str)}
    plural = {key[0]: text for key, text in catalogue.items() if isinstance(key, tuple)}
    return plain | plural


def asked_for():
    """Every text that code and templates ask to be translated."""
    found = set()
    for app in APPS:
        for path in (ROOT / app).rglob("*.py"):
            found |= _in_code(path)
    for path in (ROOT / "templates").rglob("*.*"):
        found |= {ast.literal_eval(m) for m in IN_TEMPLATE.findall(templatize(path.read_text()))}
    return found


def _in_code(path):
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ASKS
        if call.args and isinstance(call.args[0], ast.Constant)
    }


def test_every_text_has_a_translation_and_none_is_left_over():
    known = {english for english, chinese in written().items() if english and chinese}

    assert sorted(asked_for() - known) == []  # run tools/messages, then translate
    assert sorted(known - asked_for()) == []


def test_the_compiled_catalogue_is_the_written_one():
    assert compiled() == written()


def test_no_translation_is_a_guess():
    assert "fuzzy" not in (FOLDER / "django.po").read_text()


@pytest.mark.parametrize(
    ("english", "chinese"), [pair for pair in written().items() if pair[0] and "%" in pair[0]]
)
def test_a_translation_fills_the_same_holes(english, chinese):
    missing = set(HOLES.findall(english)) - set(HOLES.findall(chinese))

    assert missing == set()
    assert set(HOLES.findall(chinese)) <= set(HOLES.findall(english)) | {"%(count)s"}
