"""Options of nodes that sleep, in replays, plans, sweeps and releases."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from lucid_cli.part_options import (
    ModelVersionOption,
    PlanOptions,
    ReleaseOptions,
    ReplayOptions,
    SweepOptions,
)
from lucid_cli.setting_pairs import named_values, value_lists

EXAMPLE = "buffer_nodes=1,5,10"


@dataclass(frozen=True)
class SleepInReplay(ReplayOptions):
    """Nodes that sleep beside the policy of a replay."""

    variadic: ClassVar[tuple[str, ...]] = ("--node-sleep",)
    title: ClassVar[str] = "Nodes that sleep"
    columns: ClassVar[tuple[str, ...]] = (
        "policy",
        "nodes_asleep_mean",
        "wake_ups_per_day",
        "nodes_per_wake_up",
        "boots_failed",
        "node_minutes_short",
        "added_queuing_delay_s",
        "later_jobs",
        "kwh_saved",
    )

    node_sleep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE ...",
            help="Idle nodes sleep, jobs wait for their boots: control=buffer buffer_nodes=5 boot_s=300 "
            "boot_failure_share=0.01 ...; any of them suffices.",
        ),
    ] = None

    def companion(self, source_format: str, seed: int) -> Any:
        """Return the nodes' sleep; None: none does."""
        from parts.node_sleep.steps.sleep_of_replay import sleep_of_replay

        if not self.node_sleep:
            return None
        return sleep_of_replay(named_values(self.node_sleep, "--node-sleep", "buffer_nodes=5"), seed)


@dataclass(frozen=True)
class SleepInPlan(PlanOptions):
    """Variants of a plan with nodes that sleep."""

    variadic: ClassVar[tuple[str, ...]] = ("--node-sleep",)

    node_sleep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V,V ...",
            help="Nodes that sleep, beside all awake: buffer_nodes=1,5 boot_s=300; all combinations.",
        ),
    ] = None

    def asked(self) -> dict[str, Any]:
        """Return all combinations of the values."""
        from pipeline.planning.planned_part import combinations

        return {"node_sleep": combinations(value_lists(self.node_sleep, "--node-sleep", EXAMPLE))}


@dataclass(frozen=True)
class SleepInSweep(SweepOptions):
    """Runs of a sweep with nodes that sleep."""

    variadic: ClassVar[tuple[str, ...]] = ("--node-sleep",)
    figures: ClassVar[tuple[str, ...]] = (
        "nodes_asleep_mean",
        "wake_ups_per_day",
        "node_minutes_short",
        "added_queuing_delay_s",
    )

    node_sleep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V,V", help="Nodes that sleep, beside all awake: buffer_nodes=1,5 boot_s=300 ..."
        ),
    ] = None

    def changes(self, spec: Any) -> dict[str, Any]:
        """Return the values by setting; those that the file has and no option names stay."""
        if not self.node_sleep:
            return {}
        of_file = spec.companions.get("node_sleep", {})
        return {"node_sleep": {**of_file, **value_lists(self.node_sleep, "--node-sleep", EXAMPLE)}}


@dataclass(frozen=True)
class SleepInRelease(ReleaseOptions):
    """A release under which nodes may sleep."""

    field: ClassVar[str] = "node_sleep"
    kind: ClassVar[str] = "node_demand"
    example: ClassVar[str] = "control=forecast"

    node_demand: ModelVersionOption = None
    node_sleep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Nodes may sleep: a setting of their control, such as control=forecast; may be repeated.",
        ),
    ] = None

    def version(self) -> int | None:
        """Return the version of the node demand model."""
        return self.node_demand
