"""What is known of sleeping nodes after a look at them, and told of them: one message."""

from typing import Literal

from pydantic import Field

from live_scheduler.capability import some_nodes
from live_scheduler.service.messages import Count, Message, Time


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
