"""The node agent: looks at the machine's GPUs and says on the node what it saw.

    NODE_NAME=gpu-7 python -m topology.agent --root /host

It reports changes, and everything once an hour in case somebody took it away. Nothing that the
driver, the machine or the API server does ends it.
"""

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from topology.agent.guard import GaveUpError, Guard
from topology.agent.publish import ApiServer, NotPublishedError
from topology.agent.survey import Patch, survey, without_gpus

logger = logging.getLogger("muster.agent")
AGAIN_SECONDS: Final = 3600.0


class Agent:
    """Looks, and publishes what has changed since it last could."""

    def __init__(
        self, look: Callable[[], Patch], publish: Callable[[Patch], None], timeout_seconds: float
    ) -> None:
        self._look = look
        self._publish = publish
        self._guard = Guard(timeout_seconds)
        self._published: Patch | None = None
        self._published_at = 0.0

    def round(self, at: float) -> None:
        """One look, and a report if there is something to report. at: seconds, always growing."""
        try:
            patch: Patch = self._guard.run(self._look)
        except GaveUpError as error:
            patch = without_gpus("hangs" if error.hangs else "failed", str(error))
        if patch == self._published and at - self._published_at < AGAIN_SECONDS:
            return
        try:
            self._publish(patch)
        except NotPublishedError as error:
            logger.warning("not published: %s", error)
            return
        logger.info("published")
        self._published, self._published_at = patch, at


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m topology.agent", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("/"), help="the host's file system")
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between looks")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds before giving up one")
    parser.add_argument("--api", help="HOST:PORT of an API server without TLS, as of kubectl proxy")
    parser.add_argument("--token", type=Path, help="file with the token for --api, if it wants one")
    parser.add_argument("--once", action="store_true", help="print what would be said, and end")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if options.once:
        print(json.dumps(survey(options.root), indent=2))  # noqa: T201 -- asked for
        return
    agent = Agent(
        lambda: survey(options.root), _publisher(options.api, options.token), options.timeout
    )
    while True:
        agent.round(time.monotonic())
        time.sleep(options.interval)


def _publisher(api: str | None, token: Path | None) -> Callable[[Patch], None]:
    """Writes to the node that the pod runs on, as Kubernetes tells the pod."""
    name = os.environ["NODE_NAME"]
    if api is None:
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        server = ApiServer(host, int(os.environ["KUBERNETES_SERVICE_PORT"]))
    else:
        host, _, port = api.rpartition(":")
        server = ApiServer(host, int(port), token=token, certificates=None)
    return lambda patch: server.patch_node(name, patch)


if __name__ == "__main__":
    main(sys.argv[1:])
