"""Why a registered model answers as it does: the whole model, or single predictions from a cluster's lake."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.inference_series import read_inference_series
from cluster_logs.lake import Lake
from cluster_logs.node_series import read_node_series
from foundation.errors import BadInputError, NotFoundError
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.duration.job_replay import replay
from lucid_models.duration.model import WorkloadEstimateModel, job_mappings, job_stream
from lucid_models.duration.name_buckets import number_or_nan
from lucid_models.duration.scorer import DurationScorer
from lucid_models.explanation.plots import draw_explanations, draw_prediction
from lucid_models.inference_load.model import InferenceLoadModel
from lucid_models.known_profiles import with_known_profiles
from lucid_models.mlflow_server import is_unwritten
from lucid_models.model_format import parse_model
from lucid_models.node_demand.model import NodeDemandModel
from lucid_models.packing.model import FEATURES, PackingAnalyzeModel
from lucid_models.registry import Registry
from lucid_models.releases.building import find_model_version, model_versions
from lucid_models.releases.clusters import which_cluster
from lucid_models.releases.layout import no_release
from lucid_models.releases.manifest import MODEL_KINDS
from lucid_models.releases.optional_parts import WAITS_KIND
from lucid_models.releases.store import find_by_alias, read_manifest
from lucid_models.throughput.forecasts import ThroughputForecasts
from lucid_models.throughput.model import ThroughputPredictModel
from lucid_models.training_data import as_known_at
from lucid_models.waits.job_queue import jobs_around, queue_log_of_jobs
from lucid_models.waits.model import WaitModel
from lucid_models.waits.queue_moment import queue_at

# What `--json` prints is bounded by what a person asks about.
MOST_JOBS = 100
# Models that forecast a series: of what, and what is explained of it.
_FORECASTS = {
    "throughput": ("bins", "bin is"),
    "node_demand": ("busy nodes", "hours are"),
    "inference_load": ("the usage of servers", "bin is"),
}


@dataclass(frozen=True)
class RegisteredModel:
    """A version of a model in MLflow; `parts` are its models by name (throughput: by series, others: one)."""

    kind: str
    name: str
    version: int
    parts: Mapping[str, Any]


@dataclass(frozen=True)
class ExplainedPrediction:
    """One prediction: of what, from what was known when, and its local explanation."""

    of: str
    part: str
    known_at: datetime | None
    local: Mapping[str, Any]


def load_registered_model(
    *,
    kind: str,
    tracking_uri: str,
    cluster: str | None = None,
    version: int | None = None,
    release: str = "champion",
) -> RegisteredModel:
    """A version of a model, by default the one that the release under a cluster's alias pins, or the newest
    of a model that is registered beside releases. Without `cluster`: the only one that has releases.

    Raises UnknownNameError for an unknown kind, NotFoundError when there is no such version or release.
    """
    load_catalogue_entry(kind)
    if is_unwritten(tracking_uri):
        raise no_release(tracking_uri)
    registry = Registry(tracking_uri)
    if version is not None:
        name = find_model_version(registry, kind, cluster, version).name
    elif kind not in MODEL_KINDS:
        # A model that learned from a cluster's log is that cluster's; one of devices names none.
        versions = model_versions(registry, kind, cluster)
        if not versions:
            raise NotFoundError(f"No {kind} model is registered.", remedy=f"Run `lucid train {kind}`.")
        name, version = versions[0].name, versions[0].version
    else:
        champion = find_by_alias(registry, which_cluster(tracking_uri, cluster), release)
        pin = read_manifest(registry, champion).models[kind]
        name, version = pin.name, pin.version
    document = parse_model(registry.read_version_file(name, version, f"artifacts/{kind}.json"), kind=kind)
    return RegisteredModel(kind, name, version, model_parts(kind, document))


def model_parts(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The models that a saved document holds, by name; raises CorruptModelError."""
    if kind == "throughput":
        forecasts = ThroughputForecasts.from_data(document)
        return {
            series: ThroughputPredictModel.from_data(scorer.to_data())
            for series, scorer in forecasts.scorers.items()
        }
    return {"": load_catalogue_entry(kind).model.from_data(document)}


def explain_predictions(
    model: RegisteredModel, *, lake_uri: str, cluster: str, job_ids: Sequence[str] = ()
) -> list[ExplainedPrediction]:
    """Predictions of a model for a cluster: of the jobs named (duration, packing, waits), or of the next bin
    of each series (throughput), of the next hours (node_demand), or of the next bin (inference_load).

    Raises BadInputError for jobs that such a model knows nothing of, NotFoundError for one that the
    lake does not hold.
    """
    lake = Lake(lake_uri)
    if model.kind in _FORECASTS:
        forecasts, explained = _FORECASTS[model.kind]
        if job_ids:
            raise BadInputError(
                f"The {model.kind.replace('_', ' ')} model forecasts {forecasts}, not jobs.",
                remedy=f"Leave --job out: the next {explained} explained.",
            )
        if model.kind == "throughput":
            return _next_bins(model, lake.read_throughput(cluster))
        if model.kind == "node_demand":
            return [_next_hours(model.parts[""], lake.read_node_states(cluster))]
        return [_next_load(model.parts[""], lake.read_inference_load(cluster))]
    if model.kind not in (*MODEL_KINDS, WAITS_KIND):
        raise BadInputError(
            f"The {model.kind} model reads graphs, which a lake does not hold.",
            remedy="`lucid predict-profile --onnx FILE` explains its predictions.",
        )
    if len(job_ids) > MOST_JOBS:
        raise BadInputError(f"{len(job_ids)} jobs are too many to read.", remedy=f"Name at most {MOST_JOBS}.")
    if model.kind == WAITS_KIND:
        if not job_ids:  # one that learned from snapshots has no jobs in the lake
            return []
        jobs = lake.read_jobs(cluster)
        return [_wait(model.parts[""], jobs, row) for row in _rows_of(jobs, job_ids, cluster)]
    jobs = with_known_profiles(lake.read_jobs(cluster), lake.read_job_metrics(cluster))
    rows = _rows_of(jobs, job_ids, cluster)
    if model.kind == "packing":
        return [_score(model.parts[""], jobs.iloc[row]) for row in rows]
    return [_estimate(model.parts[""], jobs, row) for row in rows]


def explain_model(model: RegisteredModel) -> dict[str, Mapping[str, Any]]:
    """The global explanation of each part, and of a pairwise packing model's heads, by name."""
    explained = {part: fitted.explain_global() for part, fitted in model.parts.items()}
    packing = model.parts.get("")
    return explained | packing.explain_pairs() if isinstance(packing, PackingAnalyzeModel) else explained


def draw_model(
    model: RegisteredModel, predictions: Sequence[ExplainedPrediction], out_dir: Path
) -> list[Path]:
    """Pictures of the model, and of each prediction in a folder of its own; returns their paths."""
    drawn: list[Path] = []
    for part, explained in explain_model(model).items():
        drawn += draw_explanations(explained, out_dir / part)
        for prediction in predictions:
            if prediction.part == part:
                folder = out_dir / part / _folder_name(prediction.of)
                drawn += draw_prediction(explained, prediction.local, folder)
    return drawn


def scorer_as_of(model: WorkloadEstimateModel, jobs: pd.DataFrame, row: int) -> tuple[DurationScorer, float]:
    """The model's scorer as a scheduler would hold it at the submission of `jobs.iloc[row]`, and that moment.

    `jobs` are those of the lake in the order of submission. What ended between the end of training and that
    moment is learned; of a job submitted before the end of training, it is the scorer at the end of training.
    """
    scorer = model.scorer
    submit_s = job_mappings(jobs.iloc[[row]])[0]["submit_time_s"]
    learned_s = float(scorer.training.get("known_until_s", scorer.state.now_s))
    if submit_s <= learned_s:
        return scorer, learned_s
    state = scorer.state.copy()
    earlier = jobs.iloc[:row]
    submitted_s = np.array([job["submit_time_s"] for job in job_mappings(earlier)])
    in_flight = earlier["job_id"].astype(str).isin(list(state.flights)).to_numpy()
    fresh = submitted_s > learned_s
    is_replayed = fresh | in_flight
    replay(
        state,
        job_stream(earlier[is_replayed].reset_index(drop=True), state),
        scored=np.zeros(int(is_replayed.sum()), dtype=np.bool_),
        submitted=fresh[is_replayed],
        until_s=submit_s,
    )
    twin = copy.copy(scorer)
    twin.state = state
    return twin, submit_s


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
            remedy="Name a job whose gpu_util_pct, gpu_mem_util_pct or gpu_mem_mib is known.",
        )
    return ExplainedPrediction(f"job {job['job_id']}", "", None, model.explain_local(values))


def _wait(model: WaitModel, jobs: pd.DataFrame, row: int) -> ExplainedPrediction:
    """The forecast at a job's submission, from what the table tells of the queue at that moment."""
    job_id, known_at = str(jobs["job_id"].iloc[row]), jobs["submit_time"].iloc[row].to_pydatetime()
    moment_s = known_at.timestamp()
    log = queue_log_of_jobs(as_known_at(jobs_around(jobs, known_at), known_at), np.array([moment_s]))
    queue = queue_at(log, moment_s)
    positions = np.flatnonzero(log.jobs["job_id"][queue.waiting["job"]] == job_id)
    if not positions.size:
        raise NotFoundError(
            f"Job {job_id!r} did not wait: it started when it was submitted.", remedy="Name one that waited."
        )
    place = int(positions[0])
    values = model.scorer.features.matrix(queue)[place].tolist()
    partition = log.partition_name(int(queue.waiting["partition"][place]))
    return ExplainedPrediction(f"job {job_id}", "", known_at, model.explain_local(values, partition))


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


def _next_hours(model: NodeDemandModel, counts: pd.DataFrame) -> ExplainedPrediction:
    """The forecast at the end of the lake's newest bin."""
    bins = read_node_series(counts).bins()
    known_at = datetime.fromtimestamp(bins.times_s[-1] + bins.step_s, UTC)
    local = model.explain_local(model.features_of(bins).iloc[-1])
    return ExplainedPrediction("busy nodes of the next hours", "", known_at, local)


def _next_load(model: InferenceLoadModel, load: pd.DataFrame) -> ExplainedPrediction:
    """The forecast at the end of the lake's newest bin."""
    series = read_inference_series(load, bin_s=model.scorer.features.bin_s)
    known_at = datetime.fromtimestamp(series.last_bin_start_s + series.bin_s, UTC)
    local = model.explain_local(model.features_of(series).iloc[-1])
    return ExplainedPrediction("usage of the inference servers", "", known_at, local)


def _rows_of(jobs: pd.DataFrame, job_ids: Sequence[str], cluster: str) -> list[int]:
    ids = jobs["job_id"].astype(str).to_numpy()
    rows = []
    for job_id in job_ids:
        positions = np.flatnonzero(ids == job_id)
        if not positions.size:
            raise NotFoundError(
                f"Cluster {cluster!r} has no job {job_id!r} in the lake.", remedy="Name one of its job_ids."
            )
        rows.append(int(positions[0]))
    return rows


def _folder_name(of: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in of)
