"""What jobs are predicted to ask of a GPU, from their computation graphs, before they are profiled.

The model is the newest that is registered, or one that is fitted on the spot (it takes a second) to profiles
that are named. Predictions for jobs of a cluster become rows of the lake's table `metrics` with the origin
"predicted", known at the job's submission; a measurement, where there is one, is preferred to them
(`lucid_models.known_profiles`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from cluster_logs.metrics.job_metrics import JOB_METRICS_SCHEMA, PREDICTED
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Work
from foundation.site import Site
from lucid_models.mlflow_server import is_unwritten
from lucid_models.model_format import parse_model
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.registry import Registry
from lucid_models.releases.building import model_name, model_versions
from lucid_models.scoring import PackingScorer, scorer_from_document
from parts.horus.graph_features import GraphFeatures
from parts.horus.model import UtilisationModel
from parts.horus.onnx_graph import read_graph_features
from parts.horus.scorer import KIND, DemandPrediction, UtilisationScorer
from profiler_jobs.profile_table import ProfileSet

# What a row of a jobs file may be recognised by, the narrowest first; the first that it has counts.
JOB_KEYS = ("job_id", "job_type", "name")
JOBS_COLUMNS = (*JOB_KEYS, "user", "onnx", "batch_size", "amp")
_SCORE_WORDS = ("Tiny", "Medium", "Jumbo")


@dataclass(frozen=True)
class GraphPredictor:
    """The models that predict, where they come from, and what has to be said of them.

    `packing` gives the Sharing Score; None: no pairs were measured.
    """

    demand: UtilisationScorer
    packing: PackingScorer | PackingAnalyzeModel | None
    origin: str
    remarks: tuple[str, ...] = ()

    def predict(self, graphs: Sequence[GraphFeatures], amp: Sequence[bool]) -> list[DemandPrediction]:
        """Predict what jobs with these graphs ask of a GPU."""
        return self.demand.predict(graphs, amp)

    def sharing_scores(
        self, predictions: Sequence[DemandPrediction], amp: Sequence[bool]
    ) -> list[int | None]:
        """Return the Sharing Score that follows from each prediction."""
        if self.packing is None or not predictions:
            return [None] * len(predictions)
        scores = self.packing.predict(
            [prediction.gpu_util_pct for prediction in predictions],
            [prediction.gpu_mem_util_pct for prediction in predictions],
            [prediction.gpu_mem_mib for prediction in predictions],
            np.asarray(amp, dtype=np.float64),
        )
        return [int(score) for score in scores]


@dataclass(frozen=True)
class PredictionReport:
    """What became of the rows of a jobs file, and of the jobs that they speak of."""

    cluster: str
    origin: str
    rows_in: int
    rows_kept: int
    rows_skipped: int  # of no job of the cluster
    jobs: int
    files_changed: int
    remarks: tuple[str, ...]


def solo_profiles_or_measure(singles: str | None = None, pairs: str | None = None) -> ProfileSet:
    """Read solo profiles, and pairs where there are any; without files, measure the zoo on the simulated
    GPU.
    """
    from profiler_jobs.profile_table import PAIR_SCHEMA, as_profile_frame, read_solo_profiles

    if singles is None or pairs is not None:
        from pipeline.profiling.profile_store import read_profiles_or_measure

        return read_profiles_or_measure(singles, pairs, seed=0)
    no_pairs = as_profile_frame(PAIR_SCHEMA.empty_table().to_pandas(), PAIR_SCHEMA)
    return ProfileSet(read_solo_profiles(singles), no_pairs)


def fit_predictor(profiles: ProfileSet, origin: str) -> GraphPredictor:
    """Fit both models to measured profiles; the zoo's configurations among them teach about graphs."""
    demand = UtilisationModel().fit(profiles.solo).scorer
    packing = PackingAnalyzeModel().fit(profiles.solo, profiles.pairs) if len(profiles.pairs) else None
    simulated = bool(demand.training["simulated"])
    remarks = ("The profiles were measured on the simulated GPU, not on a real one.",) if simulated else ()
    return GraphPredictor(demand, packing, origin, remarks)


def registered_predictor(tracking_uri: str, version: int | None = None) -> GraphPredictor:
    """Load the newest registered models (or a version of the utilisation model).

    Raises NotFoundError when no utilisation model is registered.
    """
    name = model_name(KIND, None)
    versions = [] if is_unwritten(tracking_uri) else Registry(tracking_uri).versions(name)
    if version is None and not versions:
        raise NotFoundError(
            "No utilisation model is registered.",
            remedy="Run `lucid train utilisation`, or name profiles: --singles FILE, --cluster NAME, "
            "--simulated.",
        )
    registry = Registry(tracking_uri)
    registered = registry.version(name, version) if version is not None else versions[0]
    demand = UtilisationScorer.from_data(_document(registry, name, registered.version, KIND))
    remarks = []
    if demand.training.get("simulated"):
        remarks.append("The model learned from the simulated GPU, not from a real one.")
    packing: PackingScorer | None = None
    fitting = model_versions(registry, "packing", None)
    if fitting:
        newest = fitting[0]
        scorer = scorer_from_document(_document(registry, newest.name, newest.version, "packing"))
        packing = scorer if isinstance(scorer, PackingScorer) else None
    return GraphPredictor(demand, packing, f"{name} version {registered.version}", tuple(remarks))


def describe_prediction(predictor: GraphPredictor, graph: GraphFeatures, amp: bool) -> dict[str, Any]:
    """Return one prediction as plain data: figures, ranges, Sharing Score, features, reason, remarks."""
    (prediction,) = predictor.predict([graph], [amp])
    (score,) = predictor.sharing_scores([prediction], [amp])
    figures = {name: value for name, value in vars(prediction).items() if name not in ("beyond", "reason")}
    return {
        **{name: round(value, 3) for name, value in figures.items()},
        "sharing_score": score,
        "sharing_score_name": None if score is None else _SCORE_WORDS[score],
        "reason": prediction.reason,
        "beyond": list(prediction.beyond),
        "device": predictor.demand.device,
        "model": predictor.origin,
        "remarks": list(predictor.remarks),
        "graph": {
            **graph.to_data(),
            "operators": graph.operators,
            "flops": graph.flops,
            "flops_per_operator": graph.flops_per_operator,
            "flops_per_byte": graph.flops_per_byte,
        },
        "amp": amp,
    }


def predict_jobs(
    site: Site, *, jobs_file: Path, predictor: GraphPredictor, dimensions: Mapping[str, int] | None = None
) -> PredictionReport:
    """Write predictions for a cluster's jobs into the table `metrics` of the lake.

    `jobs_file`: CSV with `onnx` (a path, from the file's folder), `batch_size`, `amp` (0 or 1), and what
    the row is about: `job_id`, `job_type`, or `name` (with `user`, or of any user). The same twice changes
    nothing. Raises NotFoundError for a cluster without jobs, BadInputError naming the row for a bad one.
    """
    requests = read_jobs_file(jobs_file)
    lake = Lake(site.lake)
    jobs = lake.read_jobs(site.cluster, columns=("job_id", "submit_time", "user", "name", "job_type"))
    if jobs.empty:
        raise NotFoundError(
            f"The lake holds no job of cluster {site.cluster!r}.", remedy="Ingest a log first."
        )
    read_graph = cache(lambda file, batch_size: _graph(jobs_file.parent / file, batch_size, dimensions))
    rows: list[pd.DataFrame] = []
    is_predicted = np.zeros(len(jobs), dtype=np.bool_)
    skipped = 0
    # A job that several rows speak of has the narrowest one's prediction.
    for done, row in enumerate(sorted(requests, key=lambda row: JOB_KEYS.index(row.key))):
        site.progress(done, len(requests), Work(f"predicting {row.value}", "rows"))
        is_match = row.matches(jobs) & ~is_predicted
        if not is_match.any():
            skipped += 1
            continue
        is_predicted |= is_match
        graph = read_graph(row.onnx, row.batch_size)
        (prediction,) = predictor.predict([graph], [row.amp])
        rows.append(_metrics_rows(jobs[is_match], prediction, f"{row.onnx} by {predictor.origin}"))
    site.progress(len(requests), len(requests), Work("predicted", "rows"))
    changed = lake.write_job_metrics(site.cluster, pd.concat(rows, ignore_index=True)) if rows else 0
    return PredictionReport(
        site.cluster,
        predictor.origin,
        len(requests),
        len(requests) - skipped,
        skipped,
        int(is_predicted.sum()),
        changed,
        predictor.remarks,
    )


@dataclass(frozen=True)
class AskedJob:
    """A row of a jobs file: the jobs that it is about, and what they run."""

    key: str
    value: str
    user: str | None
    onnx: str
    batch_size: int | None
    amp: bool

    def matches(self, jobs: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Return which of a table's jobs the row is about, shape (jobs,)."""
        is_match = (jobs[self.key].astype(object) == self.value).to_numpy(dtype=np.bool_)
        if self.key == "name" and self.user is not None:
            is_match = is_match & (jobs["user"].astype(object) == self.user).to_numpy(dtype=np.bool_)
        return is_match


def read_jobs_file(path: Path) -> list[AskedJob]:
    """Read the jobs that are to be predicted; raises BadInputError naming the row and what is wrong."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path} cannot be read as CSV: {error}.", remedy="Check the path.") from error
    if "onnx" not in table.columns or not set(JOB_KEYS) & set(table.columns):
        raise BadInputError(
            f"{path} has the columns {', '.join(table.columns)}.",
            remedy=f"Give onnx, one of {', '.join(JOB_KEYS)}, and where known batch_size and amp.",
        )
    asked_jobs = []
    for number, row in enumerate(table.to_dict("records"), start=1):
        values = {name: str(row.get(name, "")).strip() for name in JOBS_COLUMNS}
        key = next((name for name in JOB_KEYS if values[name]), None)
        batch, amp = values["batch_size"], values["amp"] or "0"
        if key is None or not values["onnx"] or amp not in ("0", "1") or (batch and not _is_count(batch)):
            raise BadInputError(
                f"Row {number} of {path} says {values}.",
                remedy="Give a job_id, job_type or name, an ONNX file, a whole batch_size, and amp 0 or 1.",
            )
        asked_jobs.append(
            AskedJob(
                key,
                values[key],
                values["user"] or None,
                values["onnx"],
                int(batch) if batch else None,
                amp == "1",
            )
        )
    return asked_jobs


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= 9 and int(text) > 0


def _graph(file: Path, batch_size: int | None, dimensions: Mapping[str, int] | None) -> GraphFeatures:
    return read_graph_features(file, batch_size=batch_size, dimensions=dimensions)


def _metrics_rows(jobs: pd.DataFrame, prediction: DemandPrediction, source: str) -> pd.DataFrame:
    rows = jobs[["job_id", "submit_time", "user", "name", "job_type"]].assign(
        gpu_util_pct=prediction.gpu_util_pct,
        gpu_mem_util_pct=prediction.gpu_mem_util_pct,
        gpu_mem_mib=prediction.gpu_mem_mib,
        origin=PREDICTED,
        # The graph comes with the submission; nothing of the prediction is learned from the cluster's jobs.
        known_time=jobs["submit_time"],
        source=source,
    )
    return rows.reindex(columns=[name for name in JOB_METRICS_SCHEMA.names if name != "cluster"])


def _document(registry: Registry, name: str, version: int, kind: str) -> dict[str, Any]:
    return parse_model(registry.read_version_file(name, version, f"artifacts/{kind}.json"), kind=kind)
