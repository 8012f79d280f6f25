"""What the API refuses, shaped as the Status objects that a real API server sends."""

from dataclasses import dataclass
from typing import Any

from simcluster.objects import Obj
from simcluster.resources import Resource


class UsageError(Exception):
    """The command line or a file named on it is wrong; the message says what to do."""


class ApiError(Exception):
    """One refusal: an HTTP code and the Status that goes with it."""

    def __init__(self, code: int, reason: str, *, message: str, details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or {}
        self.metadata: Obj = {}

    def status(self) -> Obj:
        """The Status object, as it goes over the wire."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        if not self.reason:
            del body["reason"]
        if not self.details:
            del body["details"]
        return body


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong. `kind` is Forbidden, Invalid value, Required value and the like."""

    field: str
    kind: str
    text: str
    value: object = None

    REASONS = {
        "Forbidden": "FieldValueForbidden",
        "Invalid value": "FieldValueInvalid",
        "Required value": "FieldValueRequired",
        "Duplicate value": "FieldValueDuplicate",
        "Unsupported value": "FieldValueNotSupported",
        "Not found": "FieldValueNotFound",
    }

    @property
    def message(self) -> str:
        if self.kind in {"Invalid value", "Duplicate value", "Unsupported value", "Not found"}:
            return f"{self.kind}: {quoted(self.value)}: {self.text}".removesuffix(": ")
        return f"{self.kind}: {self.text}".removesuffix(": ")

    def as_json(self) -> Obj:
        return {"reason": self.REASONS[self.kind], "message": self.message, "field": self.field}


def quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def forbidden_field(field: str, text: str) -> Cause:
    return Cause(field, "Forbidden", text)


def required_field(field: str, text: str = "") -> Cause:
    return Cause(field, "Required value", text)


def invalid_field(field: str, value: object, text: str) -> Cause:
    return Cause(field, "Invalid value", text, value)


def immutable_field(field: str, value: object) -> Cause:
    return Cause(field, "Invalid value", "field is immutable", value)


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.id} "{name}" not found'
    return ApiError(404, "NotFound", message=message, details=_details(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.id} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message=message, details=_details(resource, name))


def conflict(resource: Resource, name: str, *, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.id} "{name}": {why}'
    return ApiError(409, "Conflict", message=message, details=_details(resource, name))


def modified(resource: Resource, name: str) -> ApiError:
    """The 409 of a stale resourceVersion."""
    why = (
        "the object has been modified; please apply your changes to the latest version and "
        "try again"
    )
    return conflict(resource, name, why=why)


def invalid(resource: Resource, name: str, *, causes: list[Cause]) -> ApiError:
    """The 422 of a field that is wrong, with its causes."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {"name": name, "kind": resource.kind, "causes": [c.as_json() for c in causes]}
    if resource.group:
        details["group"] = resource.group
    message = f'{kind} "{name}" is invalid: {listed}'
    return ApiError(422, "Invalid", message=message, details=details)


def unprocessable() -> ApiError:
    """The bare 422 of a JSON patch that does not apply: a real server gives no detail either."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message=message)


def without_merge_key(item: Obj, key: str) -> ApiError:
    """The 500 of a strategic merge whose item cannot be told from others: no fault of the server's,
    and yet that is what it answers.
    """
    return ApiError(500, "", message=f"map: {item} does not contain declared merge key: {key}")


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message=message)


def forbidden(resource: Resource, name: str, *, why: str) -> ApiError:
    message = f'{resource.id} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message=message, details=_details(resource, name))


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", message="Unauthorized")


def expired(message: str, *, token: str = "") -> ApiError:
    """The 410 of a version or a continue token that is too old; `token` goes on all the same."""
    error = ApiError(410, "Expired", message=message)
    error.metadata = {"continue": token} if token else {}
    return error


def no_such_path() -> ApiError:
    message = "the server could not find the requested resource"
    return ApiError(404, "NotFound", message=message)


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message=message)


def unsupported_media_type(given: str, *, accepted: list[str]) -> ApiError:
    message = (
        f"the body of the request was in an unknown format ({given}) - accepted media types "
        f"include: {', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", message=message)


def _details(resource: Resource, name: str) -> Obj:
    details = {"name": name, "kind": resource.plural}
    return {**details, "group": resource.group} if resource.group else details
