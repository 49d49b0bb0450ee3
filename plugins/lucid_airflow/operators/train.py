"""What comes in from an event or the form, and a model version out."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import announce, announcements, take_first
from lucid_airflow.links import MlflowLink, model_version_path
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.declared_fields import Verbatim
from lucid_airflow.run_results import tell


class ResolveInputsOperator(LucidOperator, multiple_outputs=True, is_step=True):
    """Find out which release is to be judged: by the form, else by the event that started the run.

    `asset`: whose events count, one or several; of several releases the first, the rest is handed on. Where
    nothing says so, it is the challenger of the only cluster that has one, judged on the days that it was
    built to be judged on.

    Returns cluster, lake_uri, hold_out_days, as_of (ISO time or None: where the log is taken to end),
    training_until (ISO time: the held-out window begins there) and version, each as an XCom of its own.
    """

    asset: Verbatim[Any]
    cluster: Any = None
    lake_uri: Any = None
    hold_out_days: Any = None
    as_of: Any = None
    version: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Merge form and event; ask the release for what neither says."""
        from lucid_models.releases.clusters import which_cluster
        from pipeline.training.windows import read_as_of, training_window_end
        from pipeline.validation.held_out_days import held_out_of

        extras = take_first(context, announcements(context, self.asset), "cluster", "version")
        values = self.merge_values(extras[-1] if extras else {})
        tracking_uri, lake_uri = settings.tracking_uri(), values["lake_uri"]
        cluster = which_cluster(tracking_uri, values["cluster"])
        self.check_right(context, cluster)
        held_out = held_out_of(
            tracking_uri,
            cluster,
            int(values["version"]) if values["version"] else None,
            lake_uri,
            days=int(values["hold_out_days"]) if values["hold_out_days"] else None,
            as_of=read_as_of(values["as_of"]),
        )
        until = training_window_end(lake_uri, cluster, held_out.days, held_out.as_of)
        inputs = {
            "cluster": cluster,
            "lake_uri": lake_uri,
            "hold_out_days": held_out.days,
            "as_of": held_out.as_of.isoformat() if held_out.as_of else None,
            "training_until": until.isoformat(),
            "version": values["version"],
        }
        which = f"release {values['version']}" if values["version"] else "the challenger"
        tell(
            context,
            f"About {which} of {cluster}, with {held_out.days} days held out from {until:%Y-%m-%d %H:%M} on.",
            step=True,
        )
        return inputs

    def merge_values(self, announced: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the form says, else the event, else nothing; the lake is always there."""
        names = ("cluster", "lake_uri", "hold_out_days", "as_of", "version")
        stated = {name: value for name in names if (value := getattr(self, name)) not in (None, "")}
        values = {**dict.fromkeys(names), **announced, **stated}
        return {**values, "lake_uri": str(values["lake_uri"] or settings.lake_uri())}


class ResolveTrainingOperator(ResolveInputsOperator):
    """Find out what a retraining is about: a cluster, its log's days, and which models are trained.

    Of several clusters that were announced the first, the rest is handed on; a run by the clock is about
    every cluster that has a release. Where nothing says so, it is the only cluster of the lake, with as many
    days held out as its present release has.

    `models`: which to train (None: those that the events name; all of them unless every event names some).
    `wait_answers`: the form's word; a wait model that is asked for is trained if there is none to keep.
    `allow_simulated_profiles`: the form's or an event's word.
    What is not trained is kept: `kept` maps its name to the newest version for the cluster. A model that
    cannot be kept is trained as well, and the log says why. `reasons` maps those that are not trained to why.
    All three are XComs of their own.
    """

    models: Any = None
    wait_answers: Any = None
    allow_simulated_profiles: Any = False

    def run(self, context: Any) -> dict[str, Any]:
        """Merge form and events, and plan the training."""
        from pipeline.training.training_plan import plan_training
        from pipeline.training.windows import only_cluster, read_as_of
        from pipeline.validation.held_out_days import usual_held_out

        extras = take_first(context, self._announced(context), "cluster")
        announced: dict[str, Any] = {}
        for extra in extras:
            announced |= {name: value for name, value in extra.items() if value is not None}
        values = self.merge_values(announced)
        tracking_uri, lake_uri = settings.tracking_uri(), values["lake_uri"]
        cluster = str(values["cluster"] or only_cluster(lake_uri))
        self.check_right(context, cluster)
        as_of = read_as_of(values["as_of"])
        models = self.models or _models_of(extras)
        days = values["hold_out_days"]
        if not days and models is None:
            days = usual_held_out(tracking_uri, cluster, lake_uri)
        plan = plan_training(
            lake_uri=lake_uri,
            cluster=cluster,
            tracking_uri=tracking_uri,
            models=models,
            needed=["waits"] if self.wait_answers == "yes" else (),
            hold_out_days=int(days) if days else None,
            as_of=as_of,
        )
        for remark in plan.remarks:
            self.log.info("%s", remark)
        inputs = {
            "cluster": cluster,
            "lake_uri": lake_uri,
            "hold_out_days": plan.hold_out_days,
            "as_of": as_of.isoformat() if as_of else None,
            "training_until": plan.training_until.isoformat(),
            "models": list(plan.train),
            "kept": plan.kept,
            "reasons": dict(plan.reasons),
            "allow_simulated_profiles": bool(
                self.allow_simulated_profiles or announced.get("allow_simulated_profiles")
            ),
        }
        kept_models = f"; kept: {', '.join(plan.kept)}" if plan.kept else ""
        tell(
            context,
            f"Of {cluster}, models learn until {plan.training_until:%Y-%m-%d %H:%M}: "
            f"{', '.join(plan.train) or 'none'}{kept_models}.",
            step=True,
        )
        return inputs

    def _announced(self, context: Any) -> list[dict[str, Any]]:
        announced = announcements(context, self.asset)
        if announced or self.cluster or context["dag_run"].run_type != "scheduled":
            return announced
        from lucid_models.registry import Registry
        from lucid_models.releases.clusters import release_clusters

        return [{"cluster": cluster} for cluster in release_clusters(Registry(settings.tracking_uri()))]


def _models_of(extras: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """Which models events ask for; None (all) when there is no event, or one that names none."""
    if not extras or not all(extra.get("models") for extra in extras):
        return None
    return sorted({str(model) for extra in extras for model in extra["models"]})


class TrainModelOperator(LucidOperator, multiple_outputs=True):
    """Train one of the models on what was known before `training_until` and register a version.

    `options`: settings of this model by name, as `train_model` has them. `models`:
    which ones this run trains (None: all); a model that is not among them is skipped, for the reason that
    `reasons` gives by its name, and so is one that a release may do without and that has too little to learn
    from.
    """

    operator_extra_links = (MlflowLink(),)

    model: str
    models: Any = None
    reasons: Any = None
    cluster: Any
    lake_uri: Any
    training_until: Any
    options: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Train; returns the version with its scores."""
        from lucid_models.training_data import TooLittleDataError
        from pipeline.training.model_training import train_model

        if self.models is not None and self.model not in self.models:
            default_reason = f"The {self.model} model is kept as it is."
            raise AirflowSkipException((self.reasons or {}).get(self.model, default_reason))

        try:
            report = train_model(
                model=self.model,
                cluster=self.cluster,
                lake_uri=self.lake_uri,
                training_until=self.training_until,
                tracking_uri=settings.tracking_uri(),
                options=self.options,
                progress=self.log_progress(),
            )
        except TooLittleDataError as error:
            raise AirflowSkipException(f"The {self.model} model is left out: {error}") from error
        self.mlflow_path = model_version_path(report["name"], report["version"])
        for remark in report["remarks"]:
            self.log.warning("%s", remark)
        announce(context, {key: report[key] for key in ("name", "version", "digest")})
        sentence, bars = _beside_rivals(self.model, report)
        tell(context, f"Version {report['version']} of {self.cluster}'s {sentence}", bars=bars, step=True)
        return report


def _beside_rivals(
    model: str, report: Mapping[str, Any]
) -> tuple[str, tuple[str, Mapping[str, float]] | None]:
    """What a model scored beside its naive rivals, by the first measure that they share."""
    from lucid_models.explanation.model_card import measures_of_rivals

    rivals = report["baselines"]
    measure = next(iter(measures_of_rivals(report["metrics"], rivals)), None)
    if measure is None:
        return f"{model} model is registered.", None
    scores = {"this model": float(report["metrics"][measure])}
    scores |= {rival: float(values[measure]) for rival, values in rivals.items() if measure in values}
    words = ", ".join(f"{name} {value:.3g}" for name, value in scores.items())
    return f"{model} model is registered; {measure}: {words}.", (measure, scores)
