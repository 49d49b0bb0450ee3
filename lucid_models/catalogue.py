"""The kinds of models there are: those of every release, and those that installed parts bring.

What learns, scores and serves stands at places (MODULE:NAME) that are imported when they are asked for, so
that a scheduler, which has NumPy and the standard library, reads the catalogue too. A model that is listed
here must pass the conformance test; one that is not does not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from foundation.errors import UnknownNameError
from foundation.parts import at_place, lacking, offered


class LucidModel(Protocol):
    """What every model offers besides its own fit and predict."""

    kind: str

    def explain_global(self) -> dict[str, Any]:
        """Importances and shapes of the whole model."""

    def to_data(self) -> dict[str, Any]:
        """The saved form."""

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> Self:
        """Read the saved form."""


class FeatureWords(NamedTuple):
    """How features read: a pattern of their names, and its groups in words.

    `is_log10_s`: their values are logarithms to base 10 of a time in s.
    """

    pattern: str
    words: str
    is_log10_s: bool = False


@dataclass(frozen=True)
class MainFigure:
    """A metric of training as people read it. `scale`: its value in `unit` for 1; `factor`: it is a logarithm
    to the base 10, and 10 to it is shown.
    """

    metric: str
    what: str
    unit: str
    lower_is_better: bool = True
    scale: float = 1.0
    factor: bool = False

    def shown(self, value: float) -> float:
        """The metric's value in `unit`."""
        return 10.0**value if self.factor else self.scale * value


def share(metric: str, what: str) -> MainFigure:
    """A share that should be high, shown in percent."""
    return MainFigure(metric, what, "%", lower_is_better=False, scale=100.0)


@dataclass(frozen=True)
class CatalogueEntry:
    """One kind of model.

    - `kind`: its name, also of its file in a release; `title`: its published name; `predicts`: what.
    - `command`: `lucid train COMMAND` trains it.
    - `learner`: place of the class that is trained, a `LucidModel`; `scorer`: of the function from its saved
      form to what scores with NumPy alone; `frame`: of its `serving_frames.ServingFrame`.
    - `lower_is_better`: the measure to judge it by; `measures`: measures in words, by name.
    - `figures`: the main ones, as pages show them; `features`: how its own features read.
    - `limits`, `reading`: of its model card, the paragraphs and lines of two sections.
    """

    kind: str
    title: str
    predicts: str
    command: str
    learner: str
    scorer: str
    frame: str
    lower_is_better: str
    measures: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[MainFigure, ...] = ()
    features: tuple[FeatureWords, ...] = ()
    limits: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()

    @property
    def model(self) -> type[LucidModel]:
        """The class that is trained."""
        found: type[LucidModel] = at_place(self.learner)
        return found


PACKING = CatalogueEntry(
    kind="packing",
    title="Packing Analyze Model",
    predicts="Sharing Score (0 Tiny, 1 Medium, 2 Jumbo) of a job from its solo profile",
    command="packing",
    learner="lucid_models.packing.model:PackingAnalyzeModel",
    scorer="lucid_models.scoring:PackingScorer.from_data",
    frame="lucid_models.serving_frames:PACKING",
    lower_is_better="error_rate",
    measures={"loo_accuracy": "share of right scores, one configuration left out"},
    figures=(
        share("leave_model_out_accuracy", "right labels of models that it did not see"),
        share("loo_accuracy", "right labels of configurations that it did not see"),
    ),
    limits=(
        "It knows the configurations that were measured in pairs; an unlike one gets the score of its leaf.",
        "Speeds were measured for two jobs on one GPU of one model; other GPUs need their own measurements.",
        "Configurations that were measured in no pair have no label and teach nothing.",
        (
            "Its metrics are of configurations and models that training did not see. The published 94.1 % "
            "are not: the authors' script leaves what a label is cut from among the features "
            "(docs/decisions/0008-pairwise-packing.md)."
        ),
    ),
    reading=(
        "Follow the tree from its root: each box asks one metric, and the leaf gives the score",
        "with the share of the measured configurations in it that have this score.",
        "Gini importance is a metric's share of the tree's total gain.",
        "The kind pairwise also predicts the speeds of two given jobs: an intercept plus one score a feature",
        "of the pair, read off that feature's shape function.",
    ),
)
THROUGHPUT = CatalogueEntry(
    kind="throughput",
    title="Throughput Predict Model",
    predicts="jobs or GPUs submitted in a bin to come",
    command="throughput",
    learner="lucid_models.throughput.model:ThroughputPredictModel",
    scorer="lucid_models.scoring:read_throughput",
    frame="lucid_models.serving_frames:THROUGHPUT",
    lower_is_better="mae",
    measures={"jobs_mae": "mean absolute error (jobs a bin)"},
    figures=(
        MainFigure("jobs_mae", "forecasts of submissions are off by", "jobs a bin"),
        MainFigure("gpus_mae", "forecasts of demand are off by", "GPUs a bin"),
    ),
    features=(
        FeatureWords(r"lag_(\d+)", "{} bins before"),
        FeatureWords(r"mean_(\d+)_bins", "mean of {} bins"),
        FeatureWords(r"soft_mean_(\d+)_bins", "soft mean of {} bins"),
        FeatureWords(r"same_time_last_(\w+)", "this time of the last {}"),
        FeatureWords(r"level_over_days_(\d+)_bins", "last {} bins over those of the last days"),
        FeatureWords(r"(days|weeks)_at_level_(\d+)_bins", "pattern of the {}, at the level of {} bins"),
        FeatureWords(r"level", "level of the last day and week"),
    ),
    limits=(
        "A burst that neither the last hours nor the daily and weekly pattern announce is not forecast.",
        "A few very large jobs dominate single bins of GPU demand: judge by mean absolute error, not R2.",
    ),
    reading=(
        "A forecast is the present level times the sum of an intercept and one score per feature, read off",
        "that feature's shape function, blended with the median of the last twelve bins and the newest one",
        "as far as a time-ordered validation found them better (the shares are below *Limits*).",
        "Importance is the mean absolute score over the training bins.",
        "`lucid explain --model throughput` says in words why the next bin is forecast as it is.",
    ),
)
DURATION = CatalogueEntry(
    kind="duration",
    title="Workload Estimate Model",
    predicts="run time of a job in seconds: P50, P90 and mean",
    command="duration",
    learner="lucid_models.duration.model:WorkloadEstimateModel",
    scorer="lucid_models.duration.scorer:DurationScorer.from_data",
    frame="lucid_models.serving_frames:DURATION",
    lower_is_better="mae_log10",
    measures={"mae_log10": "mean absolute error (powers of ten of the run time)"},
    figures=(
        MainFigure("mae_log10", "run times are typically off by a factor of", "×", factor=True),
        MainFigure("kendall_tau", "jobs in the right order (Kendall's tau)", "", lower_is_better=False),
        share("coverage_p90", "run times within P90 (right: 90 %)"),
    ),
    limits=(
        "A job that is unlike all finished ones is answered by coarser statistics, and its reason says so.",
        "P50 and P90 are calibrated on held-out jobs of the training window; a new workload shifts them.",
        "Jobs still running when training ends are not learned from: the last days lean to short jobs.",
    ),
    reading=(
        "The logarithm of the estimate is the intercept plus one score per feature, so scores multiply",
        "run time: +0.69 doubles it, -0.69 halves it.",
        "Importance is the mean absolute score over the training jobs.",
        "A reason starts from what jobs like it usually run and says how much time each part adds or takes",
        "off; the amounts add up (`lucid explain --model duration --job ID`, docs/explanations.md).",
    ),
)
# Those of every release, in the order of its manifest.
_CORE = (PACKING, THROUGHPUT, DURATION)


def catalogue() -> dict[str, CatalogueEntry]:
    """All kinds of models, by name."""
    return {entry.kind: entry for entry in _CORE} | {
        kind: at_place(place) for kind, place in offered("models").items()
    }


def load_catalogue_entry(kind: str) -> CatalogueEntry:
    """The entry of a kind; raises NotFoundError for one that a part brings which is not installed, and
    UnknownNameError with the kinds that exist for any other.
    """
    entries = catalogue()
    if kind not in entries:
        raise lacking().get(f"model {kind}") or UnknownNameError("kind of model", kind, entries)
    return entries[kind]
