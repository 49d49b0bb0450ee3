"""The next hours of a cluster's inference load by its registered forecast: figures, a picture, a sentence."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from foundation.errors import BadInputError, NotFoundError
from foundation.png_figures import save_figure
from foundation.process_lock import scratch_folder
from foundation.site import Site
from lucid_models.model_format import parse_model
from lucid_models.registry import Registry
from lucid_models.releases.building import find_model_version
from lucid_models.releases.lifecycle import show_release
from parts.lending.load.series import BIN_S
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.steps.lending_replay import load_of
from parts.lending.steps.load_outlook import LoadOutlook, load_outlook
from parts.lending.steps.outlook_picture import draw_outlook
from parts.lending.usage.scorer import InferenceLoadScorer

EXPERIMENT = "lucid-inference-forecasts"
PICTURE = "next_hours.png"
BINS_AN_HOUR = 3_600 // BIN_S


@dataclass(frozen=True)
class HoursAhead:
    """What is said of the next hours; `mlflow_path` is the run's page below MLflow's address."""

    cluster: str
    version: int
    outlook: LoadOutlook
    sentence: str
    mlflow_path: str

    def to_data(self) -> dict[str, Any]:
        """The figures as plain values."""
        outlook = self.outlook
        return {
            "cluster": self.cluster,
            "version": self.version,
            "servers": outlook.servers,
            "lendable_now": outlook.now,
            "lendable_all_the_time": outlook.least_lendable,
            "usage_next": float(outlook.mean[0]),
            "usage_highest": float(max(outlook.bounds[max(outlook.bounds)])),
            "until": datetime.fromtimestamp(float(outlook.times_s[-1]) + BIN_S, UTC).isoformat(),
            "sentence": self.sentence,
            "mlflow_path": self.mlflow_path,
        }


def forecast_hours(
    site: Site, *, version: int, hours: float = 3.0, as_of: datetime | None = None
) -> HoursAhead:
    """Forecast the hours after the newest bin before `as_of`, and log the picture and figures in MLflow.

    Servers are counted by the settings of loans of the cluster's champion, or by default where it has none.
    Raises NotFoundError for a version that is not there, BadInputError for a load that is missing or too
    short.
    """
    bins = round(hours * BINS_AN_HOUR)
    if not 1 <= bins <= 24 * BINS_AN_HOUR:
        raise BadInputError(f"{hours!r} hours ahead.", remedy="Use 0.1 to 24.")
    series = load_of(site, as_of)
    if isinstance(series, str):
        raise BadInputError(series, remedy="Ingest the load, with the number of servers.")
    registry = Registry(site.registry)
    loans, whose = _loans(site)
    outlook = load_outlook(
        _scorer(registry, site.cluster, version),
        series.usage,
        series.gap,
        series.last_bin_start_s,
        servers=series.servers or 0,
        loans=loans.loans,
        bins=bins,
    )
    sentence = _sentence(site.cluster, outlook, hours, whose)
    tags = {"cluster": site.cluster, "model_version": str(version)}
    with (
        registry.run(EXPERIMENT, f"{site.cluster} inference load", tags) as run,
        scratch_folder("outlook") as folder,
    ):
        figure = draw_outlook(
            outlook, series.times_s, np.where(series.gap, np.nan, series.usage), site.cluster
        )
        save_figure(figure, folder / PICTURE)
        run.log_folder(folder, "forecast")
        run.log_params({"hours": hours, "servers": outlook.servers, "headroom": loans.loans.headroom})
        run.log_metrics(
            {
                "lendable_now": float(outlook.now),
                "lendable_all_the_time": float(outlook.least_lendable),
                "usage_next": float(outlook.mean[0]),
            }
        )
        run.set_tag("mlflow.note.content", sentence)
        page = run.ui_path()
    return HoursAhead(site.cluster, version, outlook, sentence, page)


def _scorer(registry: Registry, cluster: str, version: int) -> InferenceLoadScorer:
    file = f"{InferenceLoadScorer.kind}.json"
    name = find_model_version(registry, InferenceLoadScorer.kind, cluster, version).name
    payload = registry.read_version_file(name, version, f"artifacts/{file}")
    return InferenceLoadScorer.from_data(parse_model(payload, kind=InferenceLoadScorer.kind, source=file))


def _loans(site: Site) -> tuple[ReleasedLoans, str]:
    """The settings to count by, and whose they are."""
    try:
        champion = show_release(tracking_uri=site.registry, cluster=site.cluster)
    except NotFoundError:
        return ReleasedLoans(), "by the default headroom"
    if "loaning" not in champion.parts:
        return ReleasedLoans(), f"by the default headroom: release {champion.version} lends nothing"
    return ReleasedLoans.from_data(
        champion.parts["loaning"]
    ), f"by the settings of release {champion.version}"


def _sentence(cluster: str, outlook: LoadOutlook, hours: float, whose: str) -> str:
    level = 100 * max(outlook.bounds)
    at = datetime.fromtimestamp(float(outlook.times_s[0]), UTC)
    return (
        f"{outlook.now} of {outlook.servers} inference servers of {cluster} could be lent at "
        f"{at:%Y-%m-%d %H:%M} UTC, and at least {outlook.least_lendable} at any time of the next {hours:g} "
        f"hours, where usage stays below the {level:g} % bound ({whose})."
    )
