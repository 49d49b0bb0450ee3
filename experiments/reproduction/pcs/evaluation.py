"""Runs the evaluation of PCS on traces of elastic jobs and writes it down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.pages import commit_text, machine_text
from experiments.reproduction.pcs import narrative, published, tables
from experiments.reproduction.pcs.costs import parameterisations, simulation_times
from experiments.reproduction.pcs.fronts import Search, chosen, front_points, search_front
from experiments.reproduction.pcs.replays import RIVALS, PcsTrace, PcsVariant, read_trace, replay
from experiments.reproduction.report import Report
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from parts.elastic.configurations import PUBLISHED


@dataclass(frozen=True)
class EvaluationOptions:
    """What is evaluated, and how much of it.

    `evaluations` are those of each trace's search, in turn, the last one's those of all further traces;
    `jobs_per_sample` is for all searches, `parameter_evaluations` for each space in Figure 9c; `foretold_max`
    bounds how many jobs Themis predicts. `folder` keeps replays and searches, so that a second run only does
    what is new.
    """

    folder: Path
    gpus: int = 64
    source_format: str = "pcs-csv"
    evaluations: tuple[int, ...] = (370,)
    jobs_per_sample: int = 2_000
    parameter_evaluations: int = 100
    foretold_max: int = 2_500
    workers: int = 2
    seed: int = 0


def evaluate_pcs(
    paths: Sequence[Path], asked: EvaluationOptions, *, command: str, progress: Progress = silent
) -> Report:
    """Return the report on some traces; what a simulation costs (Figure 9) is measured on the first."""
    if not paths:
        raise BadInputError("No trace is given.", remedy="Give --jobs FILE ...")
    traces = [read_trace(path, asked.source_format, asked.gpus) for path in paths]
    searches: dict[str, Search] = {}
    found: tables.Found = {}
    variants: dict[str, dict[str, PcsVariant]] = {}
    points = []
    for number, (trace, path) in enumerate(zip(traces, paths, strict=True)):
        searches[trace.name] = search = search_front(
            trace,
            path,
            asked.source_format,
            evaluations=asked.evaluations[min(number, len(asked.evaluations) - 1)],
            jobs_per_sample=asked.jobs_per_sample,
            folder=asked.folder / "searches",
            workers=asked.workers,
            seed=asked.seed,
            progress=progress,
        )
        columns = _configured(trace, chosen(search.front.points))
        variants[trace.name] = {**{each.key: each for each in RIVALS}, **columns}
        found[trace.name] = {
            key: replay(
                trace,
                each,
                foretold_max=asked.foretold_max,
                folder=asked.folder / "replays",
                progress=progress,
            )
            for key, each in variants[trace.name].items()
        }
        points.append(front_points(trace, search, variants[trace.name], progress))
    times = simulation_times(traces[0].jobs, asked.gpus, asked.jobs_per_sample, asked.seed)
    spaces = parameterisations(
        traces[0].jobs, asked.gpus, asked.jobs_per_sample, asked.parameter_evaluations, progress
    )
    compared = tables.comparison(found)
    return Report(
        "What predictability buys and costs",
        {
            "data": ", ".join(f"{trace.file} ({len(trace.workload):,} jobs)" for trace in traces),
            "rules": f"pcs-artifact, one pool of {asked.gpus} GPUs for each trace",
            "ends predicted by": "truth (the run times are known, as to PCS' authors)",
            "searches": ", ".join(
                f"{search.front.evaluations} configurations on {name}" for name, search in searches.items()
            )
            + f"; samples of {asked.jobs_per_sample:,} jobs",
            "seed": str(asked.seed),
            "commit": commit_text(),
            "machine": machine_text(),
            "command": f"`{command}`",
        },
        narrative.opening(compared, searches),
        narrative.remarks(traces, asked.foretold_max),
        (
            tables.figure_7(compared, variants),
            tables.figure_3(pd.concat(points, ignore_index=True)),
            tables.figure_5(traces[0].name, found[traces[0].name]),
            tables.fairness(found),
            tables.figure_9(times, spaces, searches, asked.jobs_per_sample),
            tables.cost_of_replays(found),
        ),
    )


def _configured(trace: PcsTrace, ours: Mapping[str, PcsVariant]) -> dict[str, PcsVariant]:
    """Return PCS' columns: the published configurations where the trace is theirs, else those found."""
    if trace.like != published.CONFIGURED_FOR:
        return dict(ours)
    theirs = {
        key: PcsVariant(key, "pcs", PUBLISHED[name], f"published, {name}")
        for key, name in tables.PUBLISHED_CONFIGURATIONS.items()
    }
    return {**ours, **theirs}
