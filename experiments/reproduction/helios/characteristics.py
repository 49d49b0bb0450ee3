"""Figures 1 to 9: what the clusters' users do, measured where public data has it."""

from datetime import datetime
from pathlib import Path

import pandas as pd

from experiments.reproduction.helios.published import FOLDER, OTHER_PHILLY, HeliosRow, read_published
from experiments.reproduction.helios.sleeping import Measured
from foundation.progress import Progress, silent
from parts.characterisation.characterise import Characterisation, characterise
from parts.characterisation.inputs import LogFiles, View, read_log_files

_KINDS = {"GPU": "gpu", "CPU": "cpu"}
_STATES = ("complete", "cancel", "fail")
_BY_SUMMARY = "from the artifact's summary of each cluster"


def figure_rows(data: Path) -> list[HeliosRow]:
    """Return every published point of Figures 1 to 9, without ours."""
    points = read_published(data, "published_figures.csv")
    return [
        HeliosRow(f"Figure {figure}", "", _metric(series, x, unit), float(y))
        for figure, series, x, y, unit in points[["figure", "series", "x", "y", "unit"]].itertuples(
            index=False
        )
    ]


def measured_figures(data: Path, progress: Progress = silent) -> Measured:
    """Return what public data has of these figures: Venus' submissions, Earth's May, Philly, summaries."""
    points = read_published(data, "published_figures.csv")
    venus, earth, philly = _venus(data, progress), _earth(data, progress), _philly(data, progress)
    measured: Measured = {}
    for figure, series, column, log, remark in (
        ("2b", "Venus", "gpu_jobs_per_h", venus, "counted in ten-minute bins of submissions"),
        ("2a", "Earth", "utilisation_pct", earth, "May alone; published: April to September"),
        ("1a", "Philly", "gpu_jobs_pct", philly, OTHER_PHILLY),
    ):
        ours = log.figures[f"fig{figure}"][column]
        published = points[(points["figure"] == figure) & (points["series"] == series)]
        for (_, point), value in zip(published.iterrows(), ours, strict=True):
            key = (f"Figure {figure}", "", _metric(series, point["x"], point["unit"]))
            measured[key] = (float(value), remark)
    may = float(earth.figures["fig3"]["utilisation_pct"].iloc[0])
    remark = "from GPUs in use by the minute; the published curve counts a job's last minute in full"
    measured["Figure 3", "", _metric("Earth utilisation", "5", "%")] = (may, remark)
    return measured | _of_summaries(data, points)


def _venus(data: Path, progress: Progress) -> Characterisation:
    throughput = data / "data" / "venus" / "cluster_throughput.csv.gz"
    return _characterised(LogFiles(str(throughput), "helios-throughput"), View(), progress)


def _earth(data: Path, progress: Progress) -> Characterisation:
    folder = data / "data" / "helios"
    files = LogFiles(
        nodes=str(folder / "earth_vc_gpus_by_day.csv"),
        sequence=str(folder / "earth_may_running_gpus.csv.gz"),
        waiting_sequence=str(folder / "earth_may_pending_gpus.csv.gz"),
    )
    return _characterised(files, View(time_zone="Asia/Shanghai"), progress)


def _philly(data: Path, progress: Progress) -> Characterisation:
    folder = data / "data" / "philly"
    files = LogFiles(
        str(folder / "philly_jobs.csv.gz"), "philly-csv", nodes=str(folder / "philly_vc_nodes.csv")
    )
    # Naive: on the log's own clock.
    return _characterised(files, View(datetime(2017, 10, 1), datetime(2017, 12, 1)), progress)  # noqa: DTZ001


def _characterised(files: LogFiles, view: View, progress: Progress) -> Characterisation:
    return characterise(read_log_files(files, view), progress)


def _of_summaries(data: Path, points: pd.DataFrame) -> Measured:
    """Final states: shares of GPU time (Figure 1b) and of jobs (Figure 7a), over the four clusters."""
    summary = pd.read_csv(data / FOLDER / "published_cluster_summary.csv", index_col="id").drop("total")
    gpu_time = [float(summary[f"{state}_gpu_time"].sum()) for state in _STATES]
    shares = {("1b", "Helios"): [100 * of_state / sum(gpu_time) for of_state in gpu_time]}
    for series, kind in _KINDS.items():
        jobs = summary[f"{kind}_job_num"]
        ended = [float((summary[f"{state}_rate_{kind}"] * jobs).sum()) for state in _STATES]
        shares["7a", series] = [100 * of_state / sum(ended) for of_state in ended]
    measured: Measured = {}
    for (figure, series), values in shares.items():
        published = points[(points["figure"] == figure) & (points["series"] == series)]
        for (_, point), value in zip(published.iterrows(), values, strict=True):
            key = (f"Figure {figure}", "", _metric(series, point["x"], point["unit"]))
            measured[key] = (value, _BY_SUMMARY)
    return measured


def _metric(series: str, x: str, unit: str) -> str:
    return f"{series}, {x} ({unit})"
