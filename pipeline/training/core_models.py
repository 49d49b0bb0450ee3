"""The steps of the models that every release has."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import NotFoundError
from lucid_models.duration.model import WorkloadEstimateModel, job_mappings
from lucid_models.duration.name_buckets import number_or_nan
from lucid_models.known_profiles import with_known_profiles
from lucid_models.packing.model import FEATURES, PackingAnalyzeModel
from pipeline.training.explanations import (
    ExplainedPrediction,
    RegisteredModel,
    refuse_jobs,
    rows_of,
    scorer_as_of,
)
from pipeline.training.model_steps import ModelSteps, TrainingTask


def _train_packing(task: TrainingTask, *, packing_kind: str = "tree", seed: int = 0) -> object:
    """The packing model learns from the cluster's profile tables, which have no time."""
    from lucid_models.packing.tree import packing_settings
    from lucid_models.training import train_packing
    from pipeline.profiling.profile_store import read_profile_set

    settings = packing_settings(packing_kind)
    profiles = read_profile_set(task.site)
    return train_packing(
        solo=profiles.solo,
        pairs=profiles.pairs,
        tracking_uri=task.site.registry,
        cluster=task.site.cluster,
        seed=seed,
        settings=settings,
        progress=task.site.progress,
    )


def _train_throughput(
    task: TrainingTask, *, lead_bins: int | None = None, utc_offset_hours: float = 0.0
) -> object:
    """Train it for a lead (None: the default); `utc_offset_hours`: the cluster's local time minus UTC."""
    from lucid_models.throughput.model import DEFAULT_LEAD_BINS, ThroughputSettings
    from lucid_models.training import train_throughput

    settings = ThroughputSettings(
        lead_bins=DEFAULT_LEAD_BINS if lead_bins is None else lead_bins,
        utc_offset_s=round(utc_offset_hours * 3_600),
    )
    return train_throughput(**task.of_lake, settings=settings)


def _train_duration(task: TrainingTask) -> object:
    from lucid_models.training import train_duration

    return train_duration(**task.of_lake)


def _explain_packing(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    jobs = _jobs(lake, cluster)
    return [_score(model.parts[""], jobs.iloc[row]) for row in rows_of(jobs, job_ids, cluster)]


def _explain_duration(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    jobs = _jobs(lake, cluster)
    return [_estimate(model.parts[""], jobs, row) for row in rows_of(jobs, job_ids, cluster)]


def _explain_throughput(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    refuse_jobs(model, job_ids, forecasts="bins", explained="bin is")
    return _next_bins(model, lake.read_throughput(cluster))


def _jobs(lake: Lake, cluster: str) -> pd.DataFrame:
    return with_known_profiles(lake.read_jobs(cluster), lake.read_job_metrics(cluster))


def _estimate(model: WorkloadEstimateModel, jobs: pd.DataFrame, row: int) -> ExplainedPrediction:
    scorer, at_s = scorer_as_of(model, jobs, row)
    job = job_mappings(jobs.iloc[[row]])[0]
    known_at = datetime.fromtimestamp(at_s, UTC)
    return ExplainedPrediction(f"job {job['job_id']}", "", known_at, scorer.explain(job, at_s))


def _score(model: PackingAnalyzeModel, job: "pd.Series[Any]") -> ExplainedPrediction:
    job_type = job.get("job_type")
    # The last part of a job type says whether it computes in mixed precision.
    amp = float(str(job_type).endswith("/1")) if isinstance(job_type, str) else np.nan
    values = [amp if name == "amp" else number_or_nan(job.get(name)) for name in FEATURES]
    if np.isnan(values[:3]).all():
        raise NotFoundError(
            f"Job {job['job_id']!r} was never profiled: the lake has no GPU metrics of it.",
            remedy="Name a job with a known gpu_util_pct, gpu_mem_util_pct or gpu_mem_mib.",
        )
    return ExplainedPrediction(f"job {job['job_id']}", "", None, model.explain_local(values))


def _next_bins(model: RegisteredModel, throughput: pd.DataFrame) -> list[ExplainedPrediction]:
    """The forecast of each series for the first bin that its lead allows after the lake's last one."""
    if throughput.empty:
        raise NotFoundError("The lake has no throughput of this cluster.", remedy="Ingest its log.")
    explained = []
    for series, fitted in model.parts.items():
        last = throughput.iloc[-1]
        start = last["bin_start"] + fitted.scorer.features.lead_bins * pd.Timedelta(
            seconds=int(last["bin_s"])
        )
        ahead = pd.DataFrame({"bin_start": [start], "bin_s": [last["bin_s"]], series: [np.nan]})
        table = pd.concat([throughput[["bin_start", "bin_s", series]], ahead], ignore_index=True)
        local = fitted.explain_local(fitted.features_of(table).iloc[-1], fitted.weights_of(table)[-1])
        known_at = (last["bin_start"] + pd.Timedelta(seconds=int(last["bin_s"]))).to_pydatetime()
        explained.append(
            ExplainedPrediction(f"{series} of the bin at {start:%Y-%m-%d %H:%M}", series, known_at, local)
        )
    return explained


PACKING = ModelSteps(_explain_packing, _train_packing)
THROUGHPUT = ModelSteps(_explain_throughput, _train_throughput)
DURATION = ModelSteps(_explain_duration, _train_duration)
