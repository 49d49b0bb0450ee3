"""One run of a sweep: the one function that the command line's workers, the DAG's tasks and tests call."""

import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.node_table import counted
from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from live_scheduler.deciding.live_policies import believed_pairs
from pipeline.replay.cluster_events import EVERYONE
from pipeline.replay.log_scenario import colocation_of
from pipeline.replay.run_time_estimates import EstimateSource
from pipeline.studies.study import FAILED, FORMAT_VERSION, OK
from pipeline.studies.sweeps.added_nodes import with_added_nodes
from pipeline.studies.sweeps.inputs import SweepInputs, load_inputs
from pipeline.studies.sweeps.kept_jobs import JobKeeper
from pipeline.studies.sweeps.runs import SweepRun, run_id
from pipeline.validation.replay_inputs import profiles_of_jobs
from profiler_jobs.profile_table import ProfileSet
from simulator.policies.registry import policy_class
from simulator.replay import simulate
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel
from simulator.workload.job import JobProfile
from simulator.workload.time_limits import with_limits_for_all
from simulator.workload.workload import Workload

SHORTEST_ESTIMATE_S = 1.0
_NOISE = 1  # names the stream of random numbers that estimates are drawn from; job types have the seed's own
_KEPT_WORKLOADS = 2


class RunReplayer:
    """Makes workload and cluster of each run from a sweep's inputs, and simulates it."""

    def __init__(self, inputs: SweepInputs) -> None:
        self.inputs = inputs
        # Consecutive runs mostly differ in policy and settings only. Bounded: a workload may be large.
        self._workload = lru_cache(maxsize=_KEPT_WORKLOADS)(self._make_workload)
        self._profiles = lru_cache(maxsize=_KEPT_WORKLOADS)(self._make_profiles)
        self._model: Any = None
        self._colocation: ColocationModel | None = None  # the simulator's own model
        if inputs.solo is not None and inputs.pairs is not None:
            self._colocation = colocation_of(inputs.solo, inputs.pairs, load_rules(inputs.rules))

    def record(
        self, run: SweepRun, progress: Progress = silent, kept_uri: str | None = None
    ) -> dict[str, Any]:
        """Simulate and return the record to store; an error becomes a record that says so.

        Below `kept_uri` goes what `JobKeeper` keeps of the run.

        A service that does not answer is no result: ServiceUnavailableError is raised.
        """
        began = process_time()
        record: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "run_id": run_id(run, self.inputs.sha256),
            "run": run.to_dict(),
            "status": OK,
            "error": None,
            "figures": None,
        }
        try:
            record["figures"] = to_jsonable(self._summary(run, progress, kept_uri))
        except ServiceUnavailableError:
            raise
        except LucidError as error:
            record |= {"status": FAILED, "error": str(error)}
        except Exception as error:
            # A policy from elsewhere may raise anything; the other runs go on.
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
            record |= {"status": FAILED, "error": message}
        record["cpu_s"] = process_time() - began
        return record

    def _summary(self, run: SweepRun, progress: Progress, kept_uri: str | None) -> Mapping[str, Any]:
        scenario = self.scenario(run)
        keeper = None if kept_uri is None else JobKeeper()
        result = simulate(
            scenario,
            run.policy,
            settings=run.settings,
            recorder=None if keeper is None else keeper.recorder,
            progress=progress,
        )
        if keeper is not None and kept_uri is not None:
            keeper.write(result, scenario, f"{kept_uri}/{run_id(run, self.inputs.sha256)}")
        return {"total_gpus": scenario.cluster.total_gpus, **result.summary}

    def scenario(self, run: SweepRun) -> Scenario:
        """Return what a run replays. Raises BadInputError when no job of the log fits its cluster."""
        inputs, workload = self.inputs, self.workload(run)
        origin = workload.origin if workload.origin is not None else inputs.jobs["submit_time"].min()
        sizes = with_added_nodes(inputs.sizes, run.added_nodes, one_pool=inputs.one_pool)
        sizes = scaled_sizes(sizes, run.node_scale, one_pool=inputs.one_pool)
        cluster, changes = inputs.events.cluster(sizes, workload, origin, ZoneInfo("UTC"), run.seed)
        workload = workload.that_fit(cluster, changes)
        since = inputs.counted_from
        counted_from_s = None if since is None else (pd.Timestamp(since) - origin).total_seconds()
        if not (workload.columns.submit_time_s >= (counted_from_s or 0.0)).any():
            skipped = ", ".join(f"{count:,} {rule}" for rule, count in workload.skipped.items() if count)
            raise BadInputError(
                f"No job can be replayed: {skipped}.",
                remedy="Check the nodes against the log's virtual clusters.",
            )
        rules = load_rules(inputs.rules)
        return Scenario(
            workload,
            cluster,
            rules=rules,
            colocation=self._colocation,
            changes=changes,
            companions=run.made_companions(),
            believed_pairs=None if inputs.packing_model is None else believed_pairs(self._packing_model()),
            counted_from_s=counted_from_s,
        )

    def workload(self, run: SweepRun) -> Workload:
        """Return the jobs with the beliefs of this run."""
        needs_estimates = policy_class(run.policy).needs_estimates
        noise = run.estimate_noise if needs_estimates else None
        seeded = noise is not None or self.inputs.job_types == "drawn"
        return self._workload(run.seed if seeded else 0, noise, needs_estimates)

    def _make_workload(self, seed: int, noise: float | None, needs_estimates: bool) -> Workload:
        jobs = self.inputs.jobs
        workload = Workload.from_jobs(
            jobs,
            profiles=self._profiles(seed),
            cpu_jobs=self.inputs.events.cpu_cores_per_node > 0,
        )
        if self.inputs.one_pool:
            workload = workload.in_one_virtual_cluster(EVERYONE)
        workload, _ = with_limits_for_all(workload)
        if noise is not None:
            return workload.with_estimates(noisy_estimates_s(workload, len(jobs), noise, seed))
        return EstimateSource().estimated(workload, jobs, jobs.iloc[:0])[0] if needs_estimates else workload

    def _make_profiles(self, seed: int) -> tuple[JobProfile | None, ...] | None:
        """Each row's profile, scored by the packing model; None: the table's own columns, without a score."""
        solo, pairs = self.inputs.solo, self.inputs.pairs
        if solo is None or pairs is None:
            return None
        measured = ProfileSet(solo, pairs, out_of_memory=pd.DataFrame())
        profiles = profiles_of_jobs(self.inputs.jobs, measured, self.inputs.job_types, seed, [])
        distinct = list(dict.fromkeys(profile for profile in profiles if profile is not None))
        if not distinct:
            return profiles
        if "sharing_score" in solo.columns:
            labels = dict(zip(solo["job_type"], map(int, solo["sharing_score"]), strict=True))
            return tuple(
                None if profile is None else replace(profile, sharing_score=labels.get(profile.job_type))
                for profile in profiles
            )
        scores = self._packing_model().predict(
            [profile.gpu_util_pct for profile in distinct],
            [profile.gpu_mem_util_pct for profile in distinct],
            [profile.gpu_mem_mib for profile in distinct],
            [float(profile.amp) for profile in distinct],
        )
        scored = {
            profile: replace(profile, sharing_score=int(score))
            for profile, score in zip(distinct, scores, strict=True)
        }
        return tuple(None if profile is None else scored[profile] for profile in profiles)

    def _packing_model(self) -> Any:
        """The stated one, else one learned from the sweep's profiles, once: seeds draw jobs, not models."""
        if self._model is None:
            from lucid_models.packing.model import PackingAnalyzeModel

            stated, solo, pairs = self.inputs.packing_model, self.inputs.solo, self.inputs.pairs
            if stated is not None:
                self._model = PackingAnalyzeModel.from_data(stated)
            else:
                assert solo is not None and pairs is not None  # noqa: S101, PT018 - the caller looked
                self._model = PackingAnalyzeModel().fit(solo, pairs)
        return self._model


def scaled_sizes(sizes: pd.DataFrame, factor: float, *, one_pool: bool = False) -> pd.DataFrame:
    """Return sizes with every number of nodes scaled and rounded, but no virtual cluster scaled away.

    One pool of GPUs is one node: its GPUs are scaled.
    """
    if factor != 1 and not one_pool:
        sizes = counted(sizes, "Scaling the nodes", by=["from_time"])
    column = "gpus_per_node" if one_pool else "nodes"
    counts = sizes[column].to_numpy(dtype=np.int64)
    scaled = np.maximum(1, np.floor(counts * factor + 0.5).astype(np.int64))
    return sizes.assign(**{column: np.where(counts > 0, scaled, 0)})


def noisy_estimates_s(workload: Workload, rows: int, sigma: float, seed: int) -> NDArray[np.float64]:
    """Return true run times x exp(sigma x N(0, 1)), at least 1 s, one a job.

    Each of the log's `rows` has its own normal number, the same for every `sigma` and whichever jobs are
    replayed, so that sizes of noise and of clusters can be compared.
    """
    normal = np.random.default_rng([seed, _NOISE]).standard_normal(rows)
    duration = workload.columns.duration_s
    if workload.rows is not None:
        normal = normal[workload.rows]
    estimates: NDArray[np.float64] = np.maximum(SHORTEST_ESTIMATE_S, duration * np.exp(sigma * normal))
    return estimates


@lru_cache(maxsize=1)
def replayer_of(inputs_uri: str) -> RunReplayer:
    """Return the replayer of a stored sweep's inputs; the last one is kept for this process's next run."""
    return RunReplayer(load_inputs(inputs_uri))


def execute_run(
    inputs_uri: str, run: SweepRun, progress: Progress = silent, kept_uri: str | None = None
) -> dict[str, Any]:
    """Simulate one run on stored inputs and return its record (status, error, figures, cpu_s).

    `progress` gets the number of its jobs that are done; below `kept_uri` goes what is kept of each job.
    """
    return replayer_of(inputs_uri).record(run, progress, kept_uri)
