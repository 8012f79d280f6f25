"""bin/run, once the packages are there: starts everything, says where it is, keeps it running."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from portal.embedded import checkout, demo, first_steps, given, ports, postgres, valkey
from portal.embedded.programs import CannotStart
from portal.embedded.supervisor import StopAsked, Supervisor, stop_on_signals
from portal.embedded.terminal import say, step, welcome

HIGHEST_PORT = 65_534  # one is left to be proposed instead
HIGHEST_SPEED = 1_000  # that the simulated cluster keeps up with


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 when stopped as asked, 1 with a sentence when it cannot go on."""
    asked = parser().parse_args(arguments)
    options = demo.Options(
        port=asked.port, speed=asked.speed, feed=asked.demo_feed, data=asked.data.resolve()
    )
    stop_on_signals()
    try:
        anew = run(options, reset=asked.reset, check=asked.check)
        while anew:
            anew = run(options, reset=True)
    except StopAsked:
        return 0
    except CannotStart as error:
        say(f"\n{error}")
        return 1
    except PermissionError as error:
        say(
            f"\n{error.filename} belongs to another user: was Muster run as root here before?"
            f"\nRun it as that user, or give the folder over: chown -R $(id -un) {options.data}"
        )
        return 1
    except OSError as error:  # a full disk, a folder that cannot be written to
        place = f" ({error.filename})" if error.filename else ""
        say(f"\n{error.strerror or error}{place}. Mend that, then run the same command again.")
        return 1
    return 0


def run(options: demo.Options, *, reset: bool = False, check: bool = False) -> bool:
    """Everything from the lock to the end; whether somebody asked in the portal to begin anew.

    Stops what it has started, whatever happens.
    """
    make_folder(options.data)
    held = checkout.lock(options.data, address=options.address)
    if reset:
        checkout.forget(options.data)
    checkout.drop_request(options.data)
    options.logs.mkdir(exist_ok=True)
    require_free(options.port)
    supervisor = Supervisor(say, keep_open=(held,))
    is_asked = False
    try:
        env = start_services(supervisor, options)
        demo.keep_environment(options.data / "environment", env)
        start_portal(supervisor, options, env)
        link = first_steps.sign_in_link(options, env)
        say(welcome(options, link))
        if not check:
            supervisor.watch(until=partial(checkout.is_reset_asked, options.data))
            is_asked = True
            say("\nSomebody asked in the portal to begin anew.")
    finally:
        say("Stopping …")
        supervisor.stop()
        os.close(held)
        if not is_asked:
            say("Stopped. The data is kept; bin/run goes on from here.")
    return is_asked


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except PermissionError:
        raise
    except OSError as error:
        raise CannotStart(
            f"Nothing can be kept in {folder} ({error.strerror})."
            " Take another folder: bin/run --data FOLDER"
        ) from error


def start_services(supervisor: Supervisor, options: demo.Options) -> dict[str, str]:
    """The environment of the portal, once what it leans on runs. Addresses given are used."""
    database_url = os.environ.get("DATABASE_URL")
    redis_url = os.environ.get("REDIS_URL")
    if database_url:
        given.require_database(database_url)
    if redis_url:
        given.require_broker(redis_url)
    if not database_url:
        with step("Starting PostgreSQL"):
            server = postgres.prepare(options.data / "postgres", log=options.logs / "postgres.log")
            supervisor.start(server.program)
            database_url = server.url
    if not redis_url:
        with step("Starting Valkey"):
            server = valkey.prepare(options.data / "valkey", log=options.logs / "valkey.log")
            supervisor.start(server.program)
            redis_url = server.url
    port = ports.kept(options.data / "simcluster-port")
    services = demo.Services(
        database_url=database_url,
        redis_url=redis_url,
        simcluster_url=f"http://{ports.HOST}:{port}",
    )
    env = demo.environment(os.environ, options, services)
    with step("Starting the simulated cluster"):
        supervisor.start(demo.simcluster(options, env))
    return env


def start_portal(supervisor: Supervisor, options: demo.Options, env: dict[str, str]) -> None:
    """Prepare the database and start every process of the portal."""
    first_steps.prepare(options, env)
    for program in demo.portal_programs(options, env):
        with step(f"Starting {program.name}"):
            supervisor.start(program, within=60)


def require_free(port: int) -> None:
    try:
        free = ports.is_free(port)
    except PermissionError:
        raise CannotStart(
            f"Only root may serve on port {port}. Take one above 1023: bin/run --port 8000"
        ) from None
    if not free:
        other = ports.next_free(port)
        raise CannotStart(
            f"Port {port} is taken by another program. Take another one: bin/run --port {other}"
        )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="bin/run", description="The demo of Muster: a whole portal on a simulated cluster."
    )
    made.add_argument("--port", type=port_number, default=8000, help="of the web pages (8000)")
    made.add_argument("--speed", type=speed, default=60, help="of the cluster's clock (60)")
    made.add_argument(
        "--no-demo-feed", dest="demo_feed", action="store_false", help="replay no trace of jobs"
    )
    made.add_argument("--reset", action="store_true", help="forget all data and begin anew")
    made.add_argument("--check", action="store_true", help="start everything, then stop")
    made.add_argument(
        "--data", type=Path, default=demo.ROOT / ".data", help="where everything is kept (.data)"
    )
    return made


def port_number(text: str) -> int:
    number = int(text)
    if not 1 <= number <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{number} is no port: take one from 1 to {HIGHEST_PORT}")
    return number


def speed(text: str) -> float:
    number = float(text)
    if not 0 < number <= HIGHEST_SPEED:
        raise argparse.ArgumentTypeError(f"take a speed above 0 and up to {HIGHEST_SPEED}")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
