"""One trial: settings and thresholds, replayed on the blocks, as a record that any worker may write."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import LucidError, ServiceUnavailableError
from foundation.jsonable import to_jsonable
from live_scheduler.deciding.sharing_beliefs import believed_pairs
from lucid_models.packing.model import PackingAnalyzeModel
from pipeline.loaning.jobs_of_workers import replayed_in_workers
from pipeline.loaning.lending import Lending
from pipeline.loaning.lending_replay import KnownLoad
from pipeline.search.experiment_store.documents import digest
from pipeline.search.experiment_store.experiment import FAILED, OK
from pipeline.search.sweeps.runs import RESULTS_VERSION
from pipeline.search.tuning.base import TuningBase
from pipeline.search.tuning.frozen_load import read_frozen_load
from pipeline.search.tuning.inputs import read_block
from pipeline.search.tuning.space import (
    LUCID,
    Thresholds,
    Values,
    loans_part,
    policy_part,
    thresholds_of,
    with_thresholds,
)
from pipeline.search.tuning.windows import TuningWindows
from pipeline.validation.contenders import ReplayContender, replay_contender, sharing_scores
from pipeline.validation.replay_inputs import JobTypes, ReplayInputs
from simulator.gate.metrics import quantile
from simulator.job_view import JobView
from simulator.loaning.released_loans import ReleasedLoans
from simulator.metrics import mean
from simulator.recorder import Recorder
from simulator.result import SimulationResult
from simulator.snapshot import NodePool
from simulator.stages.profiler import PROFILER

Floats = NDArray[np.float64]
SHORT = "inference_short_pct"


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
    short_pct: float | None = None  # of the steps in which inference lacked servers; None: none are lent

    def figures(self) -> dict[str, float]:
        """The figures of the jobs submitted in the window; the warm-up is not counted."""
        table = self.result.counted
        jobs = table[table["submit_time_s"] >= self.inputs.start_s]
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
            **self._loans(jobs),
        }

    def _loans(self, jobs: pd.DataFrame) -> dict[str, float]:
        """Of servers on loan: how often inference lacked some, and the jobs that giving back preempted."""
        if self.short_pct is None:
            return {}
        return {SHORT: self.short_pct, "preemptions": int(jobs["preemptions"].sum())}


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
        self._read_load = partial(read_frozen_load, inputs_uri, cluster)
        self._loads: dict[str, KnownLoad] = {}
        self._read = partial(read_block, inputs_uri, cluster, job_types=job_types, seed=seed)
        self._blocks: dict[str, ReplayInputs] = {}
        self._scores: dict[tuple[str, float, float], Floats] = {}
        self._models: dict[Thresholds, PackingAnalyzeModel] = {}

    def replay(self, values: Values, block: str) -> WindowReplay:
        """Replay a block (or the validation window) under a trial's values, as the gate replays a release."""
        inputs = self._block(block)
        queue = ProfilingQueue(inputs.start_s)
        contender, lending = self._contender(values, block), self._lending(values, block)
        if lending is None:
            result, short_pct = replay_contender(contender, inputs, recorder=queue), None
        else:
            result = lending.replay(contender, inputs, recorder=queue)
            short_pct = lending.short_pct(result.servers_on_loan, inputs)
        return WindowReplay(result, tuple(queue.waits_s), inputs, short_pct)

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

    def _lending(self, values: Values, block: str) -> Lending | None:
        """What a trial lends in a block; what was known of the load is read once."""
        if self.base.loaning is None:
            return None
        released = ReleasedLoans.from_data({**self.base.loaning, **loans_part(values)})
        if block not in self._loads:
            self._loads[block] = self._read_load(self.windows.window(block), released)
        return Lending(self._loads[block], released.loans)

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
                inputs = replayed_in_workers(inputs)
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
