"""What Horus gains and loses when it knows jobs from their graphs alone.

`python -m experiments.profiling.graph_predictions_study DATA` prints the table; DATA is the folder that
LUCID_REFERENCE_DATA names. With `--write parts/horus/README.md` it goes between that page's markers.

Job types are drawn uniformly from the profiled ones, anew for each draw. Each is predicted by a model that
learned from no configuration of its own model, as when a cluster's programs are new. The measured pairs are
the truth (capped at full speed), and where a pair was not measured, the measured utilisations are. Once a
job has run for a minute its true needs show; a pair that then needs more memory than there is loses the job
that was held to need less: its progress is gone, and it queues again and runs alone (Horus' failover).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.pages import commit_text, machine_text, run_study
from experiments.policies.philly_slices import PhillySlices
from parts.horus.model import UtilisationModel, join_graphs
from pipeline.replay.job_types import profiles_by_type
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from simulator.replay import simulate
from simulator.results.result import SimulationResult
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel, MeasuredPairs
from simulator.workload.job import Job, JobProfile

NODES = (40, 48, 64)
DRAWS = 3
SHOWS_AFTER_S = 60.0


@dataclass(frozen=True)
class Belief:
    """What a policy takes jobs to need before they have run, by job type; None: it knows nothing."""

    label: str
    policy: str
    profiles: Mapping[str, JobProfile] | None


class TrueSpeeds:
    """Speeds by what jobs are, whatever anybody believes of them."""

    def __init__(self, pairs: ColocationModel, profiles: Mapping[str, JobProfile]) -> None:
        self._pairs, self._profiles = pairs, profiles

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return the speeds of the two job types."""
        return self._pairs.speeds(self._true(first), self._true(second))

    def _true(self, believed: JobProfile | None) -> JobProfile | None:
        return None if believed is None else self._profiles[str(believed.job_type)]


def unseen_predictions(solo: pd.DataFrame) -> dict[str, tuple[JobProfile, JobProfile]]:
    """Return the careful and the expected needs of each job type, predicted without its own model."""
    rows = join_graphs(solo)
    found: dict[str, tuple[JobProfile, JobProfile]] = {}
    for name in sorted(set(rows.models)):
        new = rows.of_model(name)
        test = rows.only(new)
        model = UtilisationModel().fit_joined(rows.only(~new))
        predicted = model.predict(test.graphs, [bool(amp) for amp in test.amp])
        for job_type, amp, one in zip(test.job_types, test.amp, predicted, strict=True):
            careful = JobProfile(one.gpu_util_pct, one.gpu_mem_util_pct, one.gpu_mem_mib, bool(amp), job_type)
            expected = JobProfile(
                one.gpu_util_expected_pct,
                one.gpu_mem_util_expected_pct,
                one.gpu_mem_expected_mib,
                bool(amp),
                job_type,
            )
            found[job_type] = (careful, expected)
    return found


def beliefs(solo: pd.DataFrame) -> list[Belief]:
    """Return what is compared; the measured profiles come first."""
    measured = profiles_by_type(solo)
    predicted = unseen_predictions(solo)
    like_any = JobProfile(
        float(solo["gpu_util_pct"].mean()),
        float(solo["gpu_mem_util_pct"].mean()),
        float(solo["gpu_mem_mib"].mean()),
    )
    return [
        Belief("Horus, measured profiles", "horus", measured),
        Belief("Horus, predicted: careful", "horus", {name: one for name, (one, _) in predicted.items()}),
        Belief("Horus, predicted: expected", "horus", {name: one for name, (_, one) in predicted.items()}),
        Belief(
            "Horus, every job taken for the average",
            "horus",
            {name: replace(like_any, job_type=name) for name in measured},
        ),
        Belief("Horus, knowing nothing: no sharing", "horus", None),
        Belief("FIFO", "fifo", measured),
    ]


def horus_table(data: Path) -> str:
    """Return the Markdown table: mean JCT and what became of sharing, over slices and draws of job types."""
    folder = data / "data" / "packing"
    solo = read_solo_profiles(folder / "single_jobs_rtx3090.csv")
    measured = profiles_by_type(solo)
    truth = TrueSpeeds(MeasuredPairs(read_pair_profiles(folder / "colocated_pairs_rtx3090.csv")), measured)
    slices = PhillySlices(data)
    runs = [(slices.reference(nodes), draw) for nodes in NODES for draw in range(DRAWS)]
    compared = beliefs(solo)
    found = [[_replay(part, belief, measured, truth, draw) for part, draw in runs] for belief in compared]
    base = np.array([float(result.summary["mean_jct_s"]) for result in found[0]])
    rows = [["", "mean JCT, s", "to measured profiles", "jobs that shared", "out of memory, of 1,000 jobs"]]
    rows.append(["---", *["---:"] * 4])
    for belief, results in zip(compared, found, strict=True):
        jct = np.array([float(result.summary["mean_jct_s"]) for result in results])
        change = 100.0 * (jct / base - 1.0)
        jobs = pd.concat([result.jobs for result in results])
        rows.append(
            [
                belief.label,
                f"{jct.mean():,.0f}",
                f"{change.mean():+.1f} % ({change.min():+.1f} to {change.max():+.1f})",
                f"{100.0 * jobs['colocated'].mean():.0f} %",
                f"{1_000.0 * jobs['preemptions'].sum() / len(jobs):.1f}",
            ]
        )
    slices_said = ", ".join(map(str, NODES))
    return (
        f"Week 1 of Philly on {slices_said} nodes of 8 GPUs, {DRAWS} draws of job types each (RTX 3090); "
        f"{commit_text()}; {machine_text()}; "
        f"`python -m experiments.profiling.graph_predictions_study DATA --write PAGE`.\n\n"
        + "\n".join(f"| {' | '.join(row)} |" for row in rows)
    )


def _replay(
    part: Scenario, belief: Belief, measured: Mapping[str, JobProfile], truth: ColocationModel, draw: int
) -> SimulationResult:
    """Replay a slice with the job types of one draw, the same for every belief."""
    names = np.random.default_rng(draw).choice(sorted(measured), len(part.workload))
    jobs = tuple(
        believed(job, name, belief.profiles, measured)
        for job, name in zip(part.workload.jobs, names.tolist(), strict=True)
    )
    return simulate(
        Scenario(replace(part.workload, jobs=jobs), part.cluster, colocation=truth), belief.policy
    )


def believed(
    job: Job, name: str, profiles: Mapping[str, JobProfile] | None, measured: Mapping[str, JobProfile]
) -> Job:
    """Return the job as a policy takes it to be; after a minute it is what it is."""
    if profiles is None:
        return replace(job, profile=None, template=name)
    shows = None if profiles[name] == measured[name] else (SHOWS_AFTER_S, measured[name])
    return replace(job, profile=profiles[name], template=name, phase=shows)


def tables(data: Path) -> dict[str, str]:
    """Return the table by the name of its markers."""
    return {"horus from graphs": horus_table(data)}


if __name__ == "__main__":
    run_study("experiments.profiling.graph_predictions_study", __doc__, tables)
