"""What comes in from an event or the form, and a model version out."""

from collections.abc import Sequence
from typing import Any

from lucid_airflow import settings
from lucid_airflow.handover import announce, newest_event_extra, required
from lucid_airflow.links import MlflowLink, model_version_path
from lucid_airflow.operators.base import LucidOperator


class ResolveInputsOperator(LucidOperator):
    """Find out what this run is about: the form's values, else those of the event that started it.

    `asset`: whose events count, one or several. A run by the clock has no event: it is about the champion's
    cluster.

    Returns cluster, lake_uri, hold_out_days, as_of (ISO time or None: where the log is taken to end),
    training_until (ISO time: the held-out window begins there) and version, each as an XCom of its own.
    """

    template_fields: Sequence[str] = ("cluster", "lake_uri", "hold_out_days", "as_of", "version")

    def __init__(
        self,
        *,
        asset: Any,
        cluster: Any = None,
        lake_uri: Any = None,
        hold_out_days: Any = None,
        as_of: Any = None,
        version: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=True, **kwargs)
        self.asset = asset
        self.cluster = cluster
        self.lake_uri = lake_uri
        self.hold_out_days = hold_out_days
        self.as_of = as_of
        self.version = version

    def run(self, context: Any) -> dict[str, Any]:
        """Merge form and event."""
        from pipeline.windows import read_as_of, training_window_end

        given = {
            "cluster": self.cluster,
            "lake_uri": self.lake_uri,
            "hold_out_days": self.hold_out_days,
            "as_of": self.as_of,
            "version": self.version,
        }
        values = {
            **newest_event_extra(context, self.asset),
            **{key: value for key, value in given.items() if value not in (None, "")},
        }
        if context["dag_run"].run_type == "scheduled" and not values.get("cluster"):
            values["cluster"] = _cluster_of_the_champion()
        assets = self.asset if isinstance(self.asset, Sequence) else [self.asset]
        names = " or ".join(asset.name for asset in assets)
        cluster = str(required(values, "cluster", asset_name=names))
        lake_uri = str(values.get("lake_uri") or settings.lake_uri())
        hold_out_days = int(values.get("hold_out_days") or 14)
        as_of = read_as_of(values.get("as_of"))
        inputs = {
            "cluster": cluster,
            "lake_uri": lake_uri,
            "hold_out_days": hold_out_days,
            "as_of": as_of.isoformat() if as_of else None,
            "training_until": training_window_end(lake_uri, cluster, hold_out_days, as_of).isoformat(),
            "version": values.get("version"),
        }
        self.log.info("This run is about %s", inputs)
        return inputs


def _cluster_of_the_champion() -> str | None:
    from cluster_logs.errors import NotFoundError
    from lucid_models.releases.lifecycle import show_release

    try:
        return show_release(tracking_uri=settings.tracking_uri(), alias="champion").cluster
    except NotFoundError:
        return None


class TrainModelOperator(LucidOperator):
    """Train one of the three models on what was known before `training_until` and register a version.

    `options`: settings of this model by name, as `pipeline.model_training.train_model` has them.
    """

    template_fields: Sequence[str] = ("model", "cluster", "lake_uri", "training_until", "options")
    operator_extra_links = (MlflowLink(),)

    def __init__(
        self,
        *,
        model: str,
        cluster: Any,
        lake_uri: Any,
        training_until: Any,
        options: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=True, **kwargs)
        self.model = model
        self.options = options
        self.cluster = cluster
        self.lake_uri = lake_uri
        self.training_until = training_until
        self.mlflow_path: str | None = None

    def run(self, context: Any) -> dict[str, Any]:
        """Train; returns the version with its scores."""
        from pipeline.model_training import train_model

        report = train_model(
            model=self.model,
            cluster=self.cluster,
            lake_uri=self.lake_uri,
            training_until=self.training_until,
            tracking_uri=settings.tracking_uri(),
            **(self.options or {}),
        )
        self.mlflow_path = model_version_path(report["name"], report["version"])
        self.log.info(
            "%s version %s: %s beside %s", *(report[k] for k in ("name", "version", "metrics", "baselines"))
        )
        announce(context, {key: report[key] for key in ("name", "version", "digest")})
        return report
