"""Reads the dcgm-exporter's metrics from a Prometheus server (`prometheus_api.py`), metric by metric.

What is asked for is not the metric but what it was over each step: a bare metric repeats its last value for
five minutes after a GPU went silent, and at a step longer than the scrape interval it drops samples.
Utilisation and power are averaged over a step, memory is its highest. A step's figure carries the time of
the step's beginning, and so holds over the time that it is of. Where one scrape of a step said nothing (NaN,
or what DCGM writes for "blank"), the mean over time is nothing, too, and the highest may be the blank: such
steps are read again scrape by scrape, and have the figure of the others.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import numpy as np

from cluster_logs.metrics.dcgm import SeriesRules, samples_from_series
from cluster_logs.metrics.gpu_samples import SampleBatch, concat_batches, plausible
from cluster_logs.metrics.prometheus_api import RangeQuery, Series, open_client, range_series, scraped_series
from cluster_logs.metrics.source_account import SourceAccount
from foundation.bounded_http import BoundedClient
from foundation.errors import NotFoundError
from foundation.progress import Progress, Work, silent

HIGHEST = ("gpu_mem_mib",)  # of a step the highest counts; of all else the mean


@dataclass(frozen=True)
class PrometheusQuery(RangeQuery):
    """What samples to ask a server for; `matchers` narrow the series down (`cluster="a",job="dcgm"`)."""

    matchers: str = ""
    rules: SeriesRules = field(default_factory=SeriesRules)

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
        for one in scraped_series(client, query, query.selector(column), (float(first), float(last)), sleep)
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
