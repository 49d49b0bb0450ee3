"""Why a registered model answers as it does: the whole model, or single predictions from a cluster's lake."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.duration.job_replay import replay
from lucid_models.duration.model import WorkloadEstimateModel, job_mappings, job_stream
from lucid_models.duration.scorer import DurationScorer
from lucid_models.explanation.plots import draw_explanations, draw_prediction
from lucid_models.mlflow_server import is_unwritten
from lucid_models.model_format import parse_model
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.registry import Registry
from lucid_models.releases.building import find_model_version, model_versions
from lucid_models.releases.clusters import which_cluster
from lucid_models.releases.manifest import MODEL_KINDS
from lucid_models.releases.only_cluster import no_release
from lucid_models.releases.store import find_by_alias, read_manifest
from lucid_models.throughput.model import ThroughputPredictModel
from lucid_models.throughput.scorer import ThroughputForecasts
from pipeline.training.model_steps import steps_of

# What `--json` prints is bounded by what a person asks about.
MOST_JOBS = 100


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
    site: Site, *, kind: str, version: int | None = None, release: str = "champion"
) -> RegisteredModel:
    """A version of a model, by default the one that the release under a cluster's alias pins, or the newest
    of a model that is registered beside releases. Without a cluster: the only one that has releases.

    Raises UnknownNameError for an unknown kind, NotFoundError when there is no such version or release.
    """
    entry = load_catalogue_entry(kind)
    if is_unwritten(site.registry):
        raise no_release(site.registry)
    registry = Registry(site.registry)
    if version is not None:
        name = find_model_version(registry, kind, site.cluster, version).name
    elif kind not in MODEL_KINDS:
        # A model that learned from a cluster's log is that cluster's; one of devices names none.
        versions = model_versions(registry, kind, site.cluster)
        if not versions:
            raise NotFoundError(
                f"No {kind} model is registered.",
                remedy=f"Run `lucid train {entry.command}`.",
            )
        name, version = versions[0].name, versions[0].version
    else:
        champion = find_by_alias(registry, which_cluster(site.registry, site.cluster), release)
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
    site: Site, model: RegisteredModel, *, job_ids: Sequence[str] = ()
) -> list[ExplainedPrediction]:
    """Predictions of a model for a cluster: of the jobs named, or of what comes next where it forecasts a
    series.

    Raises BadInputError for jobs that such a model knows nothing of, NotFoundError for one that the
    lake does not hold.
    """
    if len(job_ids) > MOST_JOBS:
        raise BadInputError(f"{len(job_ids)} jobs are too many to read.", remedy=f"Name at most {MOST_JOBS}.")
    return steps_of(model.kind).explain(model, Lake(site.lake), site.cluster, job_ids)


def refuse_jobs(model: RegisteredModel, job_ids: Sequence[str], *, forecasts: str, explained: str) -> None:
    """Raise BadInputError where jobs are named to a model that forecasts something else."""
    if job_ids:
        raise BadInputError(
            f"The {model.kind.replace('_', ' ')} model forecasts {forecasts}, not jobs.",
            remedy=f"Leave --job out: the next {explained} explained.",
        )


def rows_of(jobs: pd.DataFrame, job_ids: Sequence[str], cluster: str) -> list[int]:
    """The rows of jobs by their ids; raises NotFoundError for one that the table does not hold."""
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


def _folder_name(of: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in of)
