"""Steps that find out what is trained, or judged, and that train a model."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foundation.site import Site
from foundation.steps import Done, NothingToDo, StepRun
from lucid_models.explanation.model_card import measures_of_rivals
from lucid_models.registry import Registry
from lucid_models.releases.clusters import release_clusters, which_cluster
from lucid_models.training_data import TooLittleDataError
from pipeline.release.part_settings import wanted_kinds
from pipeline.training import model_training, training_plan
from pipeline.training.windows import only_cluster, read_as_of, training_window_end
from pipeline.validation import held_out_days as held_out

_log = logging.getLogger(__name__)


def resolve_judged(
    *,
    run: StepRun,
    site: Site,
    hold_out_days: int | None = None,
    as_of: str | None = None,
    version: int | None = None,
) -> Done:
    """Find out which release is to be judged: by the form, else by what started the run.

    Of several that were announced the first, the rest is handed on. Where nothing says so, it is the
    challenger of the only cluster that has one, judged on the days that it was built to be judged on.

    Returns cluster, lake_uri, hold_out_days, as_of (ISO time or None: where the log is taken to end),
    training_until (ISO time: the held-out window begins there) and version.
    """
    extras = run.take_first(run.announced(), "cluster", "version")
    stated = {"cluster": site.cluster, "hold_out_days": hold_out_days, "as_of": as_of, "version": version}
    values = _merged(extras[-1] if extras else {}, stated, site.lake)
    site = replace(site, lake=values["lake_uri"], cluster=which_cluster(site.registry, values["cluster"]))
    run.check_right(site.cluster)
    judged = held_out.held_out_of(
        site,
        int(values["version"]) if values["version"] else None,
        days=int(values["hold_out_days"]) if values["hold_out_days"] else None,
        as_of=read_as_of(values["as_of"]),
    )
    until = training_window_end(site, judged.days, judged.as_of)
    inputs = {
        "cluster": site.cluster,
        "lake_uri": site.lake,
        "hold_out_days": judged.days,
        "as_of": judged.as_of.isoformat() if judged.as_of else None,
        "training_until": until.isoformat(),
        "version": values["version"],
    }
    which = f"release {values['version']}" if values["version"] else "the challenger"
    days = f"{judged.days} days held out from {until:%Y-%m-%d %H:%M} on"
    return Done(inputs, f"About {which} of {site.cluster}, with {days}.", on_the_way=True)


def resolve_training(
    *,
    run: StepRun,
    site: Site,
    hold_out_days: int | None = None,
    as_of: str | None = None,
    models: Sequence[str] | None = None,
    asked_of_parts: Mapping[str, Any] | None = None,
    allow_simulated_profiles: bool = False,
) -> Done:
    """Find out what a retraining is about: a cluster, its log's days, and which models are trained.

    Of several clusters that were announced the first, the rest is handed on; a run by the clock is about
    every cluster that has a release. Where nothing says so, it is the only cluster of the lake, with as many
    days held out as its present release has.

    `models`: which to train (None: those that were announced; all of them unless every announcement names
    some). `asked_of_parts`: what the form says of parts of the release, by its fields; a model that is asked
    for is trained if there is none to keep. `allow_simulated_profiles`: the form's or an announcement's word.
    What is not trained is kept: `kept` maps its name to the newest version for the cluster. A model that
    cannot be kept is trained as well, and the log says why. `reasons` maps those that are not trained to why.
    """
    told = run.announced()
    if not told and not site.cluster and run.by_clock:
        told = [{"cluster": name} for name in release_clusters(Registry(site.registry))]
    extras = run.take_first(told, "cluster")
    announced: dict[str, Any] = {}
    for extra in extras:
        announced |= {name: value for name, value in extra.items() if value is not None}
    stated = {"cluster": site.cluster, "hold_out_days": hold_out_days, "as_of": as_of}
    values = _merged(announced, stated, site.lake)
    site = replace(site, lake=values["lake_uri"])
    site = site.of(values["cluster"] or only_cluster(site.lake))
    run.check_right(site.cluster)
    until = read_as_of(values["as_of"])
    wanted = models or _models_of(extras)
    days = values["hold_out_days"]
    if not days and wanted is None:
        days = held_out.usual_held_out(site)
    plan = training_plan.plan_training(
        site,
        models=wanted,
        needed=wanted_kinds(asked_of_parts or {}),
        hold_out_days=int(days) if days else None,
        as_of=until,
    )
    for remark in plan.remarks:
        _log.info("%s", remark)
    inputs = {
        "cluster": site.cluster,
        "lake_uri": site.lake,
        "hold_out_days": plan.hold_out_days,
        "as_of": until.isoformat() if until else None,
        "training_until": plan.training_until.isoformat(),
        "models": list(plan.train),
        "kept": plan.kept,
        "reasons": dict(plan.reasons),
        "allow_simulated_profiles": bool(
            allow_simulated_profiles or announced.get("allow_simulated_profiles")
        ),
    }
    kept_models = f"; kept: {', '.join(plan.kept)}" if plan.kept else ""
    sentence = (
        f"Of {site.cluster}, models learn until {plan.training_until:%Y-%m-%d %H:%M}: "
        f"{', '.join(plan.train) or 'none'}{kept_models}."
    )
    return Done(inputs, sentence, on_the_way=True)


def train_model(
    *,
    site: Site,
    model: str,
    training_until: str,
    models: Collection[str] | None = None,
    reasons: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Done:
    """Train one of the models on what was known before `training_until` and register a version.

    `options`: settings of this model by name, as `train_model` has them. `models`: which ones this run trains
    (None: all); of one that is not among them there is nothing to do, for the reason that `reasons` gives by
    its name, nor of one that a release may do without and that has too little to learn from. Returns the
    version with its scores.
    """
    if models is not None and model not in models:
        raise NothingToDo((reasons or {}).get(model, f"The {model} model is kept as it is."))
    try:
        report = model_training.train_model(site, model=model, training_until=training_until, options=options)
    except TooLittleDataError as error:
        raise NothingToDo(f"The {model} model is left out: {error}") from error
    for remark in report["remarks"]:
        _log.warning("%s", remark)
    sentence, bars = _beside_rivals(model, report)
    return Done(
        report,
        f"Version {report['version']} of {site.cluster}'s {sentence}",
        bars=bars,
        mlflow_path=f"models/{report['name']}/versions/{report['version']}",
        announced={key: report[key] for key in ("name", "version", "digest")},
        on_the_way=True,
    )


def _merged(announced: Mapping[str, Any], stated: Mapping[str, Any], lake_uri: str) -> dict[str, Any]:
    """Return what the form states, else what was announced, else nothing; the lake is always there."""
    form = {name: value for name, value in stated.items() if value not in (None, "")}
    values = {**dict.fromkeys(("version", *stated)), **announced, **form}
    return {**values, "lake_uri": str(values.get("lake_uri") or lake_uri)}


def _models_of(extras: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """Which models were asked for; None (all) when nothing was announced, or something that names none."""
    if not extras or not all(extra.get("models") for extra in extras):
        return None
    return sorted({str(model) for extra in extras for model in extra["models"]})


def _beside_rivals(
    model: str, report: Mapping[str, Any]
) -> tuple[str, tuple[str, Mapping[str, float]] | None]:
    """What a model scored beside its naive rivals, by the first measure that they share."""
    rivals = report["baselines"]
    measure = next(iter(measures_of_rivals(report["metrics"], rivals)), None)
    if measure is None:
        return f"{model} model is registered.", None
    scores = {"this model": float(report["metrics"][measure])}
    scores |= {rival: float(values[measure]) for rival, values in rivals.items() if measure in values}
    words = ", ".join(f"{name} {value:.3g}" for name, value in scores.items())
    return f"{model} model is registered; {measure}: {words}.", (measure, scores)
