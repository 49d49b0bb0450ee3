"""One trial: settings and thresholds, replayed on the blocks, as a record that any worker may write."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import LucidError, ServiceUnavailableError
from foundation.jsonable import to_jsonable
from live_scheduler.deciding.live_policies import believed_pairs
from lucid_models.packing.model import PackingAnalyzeModel
from pipeline.replay.job_types import JobTypes
from pipeline.studies.store import digest
from pipeline.studies.study import FAILED, OK
from pipeline.studies.sweeps.runs import RESULTS_VERSION
from pipeline.studies.tuning.inputs import TuningWindows, read_block
from pipeline.studies.tuning.space import (
    LUCID,
    Thresholds,
    TuningBase,
    policy_part,
    thresholds_of,
    with_thresholds,
)
from pipeline.studies.tuning.tuned_part import Values, tuned_parts, tuned_policies
from pipeline.validation.contenders import ReplayContender, replay_contender, sharing_scores
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.gate.metrics import quantile
from simulator.job_view import JobView
from simulator.recorder import Recorder
from simulator.results.metrics import mean
from simulator.results.result import SimulationResult
from simulator.snapshot import NodePool
from simulator.stages.profiler import PROFILER

Floats = NDArray[np.float64]


class ProfilingQueue(Recorder):
    """How long the window's jobs wait for the profiler."""

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self.waits_s: list[float] = []

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """A wait is over."""
        if pool.name == PROFILER and job.submit_time_s >= self._start_s:
            self.waits_s.append(now_s - job.queued_since_s)


@dataclass(frozen=True)
class WindowReplay:
    """One replayed window: the schedule, the waits for the profiler, and what was replayed."""

    result: SimulationResult
    profiling_waits_s: tuple[float, ...]
    inputs: ReplayInputs
    of_parts: Mapping[str, float] = field(default_factory=dict)  # figures of the release's parts

    def figures(self) -> dict[str, float]:
        """The figures of the jobs submitted in the window; the warm-up is not counted."""
        jobs = window_jobs(self.result, self.inputs)
        waits = jobs["queuing_delay_s"].to_numpy(np.float64)
        return {
            "jobs": len(jobs),
            "mean_jct_s": mean(jobs["jct_s"].to_numpy(np.float64)),
            "mean_queuing_delay_s": mean(waits),
            "p99_queuing_delay_s": quantile(waits, 0.99),
            "p999_queuing_delay_s": quantile(waits, 0.999),
            "profiling_runs": len(self.profiling_waits_s),
            "profiling_queue_s": mean(np.asarray(self.profiling_waits_s)),
            "ended_in_profiling_pct": 100 * float(jobs["ended_in_profiling"].mean()),
            "colocated_pct": 100 * float(jobs["colocated"].mean()),
            **self.of_parts,
        }


def window_jobs(result: SimulationResult, inputs: ReplayInputs) -> pd.DataFrame:
    """Return the rows of the jobs that were submitted in the window."""
    table = result.counted
    return table[table["submit_time_s"] >= inputs.start_s]


def trial_id(values: Values, inputs_sha256: str) -> str:
    """A trial's identity: 20 hex digits of what its figures depend on."""
    identity = {"inputs": inputs_sha256, "values": dict(values), "version": RESULTS_VERSION}
    return digest(identity)[:20]


class TrialReplayer:
    """Replays trials on a study's frozen inputs; what trials share is read once."""

    def __init__(
        self,
        *,
        inputs_uri: str,
        cluster: str,
        windows: TuningWindows,
        base: TuningBase,
        job_types: JobTypes,
        seed: int,
    ) -> None:
        self.windows = windows
        self.base = base
        self._parts = [
            (part, part.replays(inputs_uri, cluster)) for part in tuned_parts() if part.field in base.parts
        ]
        self._read = partial(read_block, inputs_uri, cluster, job_types=job_types, seed=seed)
        self._blocks: dict[str, ReplayInputs] = {}
        self._scores: dict[tuple[str, float, float], Floats] = {}
        self._models: dict[Thresholds, PackingAnalyzeModel] = {}

    def replay(self, values: Values, block: str) -> WindowReplay:
        """Replay a block (or the validation window) under a trial's values, as the gate replays a release."""
        inputs = self._block(block)
        queue = ProfilingQueue(inputs.start_s)
        contender, replayed, figures_of = self._contender(values, block), inputs, []
        for part, replays in self._parts:
            settings = {**self.base.parts[part.field], **part.of(values)}
            contender, replayed, figures = replays.beside(
                contender, replayed, self.windows.window(block), settings
            )
            figures_of.append(figures)
        result = replay_contender(contender, replayed, recorder=queue)
        jobs = window_jobs(result, inputs)
        of_parts = {name: value for figures in figures_of for name, value in figures(result, jobs).items()}
        return WindowReplay(result, tuple(queue.waits_s), inputs, of_parts)

    def _contender(self, values: Values, block: str) -> ReplayContender:
        """What a trial runs, with what it believes."""
        contender = ReplayContender(
            self.base.policy,
            self.base.policy,
            settings={**self.base.settings, **policy_part(values)},
        )
        if self.base.policy != LUCID:  # only Lucid shares GPUs
            return contender
        model = self._packing_model(thresholds_of(values))
        return replace(
            contender,
            sharing_scores=self._sharing_scores(block, model),
            forecast=self._block(block).scenario.forecast,
            believed_pairs=believed_pairs(model),
        )

    def run(self, identity: str, values: Values) -> dict[str, Any]:
        """Replay every search block and return the record; an error becomes a record that says so.

        A service that does not answer is no result: ServiceUnavailableError is raised.
        """
        record: dict[str, Any] = {
            "trial_id": identity,
            "values": dict(values),
            "status": OK,
            "error": None,
            "blocks": {},
        }
        try:
            for block in self.windows.search:
                record["blocks"][block] = to_jsonable(self.replay(values, block).figures())
        except ServiceUnavailableError:
            raise
        except LucidError as error:
            record |= {"status": FAILED, "error": str(error)}
        return record

    def _block(self, name: str) -> ReplayInputs:
        inputs = self._blocks.get(name)
        if inputs is None:
            inputs = self._read(self.windows.window(name))
            if self.base.policy != LUCID:
                inputs = tuned_policies()[self.base.policy].replayed(inputs)
            self._blocks[name] = inputs
        return inputs

    def _packing_model(self, thresholds: Thresholds) -> PackingAnalyzeModel:
        """A model that was trained with these thresholds."""
        fitted = self._models.get(thresholds)
        if fitted is None:
            measured = self._block(next(iter(self.windows.search))).measured
            model = PackingAnalyzeModel(with_thresholds(self.base.packing, thresholds))
            fitted = self._models[thresholds] = model.fit(measured.solo, measured.pairs)
        return fitted

    def _sharing_scores(self, block: str, model: PackingAnalyzeModel) -> Floats:
        """The scores of the block's jobs."""
        key = (block, model.settings.medium_from, model.settings.tiny_above)
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = sharing_scores(model, self._block(block))
        return scores
