"""The few requests that the adapter makes of a Kubernetes API server.

A list comes in pages of one snapshot of the collection (`limit`, `continue`); when the server no longer has
that snapshot (410 Gone) the list is read again from its start, so that no two pages are of different moments.
A change names the version of the object that it was decided on: the server refuses it (409 Conflict) when the
object has changed since. (Kubernetes, "API concepts": retrieving large results sets in chunks; updates.)
"""

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from foundation.bounded_http import AnswerLimits, BoundedClient, json_of
from foundation.errors import LucidError, ServiceUnavailableError
from parts.kueue.access import ClusterAccess

Json = dict[str, Any]
PAGE = 500
# etcd holds objects of at most 1.5 MiB; those of a page are far smaller on average.
MOST_BYTES = 256 * 1024 * 1024
MOST_PAGES = 2_000
_RESTARTS = 3


class ApiRefusalError(LucidError):
    """The server answered, and refused a request; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiClient:
    """One API server; every method raises ServiceUnavailableError when it does not answer in time."""

    def __init__(self, access: ClusterAccess, *, timeout_s: float = 10.0, page: int = PAGE) -> None:
        """`timeout_s` is the longest that one answer may take as a whole."""
        self._access = access
        self._page = page
        self._http = BoundedClient(
            access.server,
            limits=AnswerLimits(MOST_BYTES, timeout_s),
            verify=access.tls if access.tls is not None else True,
            headers={"Accept": "application/json", "User-Agent": "lucid-live"},
        )
        self._clock_s: float | None = None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def now_s(self) -> float:
        """Return the server's clock at its last answer (this machine's before the first)."""
        return time.time() if self._clock_s is None else self._clock_s

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Json:
        """Return an object or a page of a list; raises ApiRefusalError."""
        return self._request("GET", path, parameters=parameters)

    def list_all(self, path: str, **selectors: str) -> list[Json]:
        """Return all objects of a collection at one moment; raises ApiRefusalError."""
        for _ in range(_RESTARTS):
            try:
                return self._pages(path, selectors)
            except ApiRefusalError as error:
                if error.status != 410:
                    raise
        raise ServiceUnavailableError(f"{self._access.server} lost its place in {path} {_RESTARTS} times.")

    def merge_patch(self, path: str, body: Json) -> Json:
        """Change fields of an object, and return it as it is now; raises ApiRefusalError."""
        return self._request("PATCH", path, body=body)

    def _pages(self, path: str, selectors: Mapping[str, str]) -> list[Json]:
        items: list[Json] = []
        parameters = {**selectors, "limit": str(self._page)}
        for _ in range(MOST_PAGES):
            answer = self.get(path, parameters)
            items += answer.get("items") or []
            rest = (answer.get("metadata") or {}).get("continue")
            if not rest:
                return items
            parameters["continue"] = rest
        raise ServiceUnavailableError(f"{self._access.server} gave {MOST_PAGES} pages of {path} and no end.")

    def _request(
        self, method: str, path: str, *, parameters: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        headers = {"Content-Type": "application/merge-patch+json"} if body is not None else {}
        token = self._access.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        answer = self._http.request(method, path, params=parameters, json=body, headers=headers)
        document = json_of(answer, strict=False)  # megabytes at each pass, of who rules the cluster
        if "date" in answer.headers:
            self._clock_s = _clock(answer.headers["date"]) or self._clock_s
        if answer.is_success and isinstance(document, dict):
            return document
        message = str(document.get("message") if isinstance(document, dict) else "") or answer.reason_phrase
        # 401: the token expired, 429: too many requests. Both pass.
        if answer.status_code >= 500 or answer.status_code in (401, 429):
            raise ServiceUnavailableError(f"{self._access.server} answered {answer.status_code}: {message}")
        raise ApiRefusalError(answer.status_code, message)


def _clock(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
