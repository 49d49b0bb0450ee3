"""The Pareto front of PCS for a trace (Figure 3), and which of its configurations stand in Figure 7."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.reproduction.pcs.replays import PcsTrace, PcsVariant
from foundation.progress import Progress, Work
from foundation.site import Site
from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from parts.elastic.pareto.objectives import STANDARD, metric_values
from parts.elastic.pareto.plan import plan_search
from parts.elastic.pareto.presented import Front, FrontPoint, present
from parts.elastic.pareto.study import ParetoSearch, held_out_samples, run_search, sample_of
from pipeline.replay.log_file import LogFile
from simulator.results.metrics import mean
from simulator.workload.workload import Workload

TIME_FILE = "reproduction_time.json"
# PCS-bal and PCS-pred predict best among configurations with at most so many times PCS-JCT's mean JCT; the
# published ones have 1.3 to 1.5 and 1.7 to 3.3 times.
BALANCED_RATIO, PREDICTABLE_RATIO = 1.5, 3.0


@dataclass(frozen=True)
class Search:
    """A finished search. `cpu_s` is its CPU time in all processes; None: not measured."""

    front: Front
    study_uri: str
    cpu_s: float | None


def search_front(
    trace: PcsTrace,
    path: Path,
    source_format: str,
    *,
    evaluations: int,
    jobs_per_sample: int,
    folder: Path,
    workers: int,
    seed: int,
    progress: Progress,
) -> Search:
    """Search a trace's front; what an earlier run of the same search found is not searched again."""
    plan = plan_search(
        Site(),
        gpus=trace.gpus,
        log=LogFile(str(path), source_format),
        folder_uri=str(folder),
        asked={
            "preference": ("JCT:avg", "Pred_err:avg"),
            "evaluations": evaluations,
            "jobs_per_sample": jobs_per_sample,
            "seed": seed,
            "whole_gpus": False,
        },
    )
    study = ParetoSearch.load(plan["study_uri"])
    times = Path(study.uri) / TIME_FILE
    known = json.loads(times.read_text(encoding="utf-8")) if times.is_file() else {}
    fresh = not any((Path(study.uri) / "evaluations").glob("*.json"))
    began = _cpu_s()
    executed = run_search(study, workers=workers, progress=progress)
    if executed and (fresh or known):  # what another process did is not known
        known = {"cpu_s": known.get("cpu_s", 0.0) + _cpu_s() - began, "evaluations": evaluations}
        times.write_text(json.dumps(known) + "\n", encoding="utf-8")
    told = known if known.get("evaluations") == evaluations else {}
    return Search(present(study), study.uri, told.get("cpu_s"))


def _cpu_s() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def chosen(points: Sequence[FrontPoint]) -> Mapping[str, PcsVariant]:
    """Return PCS-JCT, PCS-bal and PCS-pred of a front, by their figures on the fresh samples.

    What has one class is FIFO, which has its own column; it stands in only when nothing else was found.
    """
    classed = [point for point in points if len(point.config.weights) > 1] or points
    by_jct = sorted(classed, key=lambda point: point.figures["JCT:avg"])
    shortest = by_jct[0].figures["JCT:avg"]

    def most_predictable(ratio: float) -> FrontPoint:
        within = [point for point in by_jct if point.figures["JCT:avg"] <= ratio * shortest]
        return min(within, key=lambda point: point.figures["Pred_err:avg"])

    picked = {
        "pcs-jct": by_jct[0],
        "pcs-bal": most_predictable(BALANCED_RATIO),
        "pcs-pred": most_predictable(PREDICTABLE_RATIO),
    }
    return {
        key: PcsVariant(key, "pcs", point.config, f"ours, {point.front_id}") for key, point in picked.items()
    }


def front_points(
    trace: PcsTrace, search: Search, variants: Mapping[str, PcsVariant], progress: Progress
) -> pd.DataFrame:
    """Return a front and other policies on the same fresh samples, which chose nothing (Figure 3).

    Columns `trace`, `kind` (front, or a policy's key), `jct` (relative to AFS-L), `mean_pct`, `p99_pct`:
    means over the samples. Themis is left out: it predicts too slowly.
    """
    samples = [
        sample_of(search.study_uri, name) for name in held_out_samples(ParetoSearch.load(search.study_uri))
    ]
    known = {
        key: _on_samples(variant, samples, trace.gpus)
        for key, variant in variants.items()
        if key not in ("themis", "pcs-pred")
    }
    progress(len(samples), len(samples), Work(f"other policies on {trace.name}", "samples"))
    measured = [("front", point.figures) for point in search.front.points] + list(known.items())
    return pd.DataFrame(
        {
            "trace": trace.name,
            "kind": kind,
            "jct": figures["JCT:avg"] / known["afs"]["JCT:avg"],
            "mean_pct": figures["Pred_err:avg"],
            "p99_pct": figures["Pred_err:p99"],
        }
        for kind, figures in measured
    )


def _on_samples(variant: PcsVariant, samples: Sequence[Workload], gpus: int) -> dict[str, float]:
    found: list[dict[str, float]] = []
    for sample in samples:
        simulation = ElasticSimulation(sample, Pool(gpus), variant.make().rule, predict=True)
        simulation.run()
        values = metric_values(simulation.ended)
        found.append({str(measure): measure.of(values[measure.metric]) for measure in STANDARD})
    return {name: mean(np.array([figures[name] for figures in found])) for name in found[0]}
