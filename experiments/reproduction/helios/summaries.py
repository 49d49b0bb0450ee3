"""Tables 1 and 2 and the text of section 3 from the clusters' published summaries and Earth's GPUs by day."""

from pathlib import Path

import pandas as pd

from experiments.reproduction.helios.published import FOLDER, OTHER_PHILLY
from experiments.reproduction.helios.sleeping import Measured

_CLUSTERS = ("Venus", "Earth", "Saturn", "Uranus")
_CONFIGURATION_DAY = "2020-09-01"
GPUS_PER_NODE = 8


def summary_rows(data: Path, philly: pd.DataFrame) -> Measured:
    """Return what the means and counts of each cluster add up to; `philly` are the jobs that are replayed."""
    summary = (
        pd.read_csv(data / FOLDER / "published_cluster_summary.csv").set_index("id").loc[list(_CLUSTERS)]
    )
    gpu_jobs, cpu_jobs = summary["gpu_job_num"], summary["cpu_job_num"]
    remark = "from the artifact's summary of each cluster, weighted by its jobs"
    measured: Measured = {
        ("Table 1", "", f"jobs k, {cluster}"): (summary["job_num"][cluster] / 1_000, remark)
        for cluster in _CLUSTERS
    }
    unsuccessful = {
        kind: 100 * (summary[f"cancel_rate_{kind}"] + summary[f"fail_rate_{kind}"]) for kind in ("gpu", "cpu")
    }
    for table, metric, value in (
        ("Table 1", "jobs k, Total", summary["job_num"].sum() / 1_000),
        ("Table 2", "clusters, Helios", len(summary)),
        ("Table 2", "jobs, Helios", summary["job_num"].sum()),
        ("Table 2", "GPU jobs, Helios", gpu_jobs.sum()),
        ("Table 2", "CPU jobs, Helios", cpu_jobs.sum()),
        ("Table 2", "mean GPUs, Helios", _weighted(summary["avg_gpu_num"], gpu_jobs)),
        ("Table 2", "mean duration s, Helios", _weighted(summary["avg_run_time_gpu"], gpu_jobs)),
        ("section 3", "mean CPU job s, Helios", _weighted(summary["avg_run_time_cpu"], cpu_jobs)),
        ("section 3", "unsuccessful GPU jobs %, Helios", _weighted(unsuccessful["gpu"], gpu_jobs)),
        ("section 3", "unsuccessful CPU jobs %, Helios", _weighted(unsuccessful["cpu"], cpu_jobs)),
    ):
        measured[table, "", metric] = (float(value), remark)
    return measured | _earth(data) | _philly(philly)


def _weighted(means: pd.Series, jobs: pd.Series) -> float:
    return float((means * jobs).sum() / jobs.sum())


def _earth(data: Path) -> Measured:
    """Earth's virtual clusters and GPUs on the day that Table 1 is of."""
    by_day = pd.read_csv(data / "data" / "helios" / "earth_vc_gpus_by_day.csv", index_col=0)
    by_vc = by_day.drop(columns="total")
    gpus = float(by_vc.to_numpy()[list(by_vc.index).index(_CONFIGURATION_DAY)].sum())
    remark = f"GPUs of the virtual clusters on {_CONFIGURATION_DAY}"
    ever = float((by_vc.to_numpy() > 0).any(axis=0).sum())
    return {
        ("Table 1", "", "VCs, Earth"): (ever, "virtual clusters with GPUs on any day, April to September"),
        ("Table 1", "", "GPUs, Earth"): (gpus, remark),
        ("Table 1", "", "nodes, Earth"): (gpus / GPUS_PER_NODE, remark),
    }


def _philly(jobs: pd.DataFrame) -> Measured:
    gpus, duration_s = (jobs[column].to_numpy(dtype=float) for column in ("gpus", "duration_s"))
    measured = {
        "VCs": jobs["virtual_cluster"].nunique(),
        "jobs": len(jobs),
        "GPU jobs": len(jobs),
        "mean GPUs": gpus.mean(),
        "mean duration s": duration_s.mean(),
        "max GPUs": gpus.max(),
        "max duration d": duration_s.max() / 86_400,
    }
    return {
        ("Table 2", "", f"{metric}, Philly"): (float(value), OTHER_PHILLY)
        for metric, value in measured.items()
    }
