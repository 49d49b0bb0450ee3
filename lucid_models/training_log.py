"""What is left of a training run in MLflow: metrics, data, card, explanation, and a registered version."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from foundation.process_lock import scratch_folder
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.explanation.model_card import CardFacts, build_model_card, summarise_card
from lucid_models.explanation.plots import draw_explanations
from lucid_models.model_format import save_model
from lucid_models.registry import Registry
from lucid_models.releases.building import model_name
from lucid_models.tracking_run import LoggedDataset
from lucid_models.training_data import TrainingTable

TRAINING_EXPERIMENT = "lucid-training"

Metrics = dict[str, float]


@dataclass(frozen=True)
class TrainReport:
    """What was trained: `digest` is the SHA-256 of the model's file; `baselines` are metrics by rival;
    `remarks` say what of the data was not learned from.
    """

    model: str
    name: str
    version: int
    run_id: str
    digest: str
    metrics: Metrics
    baselines: Mapping[str, Metrics]
    reused: bool
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class TrainedModel:
    """A fitted model with everything that is logged of it."""

    kind: str
    document: Mapping[str, Any]
    dataset: LoggedDataset
    params: Mapping[str, Any]
    metrics: Metrics
    baselines: Mapping[str, Metrics]
    card: CardFacts
    example: pd.DataFrame
    explained: Mapping[str, Mapping[str, Any]]
    local: Mapping[str, Any] | None
    tags: Mapping[str, str]


def register_model(trained: TrainedModel, tracking_uri: str, seed: int) -> TrainReport:
    """Log a run and register its model as a version, unless the same file of the same data is one already.

    Raises ServiceUnavailableError when MLflow does not answer.
    """
    registry = Registry(tracking_uri)
    name = model_name(trained.kind, trained.tags.get("cluster"))
    card = build_model_card(trained.card)
    with scratch_folder("model") as folder_name:
        folder = Path(folder_name)
        file = folder / f"{trained.kind}.json"
        digest = save_model(trained.document, file)
        identity = {"digest": digest, "dataset_digest": trained.dataset.digest, **trained.tags}
        entry = load_catalogue_entry(trained.kind)
        registry.ensure_model(name, f"{entry.title}: predicts {entry.predicts}.")
        # `training_from` and `_until` are part of the identity: they bound what a gate may replay.
        same_version = next(
            (
                version.version
                for version in registry.versions(name)
                if all(version.tags.get(key) == value for key, value in identity.items())
            ),
            None,
        )
        run_tags = {**identity, "model": trained.kind, "seed": str(seed)}
        run_name = " ".join(filter(None, (trained.tags.get("cluster"), trained.kind)))
        with registry.run(TRAINING_EXPERIMENT, run_name, run_tags) as run:
            run.log_params({**_flat(trained.params), "seed": seed})
            run.log_metrics(
                trained.metrics
                | {
                    f"baseline/{rival}/{metric}": value
                    for rival, values in trained.baselines.items()
                    for metric, value in values.items()
                }
            )
            run.log_training_data(trained.dataset)
            run.log_folder(_write_artifacts(folder / "artifacts", trained, card))
            if same_version is None:
                uri, model_id = run.log_scorer(name, trained.kind, file, trained.example)
                version = registry.create_version(
                    name,
                    uri,
                    run.run_id,
                    {**identity, "seed": str(seed)},
                    description=summarise_card(
                        trained.card, run.ui_path(), cluster=trained.tags.get("cluster")
                    ),
                    model_id=model_id,
                )
            else:
                version = same_version
                run.set_tag("reused_version", str(same_version))
            run.set_tag("model_version", str(version))
            run.rename(f"{run_name} version {version}{'' if same_version is None else ', trained again'}")
    return TrainReport(
        trained.kind,
        name,
        version,
        run.run_id,
        digest,
        dict(trained.metrics),
        {rival: dict(values) for rival, values in trained.baselines.items()},
        same_version is not None,
        list(trained.card.notes),
    )


def measures_by_model(
    rows: Iterable[Mapping[str, Any]], ours: str, aside: Collection[str]
) -> tuple[Metrics, dict[str, Metrics]]:
    """Of an evaluation's rows our model's measures and its rivals', by name; columns `aside` are none."""
    by_model: dict[str, Metrics] = {ours: {}}
    for row in rows:
        measures = {
            name: float(value) for name, value in row.items() if name not in aside and value is not None
        }
        by_model.setdefault(str(row["model"]), {}).update(measures)
    return by_model.pop(ours), by_model


def log_card(
    kind: str,
    data: TrainingTable,
    metrics: Metrics,
    baselines: Mapping[str, Metrics],
    rows: Mapping[str, int],
) -> CardFacts:
    """The facts of a card of a model that learned from a cluster's log; `rows` by what they are."""
    return CardFacts(
        kind=kind,
        data=f"{data.dataset.source} (SHA-256 {data.dataset.digest})",
        training_window=_window(data.start, data.until),
        test_window=_window(data.tail_start, data.until),
        split="by time: measured by a fit on what came before the test window, then fitted on all of it",
        metrics=metrics,
        baselines=baselines,
        rows=rows,
        synthetic=data.synthetic,
        notes=data.remarks,
    )


def _window(start: datetime, end: datetime) -> str:
    return f"{start.astimezone(UTC):%Y-%m-%d %H:%M} to {end.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def log_tags(data: TrainingTable, cluster: str) -> dict[str, str]:
    """The tags of a version that learned from a cluster's log."""
    return {
        "cluster": cluster,
        "training_until": data.until.isoformat(),
        "training_from": data.start.isoformat(),
        "synthetic_logs": str(data.synthetic).lower(),
    }


def _write_artifacts(folder: Path, trained: TrainedModel, card: str) -> Path:
    explanation = folder / "explanation"
    explanation.mkdir(parents=True)
    (folder / "model_card.md").write_text(card, encoding="utf-8")
    for name, explained in trained.explained.items():
        place = explanation / name if name else explanation
        # One local explanation belongs to the first model.
        first = name == next(iter(trained.explained))
        draw_explanations(explained, place, local=trained.local if first else None)
        (place / "global.json").write_text(json.dumps(explained, allow_nan=False), encoding="utf-8")
    if trained.local is not None:
        (explanation / "local.json").write_text(json.dumps(trained.local, allow_nan=False), encoding="utf-8")
    return folder


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
