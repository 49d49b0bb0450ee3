"""Prometheus metrics of nodes that sleep; the counters start with the daemon."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from live_scheduler.service.metrics import counters, gauges
from parts.node_sleep.live.sleep_status import SleepingNodes


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
    yield from counters(
        (
            ("node_wake_ups", "Boots of nodes that began.", seen.wake_ups),
            ("nodes_put_to_sleep", "Nodes that were put to sleep.", seen.put_to_sleep),
            ("failed_boots", "Boots of nodes that failed.", seen.failed_boots),
        )
    )
