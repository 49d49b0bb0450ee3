"""A sweep by the models of a cluster's live release: its estimates, its packing, its settings."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import NotFoundError
from lucid_models.qssf.rolling import rolling_estimates_s
from lucid_models.releases.lifecycle import (
    ReleaseInfo,
    ReleaseModels,
    load_release_models,
    show_release,
)
from pipeline.release.release_settings import own_settings
from pipeline.search.sweeps.inputs import SweepInputs
from pipeline.validation.contenders import learned_until

_KEY = ["job_id", "submit_time"]  # the lake's of a job


def live_release(tracking_uri: str, cluster: str) -> ReleaseInfo:
    """Return the release that is live. Raises NotFoundError when there is none."""
    try:
        return show_release(tracking_uri=tracking_uri, cluster=cluster)
    except NotFoundError as error:
        raise NotFoundError(
            f"Cluster {cluster!r} has no live release whose models could be used.",
            remedy="Replay without them, or publish a release first.",
        ) from error


def settings_of_live(tracking_uri: str, cluster: str) -> dict[str, Mapping[str, tuple[Any, ...]]]:
    """Return the settings that the live release gives its policy, as a sweep's `settings` are.

    Raises NotFoundError when no release is live.
    """
    live = live_release(tracking_uri, cluster)
    settings = own_settings(live.policy, live.settings)
    return {live.policy: {name: (value,) for name, value in settings.items()}} if settings else {}


def with_live_beliefs(inputs: SweepInputs, *, lake_uri: str, cluster: str, tracking_uri: str) -> SweepInputs:
    """Return inputs of a cluster of the lake with what the live release believes of their jobs.

    A job that was submitted before the models had learned is estimated by Helios' rolling estimate, as in the
    gate's warm-up: they have seen how long it ran. Raises NotFoundError when no release is live,
    ReleaseRefusedError for one that does not hold.
    """
    version = int(live_release(tracking_uri, cluster).version)
    release = load_release_models(tracking_uri=tracking_uri, cluster=cluster, version=version)
    last = inputs.jobs["submit_time"].max().to_pydatetime()
    jobs = Lake(lake_uri).read_jobs(cluster)
    jobs = jobs[jobs["submit_time"] <= last].sort_values(_KEY[::-1], kind="stable")
    estimates, unseen = _estimates(release, jobs, learned_until(release.manifest))
    key = pd.MultiIndex.from_frame(inputs.jobs[_KEY])
    estimated = inputs.jobs.assign(estimated_duration_s=estimates.loc[key].to_numpy(dtype=np.float64))
    by_model = int(unseen.loc[key].sum())
    remark = (
        f"Policies that go by estimates and packing use the models of release {version}: its duration model "
        f"estimates {by_model:,} of {len(key):,} jobs; Helios' rolling estimate stands in for those that it "
        "learned from. Its forecasts, sleeping nodes and loans are left out."
    )
    return replace(
        inputs,
        jobs=estimated,
        packing_model=release.packing.to_data(),
        remarks=(*inputs.remarks, remark),
        sha256="",
    )


def _estimates(
    release: ReleaseModels, jobs: pd.DataFrame, until: datetime | None
) -> "tuple[pd.Series[Any], pd.Series[Any]]":
    """Return each job's estimate (s), and whether the model made it without having seen the job."""
    unseen = np.ones(len(jobs), dtype=bool)
    if until is not None:
        unseen = (jobs["submit_time"] >= until).to_numpy(dtype=bool)
    estimates = rolling_estimates_s(jobs)
    if unseen.any():
        estimates[unseen] = release.duration.predict_causal(jobs[unseen], earlier=jobs[~unseen])
    index = pd.MultiIndex.from_frame(jobs[_KEY])
    return pd.Series(estimates, index=index), pd.Series(unseen, index=index)
