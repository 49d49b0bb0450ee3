"""Reads the dcgm-exporter's metrics from a Prometheus server (or any that answers its HTTP API).

A range is asked for in pieces, metric by metric (`/api/v1/query_range`), because a server answers at most
11,000 points a series and holds them all in memory. What is asked for is not the metric but what it was over
each step: a bare metric repeats its last value for five minutes after a GPU went silent, and at a step longer
than the scrape interval it drops samples. Utilisation and power are averaged over a step, memory is its
highest. A step's figure carries the time of the step's beginning, and so holds over the time that it is of.
Where one scrape of a step said nothing (NaN, or what DCGM writes for "blank"), the mean over time is nothing,
too, and the highest may be the blank: such steps are read again scrape by scrape, and have the figure of the
others.

Secrets come from the environment alone: LUCID_PROMETHEUS_TOKEN (bearer), or LUCID_PROMETHEUS_USER and
LUCID_PROMETHEUS_PASSWORD (basic).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from cluster_logs.metrics.dcgm import Series, SeriesRules, samples_from_series
from cluster_logs.metrics.gpu_samples import SampleBatch, concat_batches, plausible
from cluster_logs.metrics.metric_files import series_of_response
from cluster_logs.metrics.source_account import SourceAccount
from foundation.bounded_http import AnswerLimits, AnswerTooLargeError, BoundedClient, refuse_readable_secret
from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from foundation.progress import Progress, Work, silent

MOST_POINTS = 11_000  # a series and query, by the server's own limit
HIGHEST = ("gpu_mem_mib",)  # of a step the highest counts; of all else the mean
TRIES = 4
# At most 11,000 points of some 30 bytes a series: 800 GPUs, a hundred times more in a usual piece.
MOST_BYTES = 256 * 1024 * 1024
_WAIT_S = 0.5
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class PrometheusQuery:
    """What to ask a server for: samples in (start, end], one a step.

    `matchers` narrow the series down (`cluster="a",job="dcgm"`). `piece_s` is the longest range of one query.
    """

    url: str
    start: datetime
    end: datetime
    step_s: float = 30.0
    matchers: str = ""
    rules: SeriesRules = field(default_factory=SeriesRules)
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

    def selector(self, column: str) -> str:
        """The series of one metric."""
        matchers = f"{{{self.matchers}}}" if self.matchers else ""
        return f"{self.rules.metrics[column].name}{matchers}"

    def promql(self, column: str) -> str:
        """The query of one metric: what it was over a step."""
        over = "max_over_time" if column in HIGHEST else "avg_over_time"
        return f"{over}({self.selector(column)}[{self.window}])"


def read_prometheus(
    query: PrometheusQuery,
    *,
    environment: Mapping[str, str] = os.environ,
    progress: Progress = silent,
    sleep: Callable[[float], None] = time.sleep,
) -> SampleBatch:
    """Read all samples of the range; metrics that the server does not have are null.

    Raises NotFoundError when it has no sample of a GPU in the range, BadInputError when it refuses a query,
    and ServiceUnavailableError when it does not answer; all name the query.
    """
    pieces = list(query.pieces())
    total = len(pieces) * len(query.rules.metrics)
    batches: list[SampleBatch] = []
    with open_client(query, environment) as client:
        for index, piece in enumerate(pieces):
            series: list[Series] = []
            for number, column in enumerate(query.rules.metrics):
                what = Work("reading metrics", "queries")
                progress(index * len(query.rules.metrics) + number, total, what)
                # Functions drop a metric's name; a step's figure holds from the step's beginning on.
                labels = {"__name__": query.rules.metrics[column].name}
                series += [
                    replace(one, labels={**one.labels, **labels}, time_s=one.time_s - query.step_s)
                    for one in _steps(client, query, column, piece, sleep)
                ]
            batches.append(
                samples_from_series(
                    series,
                    query.rules,
                    SourceAccount(source_format="prometheus", source_file=urlsplit(query.url).netloc),
                )
            )
    progress(total, total, Work("reading metrics", "queries"))
    batch = concat_batches(batches)
    if not batch.samples.num_rows:
        raise NotFoundError(
            f"{query.url} has no sample of a GPU from {query.start.isoformat()} to {query.end.isoformat()}: "
            f"{query.promql('gpu_util_pct')}.",
            remedy="Check the range and the matchers. An exporter may name its metrics otherwise (releases "
            "since 4.9 do): --metric gpu_util_pct=NAME:FACTOR.",
        )
    return batch


def _steps(
    client: BoundedClient,
    query: PrometheusQuery,
    column: str,
    piece: tuple[float, float],
    sleep: Callable[[float], None],
) -> list[Series]:
    """What a metric was over every step of a piece, of the scrapes that said something."""
    steps = range_series(client, query, query.promql(column), piece, sleep)
    factor = query.rules.metrics[column].factor
    spoilt = [~plausible(column, one.values * factor) for one in steps]
    ends = [one.time_s[which] for one, which in zip(steps, spoilt, strict=True) if which.any()]
    if not ends:
        return steps
    first, last = min(times.min() for times in ends) - query.window_s, max(times.max() for times in ends)
    scrapes = {
        _unnamed(one.labels): one
        for one in _scrapes(client, query, query.selector(column), (float(first), float(last)), sleep)
    }
    combined = np.max if column in HIGHEST else np.mean
    for number, which in enumerate(spoilt):
        scraped = scrapes.get(_unnamed(steps[number].labels))
        if scraped is None or not which.any():
            continue
        good = plausible(column, scraped.values * factor)
        times, said = scraped.time_s[good], scraped.values[good]
        values = steps[number].values.copy()
        for at in np.flatnonzero(which).tolist():
            end = float(steps[number].time_s[at])
            # Times are whole milliseconds, and both ends of a range count.
            begin = np.searchsorted(times, end - query.window_s - 1e-4)
            until = np.searchsorted(times, end + 1e-4)
            if until > begin:
                values[at] = combined(said[begin:until])
        steps[number] = replace(steps[number], values=values)
    return steps


def _unnamed(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels.items() if name != "__name__")


def _scrapes(
    client: BoundedClient,
    query: PrometheusQuery,
    selector: str,
    between: tuple[float, float],
    sleep: Callable[[float], None],
) -> list[Series]:
    """The samples themselves of all series from the first to the last moment (seconds since 1970)."""
    first, last = between
    asked = f"{selector}[{round((last - first) * 1000)}ms]"
    where = f"{query.url}: {asked} at {_moment(last)}"
    parameters = {"query": asked, "time": f"{last:.3f}", "timeout": f"{query.timeout_s:.0f}s"}
    document = _answer(client, f"{query.url.rstrip('/')}/api/v1/query", parameters, where, sleep)
    return list(series_of_response(document, where))


def range_series(
    client: BoundedClient,
    query: PrometheusQuery,
    asked: str,
    piece: tuple[float, float],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Series]:
    """What a PromQL query (`asked`) was at every step of a piece (`PrometheusQuery.pieces`).

    Raises BadInputError when the server refuses it, ServiceUnavailableError when it does not answer.
    """
    first, last = piece
    where = f"{query.url}: {asked} from {_moment(first)} to {_moment(last)}"
    parameters = {
        "query": asked,
        "start": f"{first:.3f}",
        "end": f"{last:.3f}",
        "step": f"{query.step_s:.3f}",
        "timeout": f"{query.timeout_s:.0f}s",
    }
    document = _answer(client, f"{query.url.rstrip('/')}/api/v1/query_range", parameters, where, sleep)
    return list(series_of_response(document, where))


def open_client(query: PrometheusQuery, environment: Mapping[str, str] = os.environ) -> BoundedClient:
    """A client for the query's server, with the environment's secrets."""
    credentials = _credentials(environment)
    refuse_readable_secret(query.url, "The Prometheus", secret=bool(credentials))
    return BoundedClient(limits=AnswerLimits(MOST_BYTES, query.timeout_s), **credentials)


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
            return response.json()
        except (ValueError, RecursionError) as error:
            raise BadInputError(
                f"{where}: the answer is not JSON ({error}).", remedy="Check that the address is Prometheus'."
            ) from error
    raise ServiceUnavailableError(
        f"{where}: no answer after {TRIES} tries ({trouble}).", remedy="Check the address, or try later."
    )


def _said(response: httpx.Response) -> str:
    try:
        document = response.json()
    except (ValueError, RecursionError):
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
