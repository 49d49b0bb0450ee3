"""What the page What-if shows of a kept result: bounded curves, the longest waits, why a job waited."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError, UnknownNameError, check_names
from pipeline.studies.sweeps.kept_jobs import ROW, SUBMIT_TIME, USAGE, WAITS
from pipeline.what_if.curves import (
    MOST_POINTS,
    binned_curve,
    distribution,
    longest_by_span,
    summed_steps,
)
from pipeline.what_if.figures import completed_gpu_jobs
from pipeline.what_if.kept import list_kept, read_kept, read_table
from simulator.recorders.wait_clocks import CAUSE_COLUMNS, CAUSE_NAMES
from simulator.recorders.waiting_text import explain_wait

CURVES = ("waiting_jobs", "gpus_in_use")
MOST_NUMBERS = 12_000  # spans of time, of all variants together
LISTED_JOBS = 50
_SPANS_OF_WAITS = 400
_NEIGHBOURS = 8


@dataclass(frozen=True)
class SeenPart:
    """Which part of a what-if a picture is of: a virtual cluster (None: all), and a span of time (s of the
    replays' clock; None: all of it), in so many points.
    """

    virtual_cluster: str | None = None
    from_s: float | None = None
    until_s: float | None = None
    points: int = 600

    def __post_init__(self) -> None:
        if not 2 <= self.points <= MOST_POINTS:
            raise BadInputError(
                f"{self.points} points cannot be drawn.", remedy=f"Ask for 2 to {MOST_POINTS}."
            )
        if self.from_s is not None and self.until_s is not None and not self.from_s < self.until_s:
            raise BadInputError(
                f"The picture is to begin at {self.from_s} s and to end at {self.until_s} s.",
                remedy="End it later than it begins.",
            )


def read_what_ifs(pages_dir: Path) -> list[dict[str, Any]]:
    """Return a line for each kept what-if, newest first: what was asked by whom, and its variants' means."""
    return [
        {
            **{name: document["asked"][name] for name in ("run_id", "cluster", "asked_by", "asked_at")},
            "variants": [
                {name: variant.get(name) for name in ("name", "mean_jct_s", "mean_queuing_delay_s", "error")}
                for variant in document["variants"]
            ],
        }
        for document in list_kept(pages_dir)
    ]


def read_pictures(pages_dir: Path, run_id: str, part: SeenPart) -> dict[str, Any]:
    """Return, of each variant that was replayed, the distribution of waits, the queue and the GPUs in use.

    `at_ms` (since 1970) begins each span of time; a curve has the least, mean and greatest value in each.
    Raises NotFoundError when the result is not kept, UnknownNameError for a virtual cluster.
    """
    document = read_kept(pages_dir, run_id)
    numbers = _replayed(document)
    edges = np.linspace(
        part.from_s or float(document.get("from_s", 0.0)),
        part.until_s or max(float(document["until_s"]), 1.0),
        min(part.points, MOST_NUMBERS // max(len(numbers), 1)) + 1,
    )
    origin_ms = 0.0
    variants = []
    for number in numbers:
        columns = ["gpus", "state", "jct_s", "queuing_delay_s", "submit_time_s", "virtual_cluster"]
        waits = completed_gpu_jobs(
            read_table(pages_dir, run_id, number, WAITS, columns=[*columns, SUBMIT_TIME])
        )
        usage = read_table(pages_dir, run_id, number, USAGE)
        if part.virtual_cluster is not None:
            names = sorted({*waits["virtual_cluster"], *usage["virtual_cluster"]})
            check_names("virtual cluster of this what-if:", [part.virtual_cluster], names)
            waits = waits[waits["virtual_cluster"] == part.virtual_cluster]
            usage = usage[usage["virtual_cluster"] == part.virtual_cluster]
        if len(waits):
            first = waits.iloc[0]
            origin_ms = first[SUBMIT_TIME].timestamp() * 1_000 - float(first["submit_time_s"]) * 1_000
        variants.append(
            {
                "name": document["variants"][number]["name"],
                "distribution": distribution(waits["queuing_delay_s"].to_numpy(dtype=np.float64)),
                **_curves(usage, edges),
            }
        )
    at_ms = [round(origin_ms + second * 1_000) for second in edges[:-1].tolist()]
    return {"origin_ms": round(origin_ms), "at_ms": at_ms, "variants": variants}


def _curves(usage: pd.DataFrame, edges_s: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    at_s = usage["at_s"].to_numpy(dtype=np.float64)
    parts = usage["virtual_cluster"].to_numpy()
    return {
        name: binned_curve(
            *summed_steps(at_s, usage[name].to_numpy(dtype=np.float64), parts.tolist()), edges_s
        )
        for name in CURVES
    }


def read_waits(
    pages_dir: Path, run_id: str, variant: str, virtual_cluster: str | None = None, text: str = ""
) -> dict[str, Any]:
    """Return the LISTED_JOBS jobs of a variant that waited longest, and the longest wait of each span.

    With `text`, of the former only jobs with it in their id or user. Raises UnknownNameError for a variant.
    """
    document = read_kept(pages_dir, run_id)
    waits = completed_gpu_jobs(read_table(pages_dir, run_id, _number(document, variant), WAITS))
    if virtual_cluster is not None:
        waits = waits[waits["virtual_cluster"] == virtual_cluster]
    spans = longest_by_span(
        waits["submit_time_s"].to_numpy(dtype=np.float64),
        waits["queuing_delay_s"].to_numpy(dtype=np.float64),
        _SPANS_OF_WAITS,
    )
    if text:
        holds = waits["job_id"].astype(str).str.contains(text, regex=False)
        holds |= waits["user"].fillna("").astype(str).str.contains(text, regex=False)
        matching = waits[holds]
    else:
        matching = waits
    longest = matching.sort_values(["queuing_delay_s", ROW], ascending=[False, True]).head(LISTED_JOBS)
    return {
        "jobs": [_job_line(row) for row in longest.to_dict("records")],
        "matching": len(matching),
        "spans": [_job_line(row) for row in waits.iloc[spans].to_dict("records")],
    }


def _job_line(row: Mapping[Any, Any]) -> dict[str, Any]:
    causes = {CAUSE_NAMES[cause]: float(row[column]) for cause, column in CAUSE_COLUMNS.items()}
    return {
        "row": int(row[ROW]),
        "job_id": str(row["job_id"]),
        "user": None if pd.isna(row["user"]) else str(row["user"]),
        "virtual_cluster": str(row["virtual_cluster"]),
        "gpus": int(row["gpus"]),
        "submitted": row[SUBMIT_TIME].isoformat(),
        "wait_s": float(row["queuing_delay_s"]),
        "jct_s": float(row["jct_s"]),
        "mostly": max(causes, key=lambda name: causes[name]) if row["queuing_delay_s"] > 0 else None,
    }


def read_job(pages_dir: Path, run_id: str, row: int) -> dict[str, Any]:
    """Return why a job waited, variant by variant: the causes of its wait, and the jobs before it.

    `row` is the job's, as `read_waits` lists it. Raises UnknownNameError for one that no variant replayed.
    """
    document = read_kept(pages_dir, run_id)
    explained = []
    job = None
    for number in _replayed(document):
        waits = read_table(pages_dir, run_id, number, WAITS)
        own = waits[waits[ROW] == row]
        if own.empty:
            continue
        mine = {str(name): value for name, value in own.iloc[0].to_dict().items()}
        job = job or _job_line(mine)
        explained.append(
            {
                "name": document["variants"][number]["name"],
                "wait_s": float(mine["queuing_delay_s"]),
                "causes_s": {CAUSE_NAMES[cause]: float(mine[name]) for cause, name in CAUSE_COLUMNS.items()},
                "sentences": [line.strip() for line in explain_wait(mine)],
                **_before(waits, mine),
            }
        )
    if job is None:
        raise UnknownNameError("job of this what-if:", str(row), ["those that it lists"])
    return {"job": job, "variants": explained}


def _before(waits: pd.DataFrame, mine: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the jobs that ran and those that waited in its virtual cluster when a job was submitted."""
    at_s = float(mine["submit_time_s"])
    others = waits[
        (waits["virtual_cluster"] == mine["virtual_cluster"])
        & (waits["gpus"] > 0)
        & (waits[ROW] != mine[ROW])
    ]
    begun = others["first_start_time_s"] <= at_s
    running = others[begun & ~(others["end_time_s"] <= at_s)]
    waiting = others[~begun & (others["submit_time_s"] <= at_s) & ~(others["end_time_s"] <= at_s)]
    return {
        "ran": _listed(running),
        "ran_jobs": len(running),
        "ran_gpus": int(running["gpus"].sum()),
        "waited": _listed(waiting),
        "waited_jobs": len(waiting),
        "waited_gpus": int(waiting["gpus"].sum()),
    }


def _listed(jobs: pd.DataFrame) -> list[dict[str, Any]]:
    largest = jobs.sort_values(["gpus", ROW], ascending=[False, True]).head(_NEIGHBOURS)
    return [{"job_id": str(row["job_id"]), "gpus": int(row["gpus"])} for row in largest.to_dict("records")]


def _replayed(document: Mapping[str, Any]) -> list[int]:
    return [number for number, variant in enumerate(document["variants"]) if variant["error"] is None]


def _number(document: Mapping[str, Any], name: str) -> int:
    names = [variant["name"] for variant in document["variants"] if variant["error"] is None]
    if name not in names:
        raise UnknownNameError("variant of this what-if:", name, names or ["none"])
    return next(number for number in _replayed(document) if document["variants"][number]["name"] == name)


def read_csv_table(pages_dir: Path, run_id: str, table: str) -> pd.DataFrame:
    """Return one of a result's tables to download: "variants", "virtual-clusters" or "jobs".

    Raises UnknownNameError for another, NotFoundError when the result is not kept.
    """
    document = read_kept(pages_dir, run_id)
    if table == "variants":
        flat = [
            {key: value for key, value in variant.items() if not isinstance(value, dict)}
            for variant in document["variants"]
        ]
        return pd.DataFrame(flat)
    if table == "virtual-clusters":
        return pd.DataFrame(document["virtual_clusters"])
    if table == "jobs":
        frames = [
            read_table(pages_dir, run_id, number, WAITS).assign(variant=document["variants"][number]["name"])
            for number in _replayed(document)
        ]
        return pd.concat(frames, ignore_index=True).drop(columns=ROW)
    raise UnknownNameError("table of a what-if", table, ["variants", "virtual-clusters", "jobs"])
