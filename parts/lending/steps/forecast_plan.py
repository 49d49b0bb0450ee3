"""Whether a cluster's forecast of inference has to be trained anew, and until when it may learn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.building import model_versions
from parts.lending.usage.scorer import InferenceLoadScorer
from pipeline.training.training_plan import version_learned_until
from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS, training_window_end
from pipeline.validation.held_out_days import usual_held_out

TABLE = "inference_load"
STALE_AFTER = timedelta(days=1)  # a forecast that could have learned from more than that is trained anew


@dataclass(frozen=True)
class LoadForecastPlan:
    """Which models are trained (none, or the one), until when they learn, and the version that is kept.

    `reasons`: why it is not trained, by its name; `remarks`: what else is to be said.
    """

    cluster: str
    training_until: datetime
    models: tuple[str, ...]
    version: int | None
    reasons: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def clusters_with_load(lake_uri: str) -> list[str]:
    """Return the clusters of the lake whose inference load is known, by name."""
    return Lake(lake_uri).clusters(TABLE)


def plan_load_forecast(
    site: Site, *, hold_out_days: int | None = None, as_of: datetime | None = None, anew: bool = False
) -> LoadForecastPlan:
    """Plan the training of a cluster's forecast of inference, so that a release may pin it.

    It learns nothing of the days that the gate replays, where there is load of a day before them. Raises
    NotFoundError when the lake has no load of the cluster before `as_of`.
    """
    times = pd.to_datetime(
        Lake(site.lake).read_series("inference_load", site.cluster, None, as_of)["time"], utc=True
    )
    if times.empty:
        raise NotFoundError(f"The lake has no inference load of {site.cluster!r} before {as_of}.")
    first, last = times.iloc[0].to_pydatetime(), times.iloc[-1].to_pydatetime()
    until, remarks = _until(site, hold_out_days, as_of)
    if until is None or until - first < STALE_AFTER:
        if until is not None:
            begin = f"{until:%Y-%m-%d %H:%M} UTC"
            shortage = f"There is less than a day of inference load before the held-out days, from {begin}"
            remarks = (f"{shortage}: the forecast learns from all there is, and no release may pin it yet.",)
        until = last + timedelta(seconds=1)
    until = min(until, last + timedelta(seconds=1))
    newest = _newest(Registry(site.registry), site.cluster, until)
    if newest is not None and not anew and until - newest[1] < STALE_AFTER:
        version, learned_until = newest
        reason = (
            f"The {InferenceLoadScorer.kind} model stays version {version}: it learned until "
            f"{learned_until:%Y-%m-%d %H:%M} UTC, of {until:%Y-%m-%d %H:%M}."
        )
        return LoadForecastPlan(site.cluster, until, (), version, {InferenceLoadScorer.kind: reason}, remarks)
    return LoadForecastPlan(site.cluster, until, (InferenceLoadScorer.kind,), None, {}, remarks)


def _until(
    site: Site, hold_out_days: int | None, as_of: datetime | None
) -> tuple[datetime | None, tuple[str, ...]]:
    """When the held-out days begin; None for a cluster whose jobs leave nothing to learn from."""
    days = hold_out_days or usual_held_out(site) or DEFAULT_HOLD_OUT_DAYS
    try:
        return training_window_end(site, days, as_of), ()
    except NotFoundError:
        return None, ("The lake has no jobs of the cluster: no day is held out.",)
    except BadInputError as error:
        return None, (f"No day is held out: {error}",)


def _newest(registry: Registry, cluster: str, until: datetime) -> tuple[int, datetime] | None:
    """Return the cluster's newest version that learned nothing after `until`, and until when it learned."""
    for version in model_versions(registry, InferenceLoadScorer.kind, cluster):
        learned_until = version_learned_until(version)
        if learned_until is not None and learned_until <= until:
            return version.version, learned_until
    return None
