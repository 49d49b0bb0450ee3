"""The HTTP API of a Prometheus server (or any that answers it): what is asked, and the series in its answer.

A range is asked for in pieces (`/api/v1/query_range`), because a server answers at most 11,000 points a
series and holds them all in memory.

Secrets come from the environment alone: LUCID_PROMETHEUS_TOKEN (bearer), or LUCID_PROMETHEUS_USER and
LUCID_PROMETHEUS_PASSWORD (basic).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from numpy.typing import NDArray

from foundation import strict_json
from foundation.bounded_http import AnswerLimits, AnswerTooLargeError, BoundedClient, refuse_readable_secret
from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.strict_json import StrictJsonError

MOST_POINTS = 11_000  # a series and query, by the server's own limit
TRIES = 4
# At most 11,000 points of some 30 bytes a series: 800 GPUs, a hundred times more in a usual piece.
MOST_BYTES = 256 * 1024 * 1024
_WAIT_S = 0.5
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Series:
    """One series: its labels (`__name__` among them), seconds since 1970, and values; rows count from 1."""

    labels: Mapping[str, str]
    time_s: NDArray[np.float64]
    values: NDArray[np.float64]
    first_row: int = 1
    rows: Sequence[int] | None = None  # the row of each value, where they do not follow each other


@dataclass(frozen=True)
class RangeQuery:
    """What to ask a server for: values in (start, end], one a step, at most `piece_s` at once."""

    url: str
    start: datetime
    end: datetime
    step_s: float = 30.0
    piece_s: float = 2 * 3600.0
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInputError(
                f"{self.url!r} is no address of a Prometheus.", remedy="Use http://HOST:9090 or https://..."
            )
        refuse_readable_secret(self.url, "the Prometheus", secret=False)
        if not self.step_s >= 1 or not self.piece_s >= self.step_s:
            raise BadInputError(
                f"A step of {self.step_s:g} s in pieces of {self.piece_s:g} s.",
                remedy="Use a step of 1 s or more, and pieces that hold at least one.",
            )
        if not _seconds(self.start) < _seconds(self.end):
            raise BadInputError(
                f"There is no time from {self.start} to {self.end}.", remedy="Give a start before the end."
            )

    def pieces(self) -> Iterator[tuple[float, float]]:
        """First and last moment of each query, seconds since 1970; every step is asked for once."""
        first, last = _seconds(self.start) + self.step_s, _seconds(self.end)
        steps = int((last - first) / self.step_s + 1e-9) + 1
        most = max(1, min(int(self.piece_s / self.step_s), MOST_POINTS))
        for begin in range(0, steps, most):
            until = min(begin + most, steps) - 1
            yield first + begin * self.step_s, first + until * self.step_s

    @property
    def window(self) -> str:
        """A step as a duration of PromQL, less a millisecond: a sample on the border counts once."""
        return f"{round(self.window_s * 1000)}ms"

    @property
    def window_s(self) -> float:
        """The same in seconds."""
        return (round(self.step_s * 1000) - 1) / 1000


def series_of_response(document: Any, place: str) -> Iterator[Series]:
    """The series of an API response (resultType matrix or vector). Raises BadInputError for any other."""
    data = document.get("data") if isinstance(document, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    if not isinstance(document, dict) or document.get("status") != "success" or not isinstance(data, dict):
        error_text = document.get("error") if isinstance(document, dict) else None
        raise BadInputError(
            f"{place} is no successful response of Prometheus{f': {error_text}' if error_text else ''}.",
            remedy="Save what /api/v1/query_range answered.",
        )
    if kind not in ("matrix", "vector"):
        raise BadInputError(
            f"{place} holds a {kind!r}, not series.", remedy="Query a metric, as a matrix or a vector."
        )
    row = 1
    try:
        for item in data["result"]:
            points = item["values"] if kind == "matrix" else [item["value"]]
            times = np.fromiter((float(point[0]) for point in points), np.float64, len(points))
            values = np.fromiter((float(point[1]) for point in points), np.float64, len(points))
            yield Series(dict(item["metric"]), times, values, first_row=row)
            row += len(points)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadInputError(
            f"{place} is no series of Prometheus: {type(error).__name__}: {error}."
        ) from error


def scraped_series(
    client: BoundedClient,
    query: RangeQuery,
    selector: str,
    between: tuple[float, float],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Series]:
    """The samples themselves from the first to the last moment (s since 1970); raises as `range_series`."""
    first, last = between
    asked = f"{selector}[{round((last - first) * 1000)}ms]"
    where = f"{query.url}: {asked} at {_moment(last)}"
    return _ask(client, query, "query", {"query": asked, "time": f"{last:.3f}"}, where, sleep)


def range_series(
    client: BoundedClient,
    query: RangeQuery,
    asked: str,
    piece: tuple[float, float],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Series]:
    """What a PromQL query (`asked`) was at every step of a piece (`RangeQuery.pieces`).

    Raises BadInputError when the server refuses it, ServiceUnavailableError when it does not answer.
    """
    first, last = piece
    where = f"{query.url}: {asked} from {_moment(first)} to {_moment(last)}"
    span = {"start": f"{first:.3f}", "end": f"{last:.3f}", "step": f"{query.step_s:.3f}"}
    return _ask(client, query, "query_range", {"query": asked, **span}, where, sleep)


def open_client(query: RangeQuery, environment: Mapping[str, str] = os.environ) -> BoundedClient:
    """A client for the query's server, with the environment's secrets."""
    credentials = _credentials(environment)
    refuse_readable_secret(query.url, "The Prometheus", secret=bool(credentials))
    return BoundedClient(limits=AnswerLimits(MOST_BYTES, query.timeout_s), **credentials)


def _ask(
    client: BoundedClient,
    query: RangeQuery,
    endpoint: str,
    parameters: Mapping[str, str],
    where: str,
    sleep: Callable[[float], None],
) -> list[Series]:
    address = f"{query.url.rstrip('/')}/api/v1/{endpoint}"
    parameters = {**parameters, "timeout": f"{query.timeout_s:.0f}s"}
    return list(series_of_response(_answer(client, address, parameters, where, sleep), where))


def _answer(
    client: BoundedClient,
    address: str,
    parameters: Mapping[str, str],
    where: str,
    sleep: Callable[[float], None],
) -> Any:
    trouble = ""
    for attempt in range(TRIES):
        if attempt:
            sleep(_WAIT_S * 2**attempt)
        try:
            response = client.get(address, params=parameters)
        except AnswerTooLargeError as error:
            raise BadInputError(
                f"{where}: {error}", remedy="Ask for less at once: a longer step, shorter pieces, matchers."
            ) from error
        except ServiceUnavailableError as error:
            trouble = str(error)
            continue
        if response.status_code in _AGAIN:
            trouble = f"HTTP {response.status_code}: {_said(response)}"
            continue
        if response.status_code in (401, 403):
            raise BadInputError(
                f"{where}: not allowed (HTTP {response.status_code}).",
                remedy="Set LUCID_PROMETHEUS_TOKEN, or LUCID_PROMETHEUS_USER and LUCID_PROMETHEUS_PASSWORD.",
            )
        if response.status_code != httpx.codes.OK:
            raise BadInputError(
                f"{where}: HTTP {response.status_code}: {_said(response)}.",
                remedy="Ask for less at once (a longer step, matchers), or correct the query.",
            )
        try:
            return strict_json.loads(response.content)
        except StrictJsonError as error:
            raise BadInputError(
                f"{where}: the answer is not JSON ({error}).", remedy="Check that the address is Prometheus'."
            ) from error
    raise ServiceUnavailableError(
        f"{where}: no answer after {TRIES} tries ({trouble}).", remedy="Check the address, or try later."
    )


def _said(response: httpx.Response) -> str:
    try:
        document = strict_json.loads(response.content)
    except StrictJsonError:
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    return str(error or response.text.strip()[:200] or response.reason_phrase)


def _credentials(environment: Mapping[str, str]) -> dict[str, Any]:
    token, user = environment.get("LUCID_PROMETHEUS_TOKEN"), environment.get("LUCID_PROMETHEUS_USER")
    if token:
        return {"headers": {"Authorization": f"Bearer {token}"}}
    if user:
        return {"auth": (user, environment.get("LUCID_PROMETHEUS_PASSWORD", ""))}
    return {}


def _seconds(moment: datetime) -> float:
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
