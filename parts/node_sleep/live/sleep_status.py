"""What is known of sleeping nodes after a look at them: one message, and Prometheus metrics."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from live_scheduler.capability import some_nodes
from live_scheduler.service.messages import Count, Message, Time

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class SleepingNodes(Message):
    """Idle nodes that sleep, as they were at `at_s`.

    Of the `nodes` that are neither down nor drained `awake`, `booting` and `asleep` ones; `busy` have jobs,
    and jobs are `short` of further ones. `failed` did not boot in time. `to_sleep` and `to_wake` are the last
    changes, decided at `decided_s` (mode "advise": that it would have asked for; "observe": none are told).
    `wake_ups`, `put_to_sleep` and `failed_boots` add up since the daemon started. `refused` says why changes
    of the last look were refused, by node.
    """

    mode: Literal["observe", "advise", "control"]
    control: str
    at_s: Time
    nodes: Count = 0
    awake: Count = 0
    booting: Count = 0
    asleep: Count = 0
    busy: Count = 0
    short: Count = 0
    failed: tuple[str, ...] = ()
    to_sleep: tuple[str, ...] = ()
    to_wake: tuple[str, ...] = ()
    decided_s: Time | None = None
    deferred: Count = 0
    wake_ups: Count = 0
    put_to_sleep: Count = 0
    failed_boots: Count = 0
    refused: dict[str, str] = Field(default_factory=dict)
    problem: str | None = None

    def describe_wanted(self) -> str:
        """Return the last changes as a sentence for people, "" without any."""
        would = "" if self.mode == "control" else "would "
        parts = [
            f"{would}{verb} {some_nodes(nodes, most=50)}"
            for verb, nodes in (("put to sleep", self.to_sleep), ("wake", self.to_wake))
            if nodes
        ]
        return "; ".join(parts)

    def told(self) -> "SleepingNodes":
        """Return what people are told: in the mode observe no changes."""
        if self.mode != "observe":
            return self
        return self.with_changes(to_sleep=(), to_wake=(), decided_s=None)


def sleep_metrics(seen: SleepingNodes) -> "Iterator[Metric]":
    """Yield what the last look at sleeping nodes says."""
    from prometheus_client.core import GaugeMetricFamily

    from live_scheduler.service.metrics import counters, gauges  # it imports all messages

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
