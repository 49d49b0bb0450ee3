"""The load of inference servers from a real Prometheus."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cluster_logs.metrics.prometheus import PrometheusQuery
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from parts.lending.load.queries import InferenceLoadQuery, parse_load_queries, read_inference_load
from parts.lending.load.table import LoadReading
from tests.prometheus_server import PrometheusServer, SeriesPoints, prometheus_with

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
T0 = START.timestamp()
STEP = 300
USAGE = {0: 0.4, 1: 0.5, 2: 0.0, 4: 0.6, 5: 1.5}  # bin 3 was not scraped


def history() -> Iterator[SeriesPoints]:
    points = [(T0 + STEP * bin_ + 10, value) for bin_, value in USAGE.items()]
    yield "usage", {"pool": "a"}, points
    yield "pool_servers", {"pool": "a"}, [(at, 90.0) for at, _ in points]
    yield "requests", {"pool": "a"}, [(at, 100 * value) for at, value in points]
    yield "by_pod", {"pod": "1"}, points
    yield "by_pod", {"pod": "2"}, points


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with prometheus_with(tmp_path_factory.mktemp("prometheus"), history()) as running:
        yield running


def asked(prometheus: PrometheusServer, *queries: str, **load: object) -> InferenceLoadQuery:
    range_of = PrometheusQuery(prometheus.url, START, START + timedelta(seconds=6 * STEP), STEP, piece_s=900)
    return InferenceLoadQuery(range_of, parse_load_queries(queries), LoadReading(**load))  # type: ignore[arg-type]


def test_a_bin_starts_a_step_before_its_value(prometheus: PrometheusServer) -> None:
    queries = ("usage=avg_over_time(usage[$step])", "servers=last_over_time(pool_servers[$step])")
    read = read_inference_load(asked(prometheus, *queries, zeros_are_gaps=True))

    rows = read.rows.to_pylist()
    assert [round(row["time"].timestamp() - T0) // STEP for row in rows] == [0, 1, 2, 4]
    assert [row["usage"] for row in rows] == [0.4, 0.5, 0.0, 0.6]
    assert [row["gap"] for row in rows] == [False, False, True, False]
    assert {row["servers"] for row in rows} == {90}
    assert read.accounting.rows_in == 5
    assert read.accounting.reasons() == {"implausible_usage": 1}
    assert read.refused.column("value").to_pylist() == ["1.5"]


def test_rates_are_a_share_of_the_full_load(prometheus: PrometheusServer) -> None:
    queries = ("requests_per_s=avg_over_time(requests[$step])",)
    rows = read_inference_load(asked(prometheus, *queries, full_load_per_s=120.0, servers=7)).rows

    assert rows.column("usage").to_pylist() == pytest.approx([40 / 120, 50 / 120, 0, 0.5, 0.98])
    assert set(rows.column("servers").to_pylist()) == {7}
    with pytest.raises(BadInputError, match="without their full load"):
        asked(prometheus, *queries)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (("usage=by_pod",), "gives 2 series"),
        (("usage",), "'usage' is no query of a load"),
        (("usage=a", "usage=b"), "has two queries"),
        (("servers=pool_servers",), "one query of usage or of requests_per_s"),
    ],
)
def test_queries_that_measure_no_load_are_named(
    prometheus: PrometheusServer, queries: tuple[str, ...], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        read_inference_load(asked(prometheus, *queries))


def test_what_the_server_does_not_have_is_not_found(prometheus: PrometheusServer) -> None:
    with pytest.raises(NotFoundError, match="has no load from 2026-03-01"):
        read_inference_load(asked(prometheus, "usage=absent_metric"))
    with pytest.raises(UnknownNameError, match="query of a load"):
        asked(prometheus, "busy=a")
