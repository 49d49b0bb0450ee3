"""Errors as the service says them: problem documents (RFC 9457) that name value, place and remedy."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from foundation.errors import BadInputError, LucidError, NotFoundError, ServiceUnavailableError
from live_scheduler.service.schema import Problem

MEDIA_TYPE = "application/problem+json"


class NotServedHereError(LucidError):
    """What was asked is not done by this service."""


class InvalidMessageError(BadInputError):
    """A message breaks the schema; `place` says where in it."""

    def __init__(self, message: str, place: str, *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.place = place


class RefusedRequestError(LucidError):
    """A request that is refused before it is read: no token, too large, from another site."""

    def __init__(self, status: int, title: str, message: str, *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.status, self.title = status, title


# Error -> (HTTP status, title); the first that fits.
_KINDS: Sequence[tuple[type[LucidError], int, str]] = (
    (NotServedHereError, 409, "Not served here"),
    (BadInputError, 422, "A value cannot be used"),
    (NotFoundError, 404, "Not there"),
    (ServiceUnavailableError, 503, "Not available now"),
)


def problem_of(error: Exception, place: str = "") -> Problem:
    """Return an error as a problem document; `place` is where it happened unless the error knows better."""
    if not isinstance(error, LucidError):
        return _problem(
            500,
            "An error of this program",
            f"{type(error).__name__}: {str(error)[:1_000]}",
            place,
            "Report it with the daemon's log; the scheduler itself goes on.",
        )
    if isinstance(error, RefusedRequestError):
        status, title = error.status, error.title
    else:
        status, title = next(
            ((status, title) for kind, status, title in _KINDS if isinstance(error, kind)), (500, "Refused")
        )
    remedy = error.remedy or ""
    detail = str(error).removesuffix(remedy).strip()
    return _problem(status, title, detail, getattr(error, "place", place), remedy)


def invalid_message(errors: Sequence[Any], *names: str) -> InvalidMessageError:
    """Return the error of a message that breaks the schema.

    `errors` are as pydantic lists them, `names` say where the message stands.
    """
    first = errors[0]
    place = ".".join(str(part) for part in (*names, *first["loc"]))
    value = repr(first.get("input"))
    value = value if len(value) <= 80 else value[:77] + "..."
    more = f" ({len(errors) - 1} more values cannot be used.)" if len(errors) > 1 else ""
    if first["type"] == "missing":
        message = f"{place} is missing.{more}"
    elif first["type"] == "json_invalid":
        place = str(first["loc"][0])
        reason = (first.get("ctx") or {}).get("error", "it cannot be read")
        message = f"{place} is not JSON that can be read: {reason}.{more}"
    elif first["type"] == "extra_forbidden":
        message = f"{place} is not a field of version 1.{more}"
    else:
        message = f"{place} is {value}: {_reason(first['msg'])}.{more}"
    return InvalidMessageError(message, place, remedy="Send a message of version 1 (/v1/openapi.json).")


def invalid(name: str, error: ValidationError) -> InvalidMessageError:
    """`invalid_message` of what pydantic raised."""
    return invalid_message(error.errors(include_url=False, include_context=False), name)


def _reason(message: str) -> str:
    text = message.removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]


def _problem(status: int, title: str, detail: str, place: str, remedy: str) -> Problem:
    return Problem(
        type="about:blank", title=title, status=status, detail=detail[:60_000], place=place, remedy=remedy
    )
