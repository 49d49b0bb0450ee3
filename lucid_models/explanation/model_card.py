"""Writes a model card: what a model was trained on, how good it is beside rivals, how to read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import BadInputError
from foundation.markdown import NO_VALUE, markdown_table, markdown_text
from lucid_models.catalogue import load_catalogue_entry

_LEVELS = (
    "Found in the training window, on its newest jobs, and searched for again at every training: which facts",
    "of a job, and which of their combinations, predict how long it runs. Each row is what one more level",
    "brings on later jobs, by a simple prediction from the statistics of its keys.",
)


@dataclass(frozen=True)
class CardFacts:
    """What a card says. `metrics` and `baselines` are measured on the test window, baselines by the rival's
    name. `monotone` names the features held to a direction; `unconstrained` are the metrics before that.
    `levels`: what the run-time statistics distinguish jobs by (`duration.levels.level_rows`).
    """

    kind: str
    data: str
    training_window: str
    test_window: str
    split: str
    metrics: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    rows: Mapping[str, int] = field(default_factory=dict)
    simulated: bool = False
    synthetic: bool = False
    notes: Sequence[str] = ()
    monotone: Mapping[str, str] = field(default_factory=dict)
    unconstrained: Mapping[str, float] = field(default_factory=dict)
    levels: Sequence[Mapping[str, Any]] = ()


def build_model_card(facts: CardFacts) -> str:
    """The card as Markdown; raises UnknownNameError for an unknown kind and BadInputError without metrics."""
    entry = load_catalogue_entry(facts.kind)
    if not facts.metrics:
        raise BadInputError("A model card needs the model's metrics.", remedy="Evaluate the model first.")
    lines = [
        f"# {entry.title}",
        "",
        f"Predicts {entry.predicts}.",
        "",
        "## Data",
        "",
        f"- Source: {facts.data}",
        f"- Training window: {facts.training_window}",
        f"- Test window: {facts.test_window}",
        f"- Split: {facts.split}",
        *(f"- {name.replace('_', ' ')}: {count}" for name, count in facts.rows.items()),
    ]
    lines += _not_of_a_cluster(facts)
    lines += ["", "## Quality on the test window", ""]
    lines += _table({"**this model**": facts.metrics, **facts.baselines})
    if facts.monotone:
        held = ", ".join(f"{feature} ({direction})" for feature, direction in facts.monotone.items())
        before = {name: value for name, value in facts.unconstrained.items() if name in facts.metrics}
        lines += ["", "## Monotone constraints", "", f"Shape functions held to a direction: {held}.", ""]
        if before:
            lines += _table(
                {"before": before, "with the constraint": {name: facts.metrics[name] for name in before}}
            )
    if facts.levels:
        table = _level_table(facts.levels)
        lines += ["", "## What tells run times apart", "", *_LEVELS, "", table]
    lines += ["", "## Limits", ""]
    lines += [f"- {text}" for text in (*entry.limits, *facts.notes)]
    lines += ["", "## How to read its explanation", "", *entry.reading, ""]
    return "\n".join(lines)


def summarise_card(facts: CardFacts, run_page: str, *, cluster: str | None = None) -> str:
    """The card in a few lines of Markdown: what is predicted, learned from when, how well beside the naive
    baselines; `run_page`: of the run that holds the whole card, below MLflow's address.
    """
    entry = load_catalogue_entry(facts.kind)
    rows = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in facts.rows.items())
    measure = _main_measure(facts, entry.lower_is_better)
    beside = ", ".join(
        f"{markdown_text(rival.replace('_', ' '))} {values[measure]:.3g}"
        for rival, values in facts.baselines.items()
        if measure in values
    )
    quality = f"{entry.measures.get(measure, measure.replace('_', ' '))}: **{facts.metrics[measure]:.3g}**"
    lines = [
        f"- learned from: {facts.training_window}{f' ({rows})' if rows else ''}",
        f"- tested on: {facts.test_window}",
        f"- {quality}{f'; naive baselines: {beside}' if beside else ''}",
    ]
    lines += _not_of_a_cluster(facts)
    lines += [f"- {markdown_text(note)}" for note in facts.notes]
    if cluster is not None:
        lines.insert(0, f"- cluster: {markdown_text(cluster)}")
    end = f"[Its training run](#/{run_page}) explains it in pictures and has the whole card, model\\_card.md."
    return "\n\n".join([f"**{entry.title}**: predicts {entry.predicts}.", "\n".join(lines), end])


def measures_of_rivals(
    metrics: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """The measures of a model that a naive rival has as well, in the model's order."""
    return [name for name in metrics if any(name in values for values in baselines.values())]


def _not_of_a_cluster(facts: CardFacts) -> list[str]:
    lines = []
    if facts.simulated:
        lines.append("- **The profiles were measured on a simulated device, not on a GPU.**")
    if facts.synthetic:
        lines.append("- **The log is synthetic; no real cluster wrote it.**")
    return lines


def _main_measure(facts: CardFacts, preferred: str) -> str:
    """The metric to judge the model by: the catalogue's, else the first that a rival has as well."""
    candidates = measures_of_rivals(facts.metrics, facts.baselines) or list(facts.metrics)
    return next((name for name in candidates if name.endswith(preferred)), candidates[0])


def _table(rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Metrics by row as Markdown; the columns are all metrics that occur."""
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    cells = [
        [label, *(f"{values[name]:.4g}" if name in values else NO_VALUE for name in names)]
        for label, values in rows.items()
    ]
    return [markdown_table(["model", *names], cells)]


def _level_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of `level_rows` as a Markdown table."""
    cells = [
        (row["jobs_alike_in"], f"{row['keys']:,}", _error(row["mae_log10"]), _error(row["gain"]))
        for row in rows
    ]
    return markdown_table(("jobs alike in", "keys", "MAE of log10", "gain"), cells)


def _error(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.4f}"
