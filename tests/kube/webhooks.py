"""Who answers our webhooks, as he is started in a cluster, with a certificate of his own."""

import base64
import ssl
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

from portal.embedded import ports
from portal.embedded.programs import Program, spawn, stop, wait_until_ready
from topology.kube.admission.answers import HEALTH_PATH

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def running_webhook_server(folder):
    """A clientConfig that leads to it, as long as the block lasts."""
    folder.mkdir()
    certificate, key = make_certificate(folder)
    port = ports.any_free()
    url = f"https://{ports.HOST}:{port}"
    program = Program(
        name="webhooks",
        argv=(
            *(sys.executable, "-m", "gunicorn", "--bind", f"{ports.HOST}:{port}"),
            *("--certfile", str(certificate), "--keyfile", str(key)),
            *("--worker-class", "gthread", "--threads", "4", "--no-control-socket"),
            "topology.kube.admission.answers",
        ),
        env={"PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        log=folder / "log",
        ready=lambda: is_up(url, certificate),
        on_parent_death=SIGKILL,
    )
    process = spawn(program)
    try:
        wait_until_ready(process, program, within=60)
        yield {"url": url, "caBundle": base64.b64encode(certificate.read_bytes()).decode()}
    finally:
        stop(process, by=SIGKILL)


def make_certificate(folder):
    """A certificate for this machine that signs itself, and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=muster-admission", "-addext", f"subjectAltName=IP:{ports.HOST}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def is_up(url, certificate):
    context = ssl.create_default_context(cafile=certificate)
    try:
        with urllib.request.urlopen(url + HEALTH_PATH, timeout=5, context=context) as answer:
            return answer.status == 200
    except OSError:
        return False
