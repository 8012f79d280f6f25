from datetime import date, timedelta

import pytest

from tenants.models import QuotaRequest
from tenants.services.quota_requests import QuotaWish, draft_request, submit_request
from tests.scene import NOON

DAY = NOON.date()  # on the scene's own clock
WHY = "Pre-training of the next language model, three runs of ten days."


@pytest.fixture
def ask(scene):
    """A function that has mei write a request for `nlp`, and submit it unless it is a draft."""

    def asked(*, draft=False, **said):
        wish = {
            "purpose": QuotaRequest.Purpose.TRAINING,
            "cluster": scene.cluster,
            "flavor": scene.flavors[0],
            "gpus": 4,
            "starts_on": DAY,
            "ends_on": DAY + timedelta(days=89),
            "justification": WHY,
        }
        request = draft_request(
            QuotaWish(**wish | said), tenant=scene.language, by=scene.mei, at=scene.wall
        )
        return request if draft else submit_request(request, by=scene.mei, at=scene.wall)

    return asked


@pytest.fixture
def sent_form(scene):
    """What the browser sends for a new request."""
    return {
        "tenant": "nlp",
        "cluster": "demo",
        "purpose": "training",
        "flavor": scene.flavors[0].pk,
        "gpus": 4,
        "borrowing_gpus": 2,
        "gpu_hours": 5000,
        "starts_on": DAY.isoformat(),
        "ends_on": date(2026, 6, 30).isoformat(),
        "justification": WHY,
    }


@pytest.fixture
def offer_form(scene):
    """What the browser sends for a decision on a request of `ask`, as asked."""

    def sent(request, action, **said):
        terms = {
            "flavor": request.flavor_id or scene.flavors[0].pk,
            "gpus": request.gpus,
            "borrowing_gpus": request.borrowing_gpus,
            "gpu_hours": request.gpu_hours or "",
            "starts_on": request.starts_on.isoformat(),
            "ends_on": request.ends_on.isoformat(),
            "note": "",
        }
        terms = {f"offer-{name}": value for name, value in (terms | said).items()}
        return {"action": action, "seen": request.version, **terms}

    return sent
