"""Philly's jobs of October and November 2017, and a loaded week of them, replayed by Helios' schedulers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.reproduction.helios.noise import Floats, helios_noise
from foundation.csv_files import write_csv
from foundation.process_lock import scratch_folder
from foundation.progress import Progress, silent
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import LogToReplay, read_scenario
from simulator.replay import simulate
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario

PHILLY_BEGINS = datetime(2017, 10, 1, tzinfo=UTC)
PHILLY_ENDS = datetime(2017, 11, 30, 23, 59, 59, tzinfo=UTC)
LOADED_SLICE, LOADED_NODES = "week1vc48", 48
RULES = "helios-artifact"
SOUND_RULES = "helios-artifact-without:all"
BOUNDED = "QSSF, estimates of at least 1 s"
# Table 4: jobs by run time, up to 15 minutes, up to 6 hours, above.
GROUPS: Mapping[str, tuple[float, float]] = {
    "<15 min": (0.0, 900.0),
    "15 min-6 h": (900.0, 21_600.0),
    ">6 h": (21_600.0, float("inf")),
}


@dataclass(frozen=True)
class ReplayedSlice:
    """One table of jobs a scheme (SimulationResult.jobs), in the same order of jobs."""

    title: str
    by_scheme: Mapping[str, pd.DataFrame]

    def mean(self, scheme: str, column: str, virtual_cluster: str | None = None) -> float:
        """Return the mean of a column over all jobs or those of a virtual cluster."""
        jobs = self.by_scheme[scheme]
        if virtual_cluster is not None:
            jobs = jobs[jobs["virtual_cluster"] == virtual_cluster]
        return float(jobs[column].mean())

    def queued(self, scheme: str) -> int:
        """Return how many jobs waited."""
        return int((self.by_scheme[scheme]["queuing_delay_s"] > 0).sum())

    def queuing_ratio(self, scheme: str, group: str, base: str = "FIFO") -> float | None:
        """Return mean queuing under `base` / under `scheme`, of jobs by run time; None: no job waits."""
        least, most = GROUPS[group]
        means = []
        for name in (base, scheme):
            jobs = self.by_scheme[name]
            inside = (jobs["duration_s"] >= least) & (jobs["duration_s"] < most)
            means.append(float(jobs.loc[inside, "queuing_delay_s"].mean()))
        return means[0] / means[1] if means[1] > 0 else None


def replay_philly(data: Path, seed: int = 0, progress: Progress = silent) -> ReplayedSlice:
    """Replay October and November on Philly's eleven virtual clusters, by the artifact's rules."""
    philly = data / "data" / "philly"
    log = LogFile(str(philly / "philly_jobs.csv.gz"), "philly-csv", PHILLY_BEGINS, PHILLY_ENDS, "UTC")
    return _replayed("Philly, October and November", log, philly / "philly_vc_nodes.csv", seed, progress)


def replay_loaded_week(data: Path, seed: int = 0, progress: Progress = silent) -> ReplayedSlice:
    """Replay a week of Philly on one virtual cluster of 48 nodes, by the artifact's rules."""
    folder = data / "reference" / "lucid"
    log = LogFile(str(folder / f"{LOADED_SLICE}_jobs.csv.gz"), "reference-csv")
    with scratch_folder("helios") as scratch:
        names = pd.read_csv(log.path, dtype=str)["virtual_cluster"].unique()
        nodes = pd.DataFrame({"virtual_cluster": names, "nodes": LOADED_NODES})
        write_csv(nodes, scratch / "nodes.csv")
        return _replayed("a loaded week of Philly", log, scratch / "nodes.csv", seed, progress)


def _replayed(title: str, log: LogFile, nodes: Path, seed: int, progress: Progress) -> ReplayedSlice:
    """FIFO, SJF and SRTF with true run times; QSSF with the log's estimates or, without, with noise."""
    scenario = read_scenario(
        LogToReplay(log, ClusterSize(str(nodes)), rules=load_rules(RULES)),
        needs_estimates=False,
        needs_pairs=False,
        progress=progress,
    ).scenario
    by_scheme = {name.upper(): simulate(scenario, name).jobs for name in ("fifo", "sjf", "srtf")}
    truth_s = np.array([job.duration_s for job in scenario.workload.jobs])
    noisy_s = helios_noise(truth_s, seed)
    stated = all(job.estimated_duration_s is not None for job in scenario.workload.jobs)
    if stated:
        by_scheme["QSSF"] = simulate(scenario, "qssf").jobs
    else:
        by_scheme["QSSF"] = simulate(_with_estimates(scenario, noisy_s), "qssf").jobs
    bounded = replace(_with_estimates(scenario, np.maximum(noisy_s, 1.0)), rules=load_rules(SOUND_RULES))
    by_scheme[BOUNDED] = simulate(bounded, "qssf").jobs
    return ReplayedSlice(title, by_scheme)


def _with_estimates(scenario: Scenario, estimates_s: Floats) -> Scenario:
    return replace(scenario, workload=scenario.workload.with_estimates(estimates_s))
