"""`lucid explain`: why a model answers as it does, in words, tables and pictures."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.options import LakeOption, TrackingOption, lake_or_default, tracking_or_default
from lucid_cli.output import JsonFlag, print_lines, print_table, show, to_jsonable

if TYPE_CHECKING:
    from pipeline.training.explanations import ExplainedPrediction, RegisteredModel

MOST_FEATURES = 10


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("explain")(explain)


def explain(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="KIND",
            help="A kind of model, such as duration; an unknown one is answered with all there are.",
        ),
    ],
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Of the model in MLflow; default: the release's.")
    ] = None,
    release: Annotated[str, typer.Option("--release", metavar="ALIAS", help="Whose model.")] = "champion",
    job: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="ID", help="Explain this job of the lake; repeatable."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", help="Whose release; whose jobs, or whose next bin, to explain."
        ),
    ] = None,
    lake: LakeOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Draw the pictures here.")] = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say why a model answers as it does: the whole model, or single predictions of it."""
    from pipeline.training.explanations import (
        draw_model,
        explain_model,
        explain_predictions,
        load_registered_model,
    )

    if job and cluster is None:
        raise BadInputError("Jobs are looked up in a cluster's lake.", remedy="Name it with --cluster.")
    site = Site(lake_or_default(lake), tracking_or_default(tracking_uri), cluster or "")
    registered = load_registered_model(
        site,
        kind=model,
        version=version,
        release=release,
    )
    predictions = []
    if cluster is not None:
        predictions = explain_predictions(site, registered, job_ids=job or ())
    figures = [str(path) for path in draw_model(registered, predictions, out)] if out else []
    explained = explain_model(registered)
    document = {
        "model": registered.kind,
        "name": registered.name,
        "version": registered.version,
        "global": explained,
        "predictions": to_jsonable(predictions),
        "figures": figures,
    }
    show(document, as_json=as_json, people=lambda: _print(registered, explained, predictions, figures))


def _print(
    model: "RegisteredModel",
    explained: Mapping[str, Mapping[str, Any]],
    predictions: "list[ExplainedPrediction]",
    figures: list[str],
) -> None:
    from lucid_models.explanation.axes import feature_words

    title = f"{model.name} version {model.version}"
    for prediction in predictions:
        known_at = (
            "" if prediction.known_at is None else f", as known at {prediction.known_at:%Y-%m-%d %H:%M} UTC"
        )
        print_lines([f"{title}: {prediction.of}{known_at}", prediction.local.get("reason", "")])
        for heading, rows in prediction_tables(prediction.local):
            print_lines([heading])
            print_table(rows)
    if not predictions:
        for part, one in explained.items():
            ranked = list(one["importances"].items())[:MOST_FEATURES]
            rows = [{"feature": feature_words(name), "importance": value} for name, value in ranked]
            of = f"{title}, {part}" if part else title
            print_lines([f"{of}: what it looks at ({one['unit']})"])
            print_table(rows)
            if one.get("levels"):
                print_lines([f"{of}: what tells run times apart, found in the training window"])
                print_table(one["levels"])
            if one.get("pairs"):
                print_lines([one["pairs"]])
    if figures:
        print_lines([f"Pictures: {len(figures)} files, the first {figures[0]}"])


def prediction_tables(local: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """(title, rows) of what one prediction is made of: its account, its features or its decisions."""
    from foundation.human_times import time_unit
    from lucid_models.explanation.axes import feature_axis, feature_words

    tables: list[tuple[str, list[dict[str, Any]]]] = []
    account = local.get("account", {})
    if account.get("history"):
        usual_s, estimate_s = account["history"]["usual_s"], account["estimate_s"]
        unit_s, unit = time_unit(max(usual_s, estimate_s))
        amount = f"adds ({unit})"
        subject = f"{account['history']['subject']}, usually"
        rows = [{"part": subject, "multiplies by": "", amount: f"{usual_s / unit_s:.3g}"}]
        rows += [
            {
                "part": part["subject"],
                "multiplies by": f"{math.exp(part['effect']):.3f}",
                amount: f"{part['seconds'] / unit_s:+.2g}",
            }
            for part in sorted(account["parts"], key=lambda part: -abs(part["seconds"]))
        ]
        rows.append({"part": "estimate", "multiplies by": "", amount: f"{estimate_s / unit_s:.3g}"})
        tables.append(("The estimate as an account", rows))
    if "terms" in local:
        factors = local.get("score_unit") == "log seconds"
        column = "multiplies by" if factors else "adds"
        rows = []
        for term in local["terms"][:MOST_FEATURES]:
            axes = [feature_axis(name) for name in term["term"].split(" x ")]
            values = [
                "unknown" if value is None else axis.text(axis.value(value))
                for axis, value in zip(axes, term["values"], strict=True)
            ]
            score = term["contribution"]
            shown = f"{math.exp(score):.3f}" if factors else f"{score:+.3g}"
            rows.append({"feature": feature_words(term["term"]), "value": ", ".join(values), column: shown})
        tables.append(("The features that move it most, against the average", rows))
    if "decisions" in local:
        rows = []
        for step in local["decisions"]:
            axis = feature_axis(step["feature"])
            value = "unknown" if step["value"] is None else axis.text(axis.value(step["value"]))
            limit = axis.text(axis.value(step["threshold"]))
            rows.append(
                {
                    "asked": axis.label,
                    "value": value,
                    "answer": f"{'at most' if step['at_most'] else 'above'} {limit}",
                }
            )
        tables.append(("The way through the tree", rows))
    return tables
