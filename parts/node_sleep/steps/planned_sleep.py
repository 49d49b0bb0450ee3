"""What a plan says of sleeping nodes: what they cost in waiting and save in energy and money."""

from collections.abc import Mapping, Sequence
from typing import Any

from foundation.errors import BadInputError
from parts.node_sleep.steps.sleep_of_replay import sleep_of_replay
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import AskedOfLog, PlannedPart, combinations
from pipeline.planning.planned_run import PlannedRun, setting_text
from pipeline.planning.questions import PlanAnswer, Questions
from simulator.scenario.scenario import Scenario

Sleep = Mapping[str, Any]  # settings of nodes that sleep; none: all are always awake


class PlannedSleep(PlannedPart):
    """Asked are settings of nodes that sleep, one a variant; a run's value is one of them."""

    key = "node_sleep"
    absent: Mapping[str, Any] = {}
    nothing: tuple[Sleep, ...] = ()
    fields = ("node_sleep",)
    figures = ("nodes_asleep_mean", "wake_ups_per_day", "node_minutes_short", "jobs_that_waited_for_boots")
    columns: Mapping[str, str] = {"nodes_asleep_mean": "asleep", "wake_ups_per_day": "wake-ups a day"}

    def of_form(self, stated: Mapping[str, Any]) -> tuple[Sleep, ...]:
        """Return every combination of the settings' values."""
        return combinations(stated.get("node_sleep", {}))

    def check(self, asked: tuple[Sleep, ...], run: PlannedRun) -> PlannedRun:
        """Raise BadInputError for settings of no control."""
        for sleep in asked:
            sleep_of_replay(sleep, run.seed)
        return run

    def for_log(self, asked: tuple[Sleep, ...], run: PlannedRun, log: PlannedLog) -> AskedOfLog:
        """Raise BadInputError where there are no nodes."""
        if asked and log.one_pool:
            raise BadInputError(
                "One pool of GPUs has no nodes that could sleep.",
                remedy="Give a file of nodes; one virtual cluster named all takes every job.",
            )
        return AskedOfLog(asked, run)

    def values(self, asked: tuple[Sleep, ...]) -> tuple[Sleep, ...]:
        """All awake, then each of the settings."""
        return ({}, *(dict(sorted(sleep.items())) for sleep in asked))

    def replayed(self, scenario: Scenario, value: Sleep, seed: int) -> Scenario:
        """Let nodes sleep."""
        return scenario.beside(sleep_of_replay(value, seed)) if value else scenario

    def words(self, value: Sleep) -> str:
        """The settings."""
        said = [f"{name}={setting_text(each)}" for name, each in sorted(value.items())]
        return f"sleep {' '.join(said)}" if said else ""

    def command_words(self, value: Sleep) -> list[str]:
        """`--node-sleep`, with the settings."""
        said = [f"{name}={setting_text(each)}" for name, each in sorted(value.items())]
        return ["--node-sleep", *said] if said else []

    def nodes_off(self, figures: Mapping[str, Any]) -> float:
        """Those asleep."""
        return float(figures.get("nodes_asleep_mean", 0.0))

    def answers(
        self, questions: Questions, run: PlannedRun, nodes: Sequence[PlanAnswer], sizes: Mapping[str, int]
    ) -> list[PlanAnswer]:
        """Ask what sleep costs in waiting and saves in energy and money."""
        if not run.value_of(self):
            return []
        awake, answers = run.with_part(self, {}), []
        table, energy = questions.table, questions.table.prices.energy
        for what, size in sizes.items():
            slept, reference = questions.sized(run, size), questions.sized(awake, size)
            saved_kwh = table.kwh(reference) - table.kwh(slept)
            figures = {
                "saved_kwh": saved_kwh,
                "saved_cost": saved_kwh * energy.price_per_kwh,
                "saved_co2_kg": saved_kwh * energy.co2_kg_per_kwh,
                "wake_ups_per_day": slept.figures.get("wake_ups_per_day"),
            }
            answers.append(
                questions.changed(
                    "sleep",
                    f"What does sleeping cost in waiting and save in energy on {size:,} nodes ({what})?",
                    f"The mean wait rises by {{}}; of {size:,} nodes "
                    f"{slept.figures.get('nodes_asleep_mean', 0.0):,.1f} sleep on average, which saves "
                    f"{saved_kwh:,.0f} kWh ({saved_kwh * energy.price_per_kwh:,.0f} at "
                    f"{energy.price_per_kwh:g} a kWh) in {table.log.days:,.1f} days.",
                    {"nodes": size, "size": what, **figures},
                    (slept, reference),
                )
            )
        return answers


PLANNED = PlannedSleep()
