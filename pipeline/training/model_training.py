"""Train one model by name: what the DAG `retrain_models` maps its three tasks to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from foundation.errors import UnknownNameError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from lucid_models.releases.manifest import MODEL_KINDS
from pipeline.services import learned_kinds

MODELS = MODEL_KINDS
# Trained where the cluster has what it learns from; a release may do without.
OPTIONAL_MODELS = tuple(kind for kind in learned_kinds() if kind not in MODELS)


@dataclass(frozen=True)
class TrainingOptions:
    """What can be chosen of a training.

    The packing model is of `packing_kind`; `lead_bins` is the throughput model's, `near_bins` and `holidays`
    (days such as 2017-12-25) the node demand model's (None: the default), and `utc_offset_hours`, the
    cluster's local time minus UTC, that of all that forecast bins.
    """

    seed: int = 0
    lead_bins: int | None = None
    utc_offset_hours: float = 0.0
    packing_kind: str = "tree"
    near_bins: int | None = None
    holidays: tuple[str, ...] = ()

    @property
    def utc_offset_s(self) -> int:
        """The cluster's local time minus UTC (s)."""
        return round(self.utc_offset_hours * 3_600)


AS_USUAL = TrainingOptions()


def train_model(
    *,
    model: str,
    cluster: str,
    lake_uri: str,
    training_until: str,
    tracking_uri: str,
    options: TrainingOptions = AS_USUAL,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Train `model` on the cluster's tables before `training_until` (ISO time); return its report's values.

    The packing model learns from the cluster's profile tables, which have no time.

    Raises UnknownNameError for another model or kind, NotFoundError when the lake lacks a table.
    """
    train = _TRAINERS.get(model)
    if train is None:
        raise UnknownNameError("model", model, (*MODELS, *OPTIONAL_MODELS))
    until = datetime.fromisoformat(training_until)
    result: dict[str, Any] = to_jsonable(
        train(TrainingTask(cluster, lake_uri, tracking_uri, until, progress), options)
    )
    return result


@dataclass(frozen=True)
class TrainingTask:
    """A cluster's tables before `until`, and where the model that learns from them is registered."""

    cluster: str
    lake_uri: str
    tracking_uri: str
    until: datetime
    progress: Progress

    @property
    def of_lake(self) -> dict[str, Any]:
        """The arguments of trainings that read the lake."""
        return {
            "lake_uri": self.lake_uri,
            "cluster": self.cluster,
            "tracking_uri": self.tracking_uri,
            "train_until": self.until,
            "progress": self.progress,
        }


def _train_packing(task: TrainingTask, options: TrainingOptions) -> object:
    from lucid_models.packing.tree import packing_settings
    from lucid_models.training import train_packing
    from pipeline.profiling.profile_store import read_profile_set

    settings = packing_settings(options.packing_kind)
    profiles = read_profile_set(task.lake_uri, task.cluster)
    return train_packing(
        solo=profiles.solo,
        pairs=profiles.pairs,
        tracking_uri=task.tracking_uri,
        cluster=task.cluster,
        seed=options.seed,
        settings=settings,
        progress=task.progress,
    )


def _train_throughput(task: TrainingTask, options: TrainingOptions) -> object:
    from lucid_models.throughput.model import DEFAULT_LEAD_BINS, ThroughputSettings
    from lucid_models.training import train_throughput

    lead_bins = DEFAULT_LEAD_BINS if options.lead_bins is None else options.lead_bins
    settings = ThroughputSettings(lead_bins=lead_bins, utc_offset_s=options.utc_offset_s)
    return train_throughput(**task.of_lake, settings=settings)


def _train_duration(task: TrainingTask, options: TrainingOptions) -> object:
    from lucid_models.training import train_duration

    return train_duration(**task.of_lake)


def _train_node_demand(task: TrainingTask, options: TrainingOptions) -> object:
    from lucid_models.node_demand.features import read_holidays
    from lucid_models.node_demand.model import DemandSettings
    from lucid_models.node_demand.training import train_node_demand

    holidays = read_holidays(list(options.holidays))
    settings = DemandSettings(utc_offset_s=options.utc_offset_s, holidays=holidays)
    if options.near_bins is not None:
        settings = replace(settings, near_bins=options.near_bins)
    return train_node_demand(**task.of_lake, settings=settings)


def _train_inference_load(task: TrainingTask, options: TrainingOptions) -> object:
    from lucid_models.inference_load.fitting import LoadSettings
    from lucid_models.inference_load.training import train_inference_load

    return train_inference_load(**task.of_lake, settings=LoadSettings(utc_offset_s=options.utc_offset_s))


def _train_waits(task: TrainingTask, options: TrainingOptions) -> object:
    from lucid_models.waits.job_queue import read_job_queue
    from lucid_models.waits.training import train_waits

    return train_waits(
        log=read_job_queue(task.lake_uri, task.cluster, task.until),
        source=f"{task.lake_uri}/jobs/cluster={task.cluster}",
        cluster=task.cluster,
        tracking_uri=task.tracking_uri,
        seed=options.seed,
        progress=task.progress,
    )


_TRAINERS: Mapping[str, Callable[[TrainingTask, TrainingOptions], object]] = {
    "packing": _train_packing,
    "throughput": _train_throughput,
    "duration": _train_duration,
    "node_demand": _train_node_demand,
    "inference_load": _train_inference_load,
    "waits": _train_waits,
}
