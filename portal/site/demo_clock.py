"""The clock of the demo's simulated cluster: how fast it runs, told by its own door."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from portal.core import audit
from portal.core.errors import Refused
from tenants.access import require_operator
from tenants.models import User
from topology.models import Cluster

SPEEDS = (1, 10, 60, 300)
STANDING = 0
_PATH = "/simcluster/clock"
_TIMEOUT_SECONDS = 5.0


def set_speed(cluster: Cluster, speed: int, *, by: User) -> None:
    """Let the clock of `cluster` run so many times as fast as ours, or stand still.

    The watcher sees it within seconds, and says so on the row. Raises NotAllowed for all but
    operators, Refused for a speed that is not on offer, or where the cluster does not answer.
    """
    require_operator(by)
    if speed not in (STANDING, *SPEEDS):
        raise Refused(_("Choose one of the speeds that are offered."), field="speed")
    before = cluster.clock_speed
    # The speed that it had is kept while it stands, so that it may go on at that.
    _tell({"frozen": True} if speed == STANDING else {"frozen": False, "speed": speed})
    audit.record("set_demo_speed", cluster, by=by, before={"speed": before}, after={"speed": speed})


def _tell(body: dict[str, Any]) -> None:
    url = urlsplit(settings.SIMCLUSTER_URL)
    line = http.client.HTTPConnection(url.hostname or "", url.port, timeout=_TIMEOUT_SECONDS)
    headers = {
        "Authorization": f"Bearer {settings.SIMCLUSTER_TOKEN}",
        "Content-Type": "application/json",
    }
    try:
        line.request("PUT", _PATH, json.dumps(body), headers)
        status = line.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Refused(_unreachable()) from error
    finally:
        line.close()
    if status != http.client.OK:
        raise Refused(_unreachable())


def _unreachable() -> str:
    return _("The simulated cluster does not answer; look at the logs, then try again.")
