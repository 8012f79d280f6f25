"""Rules of the house that no linter knows: sizes, reasons, templates, what the text speaks of."""

import ast
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("bin", "portal", "scheduling", "simcluster", "tenants", "tests", "tools", "topology")
LONGEST_FILE, LONGEST_FUNCTION = 500, 60
GENERATED = (
    "deploy/helm/muster/files/",
    "deploy/kustomize/base/chart/",
    "deploy/kustomize/overlays/webhooks/chart/",
)
WITHOUT_LIMIT = {".css", ".txt"}  # tables of rules, read one by one
NOT_OURS = ("static/vendor/", "tests/data/", "requirements/", "locale/", *GENERATED)
TEXT = (".py", ".md", ".html", ".js", ".css", ".toml", ".yaml", ".yml", ".txt", ".sh", ".cfg", "")


def tracked():
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def name(file):
    return str(file.relative_to(ROOT))


def is_ours(file):
    return not name(file).startswith(NOT_OURS)


FILES = [file for file in tracked() if is_ours(file)] if (ROOT / ".git").exists() else []
PYTHON = [file for file in FILES if file.suffix == ".py" and "migrations" not in file.parts]
TEMPLATES = [file for file in FILES if file.suffix == ".html"]


def words(file):
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return ""


def test_there_is_something_to_look_at():
    if not FILES:
        pytest.skip("this is no git checkout: nothing says which files are ours")
    assert len(PYTHON) > 100
    assert len(TEMPLATES) > 10


def test_no_file_is_too_long():
    files = [file for file in FILES if file.suffix in TEXT and file.suffix not in WITHOUT_LIMIT]
    long = {name(file): len(words(file).splitlines()) for file in files}

    assert {file: lines for file, lines in long.items() if lines > LONGEST_FILE} == {}


def functions(file):
    for node in ast.walk(ast.parse(words(file))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            yield f"{name(file)}:{node.name}", lines - sum(map(lines_of_data, node.body))


def lines_of_data(node):
    """Lines that a literal takes besides its first: a table of a test is one line of code."""
    if isinstance(node, ast.Dict | ast.List | ast.Set | ast.Tuple):
        return node.end_lineno - node.lineno
    return sum(map(lines_of_data, ast.iter_child_nodes(node)))


def test_no_function_is_too_long():
    long = [(where, lines) for file in PYTHON for where, lines in functions(file)]

    assert [(where, lines) for where, lines in long if lines > LONGEST_FUNCTION] == []


SUPPRESSED = re.compile(r"#\s*(noqa|type:\s*ignore)\b([^\n]*)")
WITH_CODE = re.compile(r"(:\s*[A-Z]+\d+([,\s]+[A-Z]+\d+)*|\[[a-z-]+(,\s*[a-z-]+)*\])\s*(.*)")


def unexplained(text):
    """Suppressions without a code and a reason after it."""
    for found in SUPPRESSED.finditer(text):
        match = WITH_CODE.match(found[2])
        if match is None or not re.search(r"[A-Za-z]{2}", match[4]):
            yield found[0]


@pytest.mark.parametrize(
    ("line", "is_fine"),
    [
        ("x = 1  # no" + "qa", False),
        ("x = 1  # no" + "qa: S101", False),
        ("x = 1  # no" + "qa: S101 - because", True),
        ("x = 1  # no" + "qa: S101, S102 -- because", True),
        ("x = 1  # type: ig" + "nore", False),
        ("x = 1  # type: ig" + "nore[misc]", False),
        ("x = 1  # type: ig" + "nore[misc]  # stubs lack it", True),
    ],
)
def test_a_suppression_needs_its_code_and_its_reason(line, is_fine):
    assert (list(unexplained(line)) == []) == is_fine


def test_every_suppression_has_its_code_and_its_reason():
    found = [(name(file), line) for file in PYTHON for line in unexplained(words(file))]

    assert found == []


def skips(file):
    for node in ast.walk(ast.parse(words(file))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.endswith((".skip", ".skipif", ".xfail", ".importorskip")):
                yield f"{name(file)}:{node.lineno}", node
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.skip":
            yield f"{name(file)}:{node.lineno}", None


def test_every_skip_has_a_reason():
    tests = [file for file in PYTHON if name(file).startswith("tests/")]
    calls = [skip for file in tests for skip in skips(file)]
    called = {where for where, call in calls if call is not None}

    bare = [where for where, call in calls if call is None and where not in called]
    silent = [
        where
        for where, call in calls
        if call is not None
        and not any(keyword.arg == "reason" for keyword in call.keywords)
        and not (call.args and ast.unparse(call.func) == "pytest.skip")
        and not (call.args and ast.unparse(call.func) == "pytest.mark.skip")
    ]

    assert (bare, silent) == ([], [])


class Elements(HTMLParser):
    """Every element of a template with its attributes, and the text of its scripts and styles."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.inline = []
        self._open = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self._open and self._open[-1][0] == tag:
            self._open.pop()

    def handle_data(self, data):
        if self._open and data.strip():
            self.inline.append((*self._open[-1], data.strip()[:60]))


def parsed(file):
    """The elements of a template: its comments and block tags taken out, its variables kept."""
    text = re.sub(r"{%\s*comment.*?endcomment\s*%}|{#.*?#}", "", words(file), flags=re.DOTALL)
    text = re.sub(r"{%.*?%}", " ", text, flags=re.DOTALL)
    elements = Elements()
    elements.feed(text)
    return elements


def attributes():
    for file in TEMPLATES:
        for tag, attrs in parsed(file).found:
            for attribute, value in attrs.items():
                yield f"{name(file)}: <{tag}>", attribute, value or ""


def test_no_template_has_style_or_script_in_it():
    """Unless it is data, which nobody executes, or the file of a script."""
    inline = [(name(file), *found) for file in TEMPLATES for found in parsed(file).inline]

    assert [found for found in inline if found[2].get("type") != "application/json"] == []
    assert [a for a in attributes() if a[1] == "style"] == []
    assert [a for a in attributes() if re.fullmatch(r"on[a-z]+", a[1])] == []
    assert [a for a in attributes() if a[2].strip().startswith("javascript:")] == []


def test_htmx_is_used_so_that_its_next_version_is_a_switch():
    """Nothing on the element but what works there by itself: no scripts, filters, inheritance."""
    hx = [a for a in attributes() if a[1].startswith(("hx-", "data-hx-"))]

    assert [a for a in hx if a[1].startswith(("hx-on", "data-"))] == []
    assert [a for a in hx if a[1] in {"hx-boost", "hx-disinherit", "hx-inherit", "hx-vars"}] == []
    assert [a for a in hx if a[2].strip().startswith(("js:", "javascript:"))] == []
    assert [a for a in hx if a[1] == "hx-trigger" and "[" in a[2]] == []


ASKS = {"hx-get", "hx-post", "hx-put", "hx-patch", "hx-delete"}
NEEDS_ITS_OWN = {"hx-target", "hx-swap", "hx-trigger", "hx-select", "hx-vals", "hx-include"}


def test_every_hx_attribute_stands_on_the_element_that_asks():
    inherited = [
        (name(file), tag, sorted(attrs.keys() & NEEDS_ITS_OWN))
        for file in TEMPLATES
        for tag, attrs in parsed(file).found
        if attrs.keys() & NEEDS_ITS_OWN and not attrs.keys() & ASKS
    ]

    assert inherited == []


def test_every_include_gets_only_what_it_is_given():
    """Save a page's own fragment, which htmx gets with the same context as the page."""
    fragment = re.compile(r"""{% include "[a-z]+/partials/_\w+\.html" %}""")
    loose = [
        (name(file), tag)
        for file in TEMPLATES
        for tag in re.findall(r"{%\s*include\b[^%]*%}", words(file))
        if not re.search(r"\bonly\s*%}", tag)
        and not (fragment.fullmatch(tag) and "partials" not in file.parts)
    ]

    assert loose == []


def test_every_partial_opens_with_the_list_of_its_context():
    silent = [
        name(file)
        for file in TEMPLATES
        if file.name.startswith("_")
        and not re.match(r"({%\s*(load|extends)[^%]*%}\s*)*({#|{%\s*comment)", words(file))
    ]

    assert silent == []


def test_the_text_speaks_of_the_project_alone():
    """No paths of one machine, no hosts of somebody's registry, no account of how it came about."""
    foreign = re.compile(
        "|".join([r"(?<![\w.])/wo" + r"rk/", r"\.\./sha" + "red", r"artifac" + "tory", r"nexus\."])
    )

    found = [
        (name(file), match[0])
        for file in tracked()
        if file.suffix in {*TEXT, ".json", ".lock"}
        for match in foreign.finditer(words(file))
    ]

    assert found == []


def test_requirements_name_no_index():
    named = [
        (name(file), line)
        for file in (ROOT / "requirements").glob("*.txt")
        for line in words(file).splitlines()
        if "index-url" in line or "find-links" in line or "://" in line.split("#")[0]
    ]

    assert named == []


def test_scripts_are_not_executed_from_elsewhere():
    remote = [
        a
        for a in attributes()
        if a[1] in {"src", "href", "action"}
        and re.match(r"(https?:)?//", a[2])
        and not a[0].endswith("<a>")
    ]

    assert remote == []
