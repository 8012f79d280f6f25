from typing import Any

from rest_framework.views import exception_handler


def handle_exception(exc: Exception, context: dict[str, Any]) -> Any:
    return exception_handler(exc, context)
