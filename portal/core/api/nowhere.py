from typing import Any, NoReturn

from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from portal.core.api.doors import Door


class NowhereDoor(Door):
    """Any path of the API that leads nowhere: 404 as a problem, not as a page."""

    schema = None  # type: ignore[assignment] # nothing to describe

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        self.perform_authentication(request)
        self.check_permissions(request)
        raise NotFound

    def nowhere(self, request: Request, **kwargs: Any) -> NoReturn:
        raise NotFound
