"""Writes the examples in docs/explanations.md: models of a fixed synthetic log, and what they say.

    python -m experiments.explanation_page [REFERENCE_DATA] --write docs/explanations.md

With the public data, the table of monotone constraints has a row of NASA iPSC.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import synthesize, write_to_lake
from experiments.pages import publish, study_parser
from foundation.errors import LucidError
from foundation.markdown import markdown_table
from foundation.process_lock import scratch_folder
from foundation.site import Site
from lucid_cli.explain import prediction_tables
from lucid_models.duration.model import WorkloadEstimateModel, job_mappings
from lucid_models.evaluation.duration import evaluate_duration
from lucid_models.explanation.plots import draw_prediction, draw_shape
from lucid_models.explanation.tree_plots import draw_tree
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.throughput.model import ThroughputPredictModel
from lucid_models.throughput.scorer import SERIES
from pipeline.training.explanations import (
    ExplainedPrediction,
    RegisteredModel,
    explain_predictions,
    scorer_as_of,
)
from profiler_jobs.campaign import measure_simulated_profiles

LIKE, DAYS, TRAIN_DAYS, SEED = "helios-venus", 14, 12, 1
CLUSTER = "synthetic"
NASA = "swf/NASA-iPSC-1993-3.1-cln.swf.gz"
NASA_TRAIN_DAYS = 61


def page_tables(data: Path | None, images: Path | None) -> dict[str, str]:
    """The page's generated parts by name; pictures are drawn in `images` when it is given."""
    with scratch_folder("lake") as folder:
        lake_uri = str(folder)
        write_to_lake(synthesize(LIKE, DAYS, SEED, cluster=CLUSTER), Lake(lake_uri), CLUSTER)
        lake = Lake(lake_uri)
        jobs, throughput = lake.read_jobs(CLUSTER), lake.read_throughput(CLUSTER)
        until = jobs["submit_time"].iloc[0] + pd.Timedelta(days=TRAIN_DAYS)
        duration = WorkloadEstimateModel().fit(
            jobs[(jobs["submit_time"] < until) & ~(jobs["duration_s"] == 0)],
            known_until=until.to_pydatetime(),
        )
        past = throughput[throughput["bin_start"] < until]
        forecasts = {series: ThroughputPredictModel().fit(past, series) for series in SERIES}
        profiles = measure_simulated_profiles(SEED)
        packing = PackingAnalyzeModel().fit(profiles.solo, profiles.pairs)

        def explained(kind: str, parts: Mapping[str, Any], *job_ids: str) -> list[ExplainedPrediction]:
            model = RegisteredModel(kind, f"lucid-{kind}", 1, parts)
            return explain_predictions(Site(lake=lake_uri, cluster=CLUSTER), model, job_ids=job_ids)

        example = _example_job(duration, jobs, until)
        of_job = explained("duration", {"": duration}, example)[0]
        of_bins = explained("throughput", forecasts)
        of_score = explained("packing", {"": packing}, example)[0]
        tables = {
            "a run time": _prediction(of_job),
            "a new user": _strangers(duration, jobs, example),
            "a forecast": "\n\n".join(_prediction(one) for one in of_bins),
            "a sharing score": _prediction(of_score),
            "monotone constraints": _monotone_table(jobs, data),
        }
    if images is not None:
        images.mkdir(parents=True, exist_ok=True)
        _draw(images, duration, of_job, packing, of_score)
    return tables


def _example_job(model: WorkloadEstimateModel, jobs: pd.DataFrame, until: pd.Timestamp) -> str:
    """The first job after training of an hour or more, on eight GPUs, profiled, by a user who is known."""
    users = set(jobs.loc[jobs["submit_time"] < until, "user"])
    wanted = (jobs["submit_time"] >= until) & jobs["user"].isin(users) & (jobs["gpus"] >= 8)
    wanted &= jobs["gpu_util_pct"].notna()
    candidates = jobs[wanted].head(200)
    estimated = model.predict(candidates)
    return str(candidates["job_id"].iloc[int((estimated >= 3_600).argmax())])


def _strangers(model: WorkloadEstimateModel, jobs: pd.DataFrame, job_id: str) -> str:
    """The same job if its user, or its name as well, had never been seen."""
    row = int((jobs["job_id"] == job_id).to_numpy().argmax())
    scorer, at_s = scorer_as_of(model, jobs, row)
    job = job_mappings(jobs.iloc[[row]])[0]
    asked = ({**job, "user": "u99"}, {**job, "user": "u99", "name": "first_try"})
    return "\n\n".join(f"> {scorer.explain(one, at_s)['reason']}" for one in asked)


def _prediction(explained: ExplainedPrediction) -> str:
    known = "" if explained.known_at is None else f", as known at {explained.known_at:%Y-%m-%d %H:%M} UTC"
    parts = [f"{explained.of}{known}:", f"> {explained.local['reason']}"]
    for title, rows in prediction_tables(explained.local):
        parts += [f"{title}:", _markdown(rows)]
    return "\n\n".join(parts)


def _monotone_table(jobs: pd.DataFrame, data: Path | None) -> str:
    """Each log's test window before and after the constraint on the number of GPUs."""
    logs: list[tuple[str, pd.DataFrame, float]] = [(f"synthetic {LIKE}, {DAYS} days", jobs, TRAIN_DAYS)]
    if data is not None:
        table, _ = read_jobs_file(str(data / "data" / NASA), "swf")
        logs.append(("NASA iPSC", table, NASA_TRAIN_DAYS))
    rows = []
    for name, table, train_days in logs:
        measured = {row["model"]: row for row in evaluate_duration(table, train_days)}
        for label, model in (("free", "ebm_unconstrained"), ("rising with GPUs", "ebm")):
            row = measured[model]
            rows.append(
                {
                    "log": f"{name} ({row['jobs']:,} test jobs)",
                    "shape of GPUs": label,
                    "Kendall's tau": f"{row['kendall_tau']:.5f}",
                    "MAE of log10": f"{row['mae_log10']:.5f}",
                    "within P90": f"{row['coverage_p90']:.4f}",
                }
            )
    return _markdown(rows)


def _draw(
    images: Path,
    duration: WorkloadEstimateModel,
    of_job: ExplainedPrediction,
    packing: PackingAnalyzeModel,
    of_score: ExplainedPrediction,
) -> None:
    shapes = duration.explain_global()
    for feature in ("hour", "log_gpus"):
        draw_shape(shapes, feature, images / f"shape_{feature}.png")
    draw_prediction(shapes, of_job.local, images)
    draw_tree(packing.explain_global(), images / "tree.png", local=of_score.local)


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    return markdown_table(list(rows[0]), (list(row.values()) for row in rows), align_numbers=False)


def main() -> None:
    """Print the generated parts, or write them into the page."""
    parser = study_parser("experiments.explanation_page", __doc__)
    chosen = parser.parse_args()
    images = None if chosen.write is None else chosen.write.parent / "images" / "explanations"
    try:
        publish(page_tables(chosen.data and Path(chosen.data), images), chosen.write)
    except LucidError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
