"""The models that a release pins, each with its main figures beside the best naive rival's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.errors import LucidError
from lucid_models.catalogue import MainFigure, load_catalogue_entry
from lucid_models.registry import Registry

_RIVAL = "baseline/"  # what training_log.py calls a rival's metric: baseline/RIVAL/METRIC


@dataclass(frozen=True)
class ModelFigure:
    """A figure on days that training did not see; `rival` did best of the naive ones that have it."""

    what: str
    unit: str
    value: float
    rival: str | None = None
    rival_value: float | None = None
    better: bool | None = None


@dataclass(frozen=True)
class PinnedModel:
    """A model of a release; `problem`: why its figures could not be read."""

    kind: str
    title: str
    predicts: str
    name: str
    version: int
    digest: str
    figures: Sequence[ModelFigure]
    problem: str | None = None


def read_pinned_models(registry: Registry, pins: Mapping[str, Mapping[str, Any]]) -> list[PinnedModel]:
    """Read what training measured of each pinned model ({kind: name, version, digest})."""
    return [_read(registry, kind, pin) for kind, pin in pins.items()]


def _read(registry: Registry, kind: str, pin: Mapping[str, Any]) -> PinnedModel:
    figures: list[ModelFigure] = []
    problem = None
    try:
        trained = registry.version(pin["name"], int(pin["version"]))
        figures = main_figures(kind, registry.run_metrics(trained.run_id))
    except LucidError as error:
        problem = str(error)
    entry = load_catalogue_entry(kind)
    return PinnedModel(
        kind=kind,
        title=entry.title,
        predicts=entry.predicts,
        name=str(pin["name"]),
        version=int(pin["version"]),
        digest=str(pin["digest"]),
        figures=figures,
        problem=problem,
    )


def main_figures(kind: str, metrics: Mapping[str, float]) -> list[ModelFigure]:
    """Return the main ones of a training run's metrics, in people's units; those it has not are left out."""
    return [
        _beside_rivals(figure, metrics)
        for figure in load_catalogue_entry(kind).figures
        if math.isfinite(metrics.get(figure.metric, math.nan))
    ]


def _beside_rivals(figure: MainFigure, metrics: Mapping[str, float]) -> ModelFigure:
    own = metrics[figure.metric]
    rivals = {
        name.split("/")[1]: value
        for name, value in sorted(metrics.items())
        if name.startswith(_RIVAL) and name.endswith(f"/{figure.metric}") and math.isfinite(value)
    }
    if not rivals:
        return ModelFigure(figure.what, figure.unit, figure.shown(own))
    best = (min if figure.lower_is_better else max)(rivals, key=lambda name: rivals[name])
    better = own < rivals[best] if figure.lower_is_better else own > rivals[best]
    return ModelFigure(
        what=figure.what,
        unit=figure.unit,
        value=figure.shown(own),
        rival=best.replace("_", " "),
        rival_value=figure.shown(rivals[best]),
        better=better,
    )
