"""Writes a model card: what a model was trained on, how good it is beside rivals, how to read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import BadInputError
from foundation.markdown import NO_VALUE, markdown_table, markdown_text
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.duration.level_record import level_table

_LIMITS: Mapping[str, tuple[str, ...]] = {
    "packing": (
        "It knows the configurations that were measured in pairs; an unlike one gets the score of its leaf.",
        "Speeds were measured for two jobs on one GPU of one model; other GPUs need their own measurements.",
        "Configurations that were measured in no pair have no label and teach nothing.",
        (
            "Its metrics are of configurations and models that training did not see. The published 94.1 % "
            "are not: the authors' script leaves what a label is cut from among the features "
            "(docs/decisions/0008-pairwise-packing.md)."
        ),
    ),
    "throughput": (
        "A burst that neither the last hours nor the daily and weekly pattern announce is not forecast.",
        "A few very large jobs dominate single bins of GPU demand: judge by mean absolute error, not R2.",
    ),
    "duration": (
        "A job that is unlike all finished ones is answered by coarser statistics, and its reason says so.",
        "P50 and P90 are calibrated on held-out jobs of the training window; a new workload shifts them.",
        "Jobs still running when training ends are not learned from: the last days lean to short jobs.",
    ),
    "utilisation": (
        (
            "A graph does not say how a job is fed: one that waits for its data, its environment or the "
            "network is predicted busier than it is."
        ),
        "Its numbers belong to the device that was profiled, and to one GPU of a job.",
        "Figures are careful: most jobs ask for less. The range says between what unseen models lay.",
        "A graph unlike the profiled ones is answered all the same; the prediction says so.",
    ),
    "node_demand": (
        (
            "A surge that neither the last hours nor the pattern of the days announces is not forecast: a "
            "fixed buffer of idle nodes stays awake beside it, and its curve belongs beside every figure."
        ),
        "Quantiles of the highest bin hold on average over days like the training days, not on each day.",
        "Bins that telemetry did not count are held; the forecast takes what is held for the truth.",
    ),
    "inference_load": (
        "A jump that the last ten bins do not announce is not forecast: headroom is for those.",
        (
            "Quantiles are right on average over a day or so, by learning from their misses: just after a "
            "change in how the load swings they are not."
        ),
        "A bin that was not measured is held; the forecast takes what is held for the truth.",
    ),
    "waits": (
        "It knows the queue that it is shown: reservations and limits that no snapshot tells are missed.",
        "Jobs alike start together: whether their hour is today or tomorrow is most of what is missed.",
        (
            "After a change of policy P50 and P90 lag by some moments; bounds of a partition that begins to "
            "wait for weeks are too low at first."
        ),
    ),
}
_READING: Mapping[str, tuple[str, ...]] = {
    "packing": (
        "Follow the tree from its root: each box asks one metric, and the leaf gives the score",
        "with the share of the measured configurations in it that have this score.",
        "Gini importance is a metric's share of the tree's total gain.",
        "The kind pairwise also predicts the speeds of two given jobs: an intercept plus one score a feature",
        "of the pair, read off that feature's shape function.",
    ),
    "throughput": (
        "A forecast is the present level times the sum of an intercept and one score per feature, read off",
        "that feature's shape function, blended with the median of the last twelve bins and the newest one",
        "as far as a time-ordered validation found them better (the shares are below *Limits*).",
        "Importance is the mean absolute score over the training bins.",
        "`lucid explain --model throughput` says in words why the next bin is forecast as it is.",
    ),
    "duration": (
        "The logarithm of the estimate is the intercept plus one score per feature, so scores multiply",
        "run time: +0.69 doubles it, -0.69 halves it.",
        "Importance is the mean absolute score over the training jobs.",
        "A reason starts from what jobs like it usually run and says how much time each part adds or takes",
        "off; the amounts add up (`lucid explain --model duration --job ID`, docs/explanations.md).",
    ),
    "utilisation": (
        "A step's time on the device and on the host are two sums with few terms; utilisation follows from",
        "their ratio. An account begins with what launching kernels alone keeps the GPU busy and adds, in",
        "points, arithmetic, moving activations, mixed precision, and the margin for care; they add up.",
        "Importance is the mean absolute number of points over the training rows.",
    ),
    "node_demand": (
        "A forecast is the nodes that are busy now plus one number of nodes per feature, read off that",
        "feature's shape function. Importance is the mean absolute number of nodes over the training bins.",
        "Quantiles of the highest bin add an offset that was calibrated on weeks that were left out.",
        "`lucid explain --model node_demand` says in words why the next hours are forecast as they are.",
    ),
    "inference_load": (
        "A forecast is the usage of the newest bin, plus a share of the sum of one number a feature, read",
        "off that feature's shape function, plus a share of the way to an exponentially weighted mean. The",
        "member that erred least in a rolling validation says which shares (explanation/global.json).",
        "Importance is the mean absolute change over the training bins, before the share.",
        "`lucid explain --model inference_load` says in words why the next bin is forecast as it is.",
    ),
    "waits": (
        "The logarithm (base 10) of the wait is the intercept plus one score per feature, so scores multiply",
        "the wait: +0.3 doubles it, -0.3 halves it; P50 and P90 add an offset each, P90 by partition.",
        "Amounts among the features that are not shown as times are powers of ten too.",
        "Importance is the mean absolute score over the training rows.",
    ),
}

_IN_WORDS: Mapping[str, str] = {
    "loo_accuracy": "share of right scores, one configuration left out",
    "jobs_mae": "mean absolute error (jobs a bin)",
    "mae_log10": "mean absolute error (powers of ten of the run time)",
    "gpu_util_pct_mae": "mean absolute error (points of GPU utilisation)",
    "near_mean_mae": "mean absolute error (nodes)",
    "mse": "mean squared error of the share in use",
    "mse_log10": "mean squared error (powers of ten of the wait)",
}
_LEVELS = (
    "Found in the training window, on its newest jobs, and searched for again at every training: which facts",
    "of a job, and which of their combinations, tell how long it runs. Each row is what one more level",
    "brings on later jobs, by a simple prediction from the statistics of its keys.",
)


@dataclass(frozen=True)
class CardFacts:
    """What a card says. `metrics` and `baselines` are measured on the test window, baselines by the rival's
    name. `monotone` names the features held to a direction; `unconstrained` are the metrics before that.
    `levels`: what the run-time statistics tell jobs apart by (`duration.level_record`).
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
        table = level_table(facts.levels)
        lines += ["", "## What tells run times apart", "", *_LEVELS, "", table]
    lines += ["", "## Limits", ""]
    lines += [f"- {text}" for text in (*_LIMITS[facts.kind], *facts.notes)]
    lines += ["", "## How to read its explanation", "", *_READING[facts.kind], ""]
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
    quality = f"{_IN_WORDS.get(measure, measure.replace('_', ' '))}: **{facts.metrics[measure]:.3g}**"
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
