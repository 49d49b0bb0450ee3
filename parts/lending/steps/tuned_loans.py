"""What is tuned of servers on loan: the orchestrator's settings, and what saved time is worth to Lyra."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pandas as pd

from foundation.site import Site
from parts.lending.replay.gate_limits import LoanGateRules
from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.jobs_in_workers import in_workers
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.replay.settings import LEND
from parts.lending.steps.frozen_load import read_frozen_load, read_known_load_rows, store_load
from parts.lending.steps.lending import Lending
from parts.lending.steps.lending_replay import KnownLoad
from parts.lending.steps.release_settings import pinned_loaning
from pipeline.release.release_settings import gate_settings
from pipeline.studies.tuning.tuned_part import (
    FigureLimit,
    PartReplays,
    ReplayedPart,
    ShownFigure,
    Tried,
    TunedPart,
    TunedPolicy,
)
from pipeline.validation.contenders import ReplayContender
from pipeline.validation.held_out_data import HeldOutWindow
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.results.result import SimulationResult
from simulator.workload.workload import Workload

_WORKERS = ["gpus_per_worker", "workers_min", "workers_max"]


def tells_workers(jobs: pd.DataFrame) -> bool:
    """Whether a job table says of each of its GPU jobs in which workers it runs; there must be one."""
    on_gpus = jobs[jobs["gpus"] >= 1]
    if on_gpus.empty or not set(_WORKERS) <= set(on_gpus):
        return False
    return bool(on_gpus[_WORKERS].notna().to_numpy().all())


def replayed_in_workers(inputs: ReplayInputs) -> ReplayInputs:
    """Return the same replay with its jobs in their workers, where the log says which; else as it is.

    A job's estimate, of its run on the least of its workers, becomes that of a run on the most, as its run
    time does.
    """
    if not tells_workers(inputs.replayed):
        return inputs
    workload = inputs.scenario.workload
    moved = in_workers(workload, inputs.replayed)
    return replace(inputs, scenario=replace(inputs.scenario, workload=_believed(workload, moved)))


def _believed(before: Workload, moved: Workload) -> Workload:
    jobs = []
    for old, new in zip(before.jobs, moved.jobs, strict=True):
        faster = new.duration_s / old.duration_s if old.duration_s else 1.0
        estimate_s = None if old.estimated_duration_s is None else old.estimated_duration_s * faster
        jobs.append(replace(new, estimated_duration_s=estimate_s))
    return replace(moved, jobs=tuple(jobs))


SHORT = "inference_short_pct"
_LYRA = TunedPolicy(
    settings={"value_exponent": Tried("value of saved time (exponent)", (0.0, 0.5, 1.0, 1.5, 2.0))},
    tells=tells_workers,
    replayed=replayed_in_workers,
    nothing=(
        "There is nothing to tune of a release that runs lyra and lends no server: the log does not say in "
        "which workers jobs run, so that none of them scales."
    ),
    remedy="Build it with servers on loan (lucid release build --loaning ...).",
)


class TunedLoans(TunedPart):
    """The headroom of inference, and how servers are lent beyond it."""

    field = "loaning"
    settings: Mapping[str, Tried] = {
        "headroom": Tried("headroom of inference", (0.0, 0.01, 0.02, 0.05, 0.10)),
        "hysteresis_servers": Tried("hysteresis (servers)", (0, 1, 2, 4)),
        "lend": Tried("lend", LEND),
    }
    figures: Mapping[str, ShownFigure] = {
        SHORT: ShownFigure("steps in which inference lacked servers, %", 2),
        "preemptions": ShownFigure("preemptions", 0),
    }
    policies: Mapping[str, TunedPolicy] = {"lyra": _LYRA}

    def pinned(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings of servers on loan."""
        return pinned_loaning(chosen)

    def known(self, site: Site, until: datetime) -> pd.DataFrame:
        """Read the load of inference."""
        return read_known_load_rows(site, until)

    def freeze(
        self, rows: pd.DataFrame, cluster: str, folder_uri: str, learned_until: datetime
    ) -> tuple[str, ...]:
        """Write the load and a forecast of it."""
        return store_load(rows, cluster, folder_uri, learned_until)

    def replays(self, inputs_uri: str, cluster: str) -> "LoanTrials":
        """Open the frozen load."""
        return LoanTrials(inputs_uri, cluster)

    def limit(self) -> FigureLimit:
        """Return in how many per cent of the five-minute steps inference may lack servers."""
        limit_pct = LoanGateRules.of(gate_settings({}).rules).inference_short_limit_pct
        return FigureLimit("short_limit_pct", SHORT, limit_pct)


@dataclass(frozen=True)
class LoanTrials(PartReplays):
    """Trials with servers on loan; what was known of the load is read once a window."""

    inputs_uri: str
    cluster: str
    _loads: dict[HeldOutWindow, KnownLoad] = field(default_factory=dict, init=False)

    def beside(
        self,
        contender: ReplayContender,
        inputs: ReplayInputs,
        window: HeldOutWindow,
        settings: Mapping[str, Any],
    ) -> ReplayedPart:
        """Lend by these settings; the figures are how often inference lacked servers, and preemptions."""
        released = ReleasedLoans.from_data(settings)
        if window not in self._loads:
            self._loads[window] = read_frozen_load(self.inputs_uri, self.cluster, window, released)
        lending = Lending(self._loads[window], released.loans)

        def figures(result: SimulationResult, jobs: pd.DataFrame) -> dict[str, float]:
            short_pct = lending.short_pct(result.kept[InferenceService.key], inputs)
            if short_pct is None:
                return {}
            return {SHORT: short_pct, "preemptions": int(jobs["preemptions"].sum())}

        return ReplayedPart(*lending.beside(contender, inputs), figures)


TUNED = TunedLoans()
