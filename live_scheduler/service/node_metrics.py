"""Prometheus metrics of nodes that sleep and of nodes on loan; the counters start with the daemon."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from live_scheduler.loans.loan_status import LoanStatus
from live_scheduler.node_sleep.sleep_status import SleepingNodes


def gauges(rows: Iterable[tuple[str, str, float | None]]) -> Iterator[Metric]:
    """Yield a gauge for each name, text and value; none where the value is not known."""
    for name, text, value in rows:
        if value is not None:
            yield GaugeMetricFamily(f"lucid_live_{name}", text, value=float(value))


def _counters(rows: Iterable[tuple[str, str, int]]) -> Iterator[Metric]:
    for name, text, count in rows:
        yield CounterMetricFamily(f"lucid_live_{name}", text, value=float(count))


def sleep_metrics(seen: SleepingNodes) -> Iterator[Metric]:
    """Yield what the last look at sleeping nodes says."""
    nodes = GaugeMetricFamily(
        "lucid_live_nodes", "Nodes that are neither down nor drained, by power.", labels=("power",)
    )
    for power, count in (("awake", seen.awake), ("booting", seen.booting), ("asleep", seen.asleep)):
        nodes.add_metric((power,), float(count))
    yield nodes
    yield from gauges(
        (
            ("busy_nodes", "Nodes that have jobs.", seen.busy),
            ("short_nodes", "Nodes that waiting jobs lack, those that boot for them included.", seen.short),
            ("failed_nodes", "Nodes that are down since they did not boot.", len(seen.failed)),
            (
                "node_sleep_problem",
                "1 when nodes are left as they are for a reason.",
                seen.problem is not None,
            ),
        )
    )
    yield from _counters(
        (
            ("node_wake_ups", "Boots of nodes that began.", seen.wake_ups),
            ("nodes_put_to_sleep", "Nodes that were put to sleep.", seen.put_to_sleep),
            ("failed_boots", "Boots of nodes that failed.", seen.failed_boots),
        )
    )


def loan_metrics(seen: LoanStatus) -> Iterator[Metric]:
    """Yield what the last look at nodes on loan says."""
    returning = sum(each.returning for each in seen.on_loan)
    yield from gauges(
        (
            ("inference_servers", "Nodes of inference that are up, those on loan included.", seen.servers),
            ("inference_servers_needed", "Nodes that inference needs.", seen.needed),
            ("inference_headroom_servers", "Further nodes that are never lent.", seen.headroom),
            ("loan_target_servers", "Nodes that should be on loan.", seen.target),
            ("loaned_servers", "Nodes on loan.", len(seen.on_loan) - returning),
            ("returning_servers", "Nodes on their way back to inference.", returning),
            ("loan_short_servers", "Nodes that should go back and cannot: their jobs must stay.", seen.short),
            ("loan_problem", "1 when nodes stay as they are for a reason.", seen.problem is not None),
            ("inference_usage_ratio", "Share of its nodes that inference uses.", seen.usage),
            ("inference_usage_forecast_ratio", "The forecast of that share that counts.", seen.forecast),
        )
    )
    yield from _counters(
        (
            ("servers_lent", "Nodes that were lent.", seen.lent),
            ("servers_taken_back", "Nodes that were taken back.", seen.taken_back),
            (
                "loan_preemptions",
                "Jobs that were requeued since their node was taken back.",
                seen.preempted,
            ),
        )
    )
