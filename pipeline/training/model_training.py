"""Train one model by name: what the DAG `retrain_models` maps its three tasks to."""

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
    from lucid_models import training

    until = datetime.fromisoformat(training_until)
    if model == "packing":
        from lucid_models.packing.tree import packing_settings
        from pipeline.profiling.profile_store import read_profile_set

        packing = packing_settings(options.packing_kind)
        profiles = read_profile_set(lake_uri, cluster)
        report: Any = training.train_packing(
            solo=profiles.solo,
            pairs=profiles.pairs,
            tracking_uri=tracking_uri,
            seed=options.seed,
            settings=packing,
            progress=progress,
        )
    elif model == "throughput":
        from lucid_models.throughput.model import DEFAULT_LEAD_BINS, ThroughputSettings

        report = training.train_throughput(
            lake_uri=lake_uri,
            cluster=cluster,
            tracking_uri=tracking_uri,
            train_until=until,
            settings=ThroughputSettings(
                lead_bins=DEFAULT_LEAD_BINS if options.lead_bins is None else options.lead_bins,
                utc_offset_s=round(options.utc_offset_hours * 3_600),
            ),
            progress=progress,
        )
    elif model == "duration":
        report = training.train_duration(
            lake_uri=lake_uri,
            cluster=cluster,
            tracking_uri=tracking_uri,
            train_until=until,
            progress=progress,
        )
    elif model == "node_demand":
        report = _train_nodes(lake_uri, cluster, tracking_uri, until, options, progress)
    elif model == "inference_load":
        from lucid_models.inference_load.fitting import LoadSettings
        from lucid_models.inference_load.training import train_inference_load

        report = train_inference_load(
            lake_uri=lake_uri,
            cluster=cluster,
            tracking_uri=tracking_uri,
            train_until=until,
            settings=LoadSettings(utc_offset_s=round(options.utc_offset_hours * 3_600)),
            progress=progress,
        )
    elif model == "waits":
        from lucid_models.waits.job_queue import read_job_queue
        from lucid_models.waits.training import train_waits

        report = train_waits(
            log=read_job_queue(lake_uri, cluster, until),
            source=f"{lake_uri}/jobs/cluster={cluster}",
            cluster=cluster,
            tracking_uri=tracking_uri,
            seed=options.seed,
            progress=progress,
        )
    else:
        raise UnknownNameError("model", model, (*MODELS, *OPTIONAL_MODELS))
    result: dict[str, Any] = to_jsonable(report)
    return result


def _train_nodes(
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    until: datetime,
    options: TrainingOptions,
    progress: Progress,
) -> Any:
    from lucid_models.node_demand.features import read_holidays
    from lucid_models.node_demand.model import DemandSettings
    from lucid_models.node_demand.training import train_node_demand

    settings = DemandSettings(
        utc_offset_s=round(options.utc_offset_hours * 3_600), holidays=read_holidays(list(options.holidays))
    )
    if options.near_bins is not None:
        settings = replace(settings, near_bins=options.near_bins)
    return train_node_demand(
        lake_uri=lake_uri,
        cluster=cluster,
        tracking_uri=tracking_uri,
        train_until=until,
        settings=settings,
        progress=progress,
    )
