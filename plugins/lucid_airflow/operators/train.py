"""What comes in from an event or the form, and a model version out."""

from collections.abc import Mapping, Sequence
from typing import Any

from lucid_airflow import settings
from lucid_airflow.handover import announce, event_extras, newest_event_extra, required
from lucid_airflow.links import MlflowLink, model_version_path
from lucid_airflow.operators.base import LucidOperator


class ResolveInputsOperator(LucidOperator):
    """Find out what this run is about: the form's values, else those of the event that started it.

    `asset`: whose events count, one or several. A run by the clock has no event: it is about the only
    cluster that has a release.

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

        values = self.merge_values(context, newest_event_extra(context, self.asset))
        hold_out_days = int(values["hold_out_days"] or 14)
        as_of = read_as_of(values["as_of"])
        until = training_window_end(values["lake_uri"], values["cluster"], hold_out_days, as_of)
        inputs = {
            "cluster": values["cluster"],
            "lake_uri": values["lake_uri"],
            "hold_out_days": hold_out_days,
            "as_of": as_of.isoformat() if as_of else None,
            "training_until": until.isoformat(),
            "version": values["version"],
        }
        self.log.info("This run is about %s", inputs)
        return inputs

    def merge_values(self, context: Any, announced: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the form says, else the event; the cluster and the lake are always there.

        Raises BadInputError when nobody names a cluster.
        """
        names = ("cluster", "lake_uri", "hold_out_days", "as_of", "version")
        given = {name: value for name in names if (value := getattr(self, name)) not in (None, "")}
        values = {**dict.fromkeys(names), **announced, **given}
        if context["dag_run"].run_type == "scheduled" and not values["cluster"]:
            values["cluster"] = _only_cluster()
        assets = self.asset if isinstance(self.asset, Sequence) else [self.asset]
        events_of = " or ".join(asset.name for asset in assets)
        values["cluster"] = str(required(values, "cluster", asset_name=events_of))
        values["lake_uri"] = str(values["lake_uri"] or settings.lake_uri())
        return values


class ResolveTrainingOperator(ResolveInputsOperator):
    """Find out what a retraining is about: as its parent, and which models are trained.

    `models`: which to train (None: those that the events name; all of them unless every event names some).
    `allow_simulated_profiles`: the form's or an event's word.
    What is not trained is kept: `kept` maps its name to the newest version for the cluster. A model that
    cannot be kept is trained as well, and the log says why. `models` and `kept` are XComs of their own.
    """

    template_fields: Sequence[str] = (
        *ResolveInputsOperator.template_fields,
        "models",
        "allow_simulated_profiles",
    )

    def __init__(self, *, models: Any = None, allow_simulated_profiles: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.models = models
        self.allow_simulated_profiles = allow_simulated_profiles

    def run(self, context: Any) -> dict[str, Any]:
        """Merge form and events, and plan the training."""
        from pipeline.training_plan import plan_training
        from pipeline.windows import read_as_of

        extras = event_extras(context, self.asset)
        cluster = self.cluster or (extras[-1].get("cluster") if extras else None)
        same = [extra for extra in extras if extra.get("cluster") == cluster]
        if len(same) < len(extras):
            others = {repr(extra.get("cluster")) for extra in extras if extra not in same}
            self.log.warning("Events of %s started this run too: retrain them by hand.", sorted(others))
        announced: dict[str, Any] = {}
        for extra in same:
            announced |= {name: value for name, value in extra.items() if value is not None}
        values = self.merge_values(context, announced)
        as_of = read_as_of(values["as_of"])
        plan = plan_training(
            lake_uri=values["lake_uri"],
            cluster=values["cluster"],
            tracking_uri=settings.tracking_uri(),
            models=self.models or _models_of(same),
            hold_out_days=int(values["hold_out_days"]) if values["hold_out_days"] else None,
            as_of=as_of,
        )
        for remark in plan.remarks:
            self.log.info("%s", remark)
        inputs = {
            "cluster": values["cluster"],
            "lake_uri": values["lake_uri"],
            "hold_out_days": plan.hold_out_days,
            "as_of": as_of.isoformat() if as_of else None,
            "training_until": plan.training_until.isoformat(),
            "models": list(plan.train),
            "kept": plan.kept,
            "allow_simulated_profiles": bool(
                self.allow_simulated_profiles or announced.get("allow_simulated_profiles")
            ),
        }
        self.log.info("This run is about %s", inputs)
        return inputs


def _models_of(extras: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """Which models events ask for; None (all) when there is no event, or one that names none."""
    if not extras or not all(extra.get("models") for extra in extras):
        return None
    return sorted({str(model) for extra in extras for model in extra["models"]})


def _only_cluster() -> str | None:
    from cluster_logs.errors import NotFoundError
    from lucid_models.releases.clusters import which_cluster

    try:
        return which_cluster(settings.tracking_uri(), None)
    except NotFoundError:
        return None


class TrainModelOperator(LucidOperator):
    """Train one of the three models on what was known before `training_until` and register a version.

    `options`: settings of this model by name, as `pipeline.model_training.train_model` has them. `models`:
    which ones this run trains (None: all); a model that is not among them is skipped.
    """

    template_fields: Sequence[str] = ("model", "models", "cluster", "lake_uri", "training_until", "options")
    operator_extra_links = (MlflowLink(),)

    def __init__(
        self,
        *,
        model: str,
        cluster: Any,
        lake_uri: Any,
        training_until: Any,
        options: Any = None,
        models: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=True, **kwargs)
        self.model = model
        self.models = models
        self.options = options
        self.cluster = cluster
        self.lake_uri = lake_uri
        self.training_until = training_until
        self.mlflow_path: str | None = None

    def run(self, context: Any) -> dict[str, Any]:
        """Train; returns the version with its scores."""
        from airflow.sdk.exceptions import AirflowSkipException

        from pipeline.model_training import train_model

        if self.models is not None and self.model not in self.models:
            raise AirflowSkipException(f"The {self.model} model is kept as it is.")

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
        for remark in report["remarks"]:
            self.log.warning("%s", remark)
        announce(context, {key: report[key] for key in ("name", "version", "digest")})
        return report
