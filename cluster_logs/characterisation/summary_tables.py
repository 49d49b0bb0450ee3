"""What there is: the cluster and its log in a row each (Helios, tables 1 and 2)."""

from collections.abc import Mapping

import pandas as pd

from cluster_logs.characterisation.observed_log import ObservedLog


def cluster_jobs(log: ObservedLog) -> pd.DataFrame:
    """Table 1: virtual clusters with jobs, and jobs."""
    row = {"virtual_clusters": log.jobs["virtual_cluster"].nunique(), "jobs": len(log.jobs)}
    return _row(log, row)


def cluster_nodes(log: ObservedLog) -> pd.DataFrame:
    """Table 1: nodes and GPUs at the end of the window."""
    last_s = log.window.end_s - 1
    return _row(
        log, {"nodes": log.known_capacity.nodes_on(last_s), "gpus": int(log.known_capacity.on(last_s).sum())}
    )


def log_size(log: ObservedLog) -> pd.DataFrame:
    """Table 2: jobs, and their GPUs."""
    gpus = log.gpu_jobs["gpus"]
    row = {
        "virtual_clusters": log.jobs["virtual_cluster"].nunique(),
        "jobs": len(log.jobs),
        "gpu_jobs": len(log.gpu_jobs),
        "cpu_jobs": len(log.cpu_jobs),
        "days": log.window.days,
        "mean_gpus": gpus.mean(),
        "max_gpus": int(gpus.max()),
    }
    return _row(log, row)


def log_durations(log: ObservedLog) -> pd.DataFrame:
    """Table 2: durations of GPU jobs."""
    run_s = log.gpu_jobs["duration_s"].dropna()
    row = {
        "mean_duration_s": run_s.mean(),
        "median_duration_s": run_s.median(),
        "max_duration_s": run_s.max(),
    }
    return _row(log, row)


def _row(log: ObservedLog, row: Mapping[str, float]) -> pd.DataFrame:
    return pd.DataFrame([row], index=pd.Index([log.cluster], name="cluster"))
