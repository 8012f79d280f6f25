# shellcheck shell=bash
# Sourced by run and test: makes .venv hold what requirements/$1.txt says, and says what it does.
# Nothing happens when it already does. A set for developers includes the one for running.

# Compiled modules are kept, or each of a dozen processes would compile the same ones at each start.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$@" >&2; }

fail() {
    say "" "$@"
    exit 1
}

fingerprint_of() { # python, name of a set
    "$1" - "$2" <<'PYTHON'
import hashlib, pathlib, sys
text = pathlib.Path(f"requirements/{sys.argv[1]}.txt").read_bytes()
version = f"{sys.version_info.major}.{sys.version_info.minor}"
print(sys.argv[1], hashlib.sha256(version.encode() + text).hexdigest())
PYTHON
}

find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import ssl, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    fail "Python 3.11 or newer is needed and was not found: python3.11, python3.12, python3.13 and" \
        "python3 were tried." \
        "On Debian 12 or Ubuntu 24.04: apt-get install python3 python3-venv" \
        "On Fedora: dnf install python3.12. Elsewhere: https://www.python.org/downloads/"
}

make_venv() {
    local python
    python=$(find_python) || exit 1
    "$python" -c 'import venv, ensurepip' 2>/dev/null || fail \
        "$python cannot make virtual environments: its modules venv and ensurepip are missing." \
        "On Debian and Ubuntu: apt-get install python3-venv"
    say "Making .venv with $("$python" -V) ($python) …"
    rm -rf .venv
    "$python" -m venv .venv >&2 || fail \
        "The virtual environment could not be made: see the lines above. Is the disk full?"
}

# The installer uv takes a fifth of pip's time from an empty cache; pip does where uv does not.
install() { # name of a set
    local uv_requirement
    if [ ! -x .venv/bin/uv ]; then
        uv_requirement=$(mktemp)
        sed -n '/^uv==/,/# via/p' requirements/dev.txt >"$uv_requirement"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
            -r "$uv_requirement" >&2 || say "uv cannot be had; pip is used instead."
        rm -f "$uv_requirement"
    fi
    if [ -n "${PIP_INDEX_URL:-}" ]; then
        export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
    fi
    if [ -x .venv/bin/uv ] && .venv/bin/uv pip install --python .venv/bin/python \
        --require-hashes -r "requirements/$1.txt" >&2; then
        return
    fi
    say "Installing with pip, which takes a minute or two …"
    .venv/bin/python -m pip install --disable-pip-version-check --require-hashes \
        -r "requirements/$1.txt" >&2
}

ensure_venv() { # name of a set: runtime or dev
    local stamp=.venv/.muster-installed busy=.venv/.muster-installing wanted began=$SECONDS
    mkdir -p .data
    exec 9>.data/setup.lock
    if command -v flock >/dev/null && ! flock --nonblock 9; then
        say "Another bin/run or bin/test is installing in this checkout; waiting for it …"
        flock 9
    fi
    # An installation that was interrupted cannot be told from a whole one: it is made anew.
    if [ -e "$busy" ] || ! .venv/bin/python -c 'import pip' 2>/dev/null; then
        make_venv
    fi
    for wanted in "$1" dev; do
        if grep -qsxF "$(fingerprint_of .venv/bin/python "$wanted")" "$stamp"; then
            exec 9>&-
            return
        fi
    done
    say "Installing $(grep -c '==' "requirements/$1.txt") packages into .venv …"
    touch "$busy"
    install "$1" || fail \
        "The packages could not be installed: see the lines above. Without a network, or behind a" \
        "proxy, set HTTPS_PROXY or PIP_INDEX_URL; then run the same command again."
    fingerprint_of .venv/bin/python "$1" >"$stamp"
    rm -f "$busy"
    exec 9>&-
    say "Installed in $((SECONDS - began)) s."
}
