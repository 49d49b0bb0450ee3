"""Prometheus metrics, a row each."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauges(rows: Iterable[tuple[str, str, float | None]]) -> Iterator[Metric]:
    """Yield a gauge for each name, text and value; none where the value is not known."""
    for name, text, value in rows:
        if value is not None:
            yield GaugeMetricFamily(f"lucid_live_{name}", text, value=float(value))


def counters(rows: Iterable[tuple[str, str, int]]) -> Iterator[Metric]:
    """Yield a counter for each name, text and count."""
    for name, text, count in rows:
        yield CounterMetricFamily(f"lucid_live_{name}", text, value=float(count))
