"""Learns what jobs ask of a GPU from solo profiles of the zoo and the graphs of its workloads.

The formulas (step_model, memory) have few numbers, which are fitted to all configurations at once:
utilisation by least squares with a loss that a model which no formula fits cannot pull along (it waits for
its data, say), and with a weak pull towards what data sheets say; memory by non-negative least squares of
relative errors. Then every model is left out in turn, and the misses on those unseen models give the
margins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.scorer_model import ScorerModel
from lucid_models.utilisation.graph_features import GraphFeatures
from lucid_models.utilisation.margins import Margins, level_of_cost
from lucid_models.utilisation.memory import MemoryModel, memory_terms
from lucid_models.utilisation.profiled_graphs import ProfiledGraphs, join_graphs
from lucid_models.utilisation.scorer import (
    KIND,
    RANGES,
    TERMS,
    DemandPrediction,
    UtilisationScorer,
    known_features,
)
from lucid_models.utilisation.step_model import StepModel, logit

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
MIN_MODELS = 4
# Where fitting starts and what it is drawn to, from public figures of a card of the RTX 3090's class: a
# training step takes three forward passes; half of 35.6 TFLOPS, 6 accesses of 4 bytes an activation at 936
# GB/s, 0.15 ms of host an operator, a quarter of it on the device; half the time and a fifth more launches
# with mixed precision.
_NUMBERS = ("per_kernel", "per_gmac", "per_melement", "per_step", "amp_device", "amp_host", "overlap")
_START = np.log([0.25, 2.2, 0.17, 10.0, 0.5, 1.2, 2.0])
_SPREAD = np.array([0.5, 1.5, 1.5, 1.5, 0.3, 0.2, 0.5])
_BOUND = 6.0  # times the spread, in logarithms
_UTIL_ERROR = 0.1  # beyond it a configuration's pull on the fit fades
# Weights and gradients there are in any case; two states, a copy in another precision and slack at the most.
_COPIES_MIN, _COPIES_MAX = 2.0, 8.0


@dataclass(frozen=True)
class UtilisationSettings:
    """How careful predictions are, and how they are learned.

    - `util_under_cost`, `memory_under_cost`: so many times as much as an over-estimate does an under-estimate
      cost, of utilisation (two jobs slow each other down) and of memory (a job dies). The share of unseen
      models to over-estimate follows: 3 gives 75 %, 6 gives 86 %.
    - `range_share`: the part of unseen models that is to lie within the range.
    - `prior_weight`: the pull towards the data sheets.
    """

    util_under_cost: float = 3.0
    memory_under_cost: float = 6.0
    range_share: float = 0.7
    prior_weight: float = 0.3

    def __post_init__(self) -> None:
        for name, low, high in (
            ("util_under_cost", 1.0, 1e3),
            ("memory_under_cost", 1.0, 1e3),
            ("range_share", 0.0, 0.999),
            ("prior_weight", 1e-3, 1e3),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadInputError(
                    f"{name} is {value!r}, not in [{low:g}, {high:g}].",
                    remedy="Choose a value in this range.",
                )


class UtilisationModel(ScorerModel[UtilisationScorer]):
    """Predicts GPU utilisation, memory utilisation and memory of a job from its computation graph."""

    kind = KIND
    words, fit_words = "utilisation model", "fit"
    scorer_type = UtilisationScorer

    def __init__(self, settings: UtilisationSettings | None = None) -> None:
        self.settings = settings or UtilisationSettings()

    def fit(
        self, solo: "pd.DataFrame", graphs: Mapping[str, GraphFeatures] | None = None
    ) -> "UtilisationModel":
        """Learn from solo profiles (PROFILE_SCHEMA) and graphs by job type (None: the zoo's own).

        Raises BadInputError when fewer than four models have both.
        """
        return self.fit_joined(join_graphs(solo, graphs))

    def fit_joined(self, rows: ProfiledGraphs) -> "UtilisationModel":
        """Learn from configurations with their graphs."""
        names = sorted(set(rows.models))
        if len(names) < MIN_MODELS:
            raise BadInputError(
                f"Profiles of {len(names)} models with graphs teach nothing about others.",
                remedy=f"Profile configurations of at least {MIN_MODELS} models.",
            )
        missed: dict[str, Floats] = {name: np.zeros(len(rows)) for name in ("util", "mem_util", "memory")}
        for name in names:
            new = rows.of_model(name)
            test = rows.only(new)
            step, memory = self._fit_formulas(rows.only(~new))
            for key, residual in _residuals(step, memory, test).items():
                missed[key][new] = residual
        step, memory = self._fit_formulas(rows)
        settings = self.settings
        levels = {
            "util": level_of_cost(settings.util_under_cost),
            "mem_util": level_of_cost(settings.util_under_cost),
            "memory": level_of_cost(settings.memory_under_cost),
        }
        margins = {
            key: Margins.of(values, rows.models, level=levels[key], range_share=settings.range_share)
            for key, values in missed.items()
        }
        graph_features = [known_features(graph) for graph in rows.graphs]
        ranges = {
            name: (min(each[name] for each in graph_features), max(each[name] for each in graph_features))
            for name in RANGES
        }
        training = {
            "rows": len(rows),
            "models": len(names),
            "without_graph": rows.without_graph,
            "simulated": rows.simulated,
            "settings": asdict(settings),
            "level_util": levels["util"],
            "level_memory": levels["memory"],
        }
        parts = (step, memory, margins["util"], margins["mem_util"], margins["memory"], ranges)
        unranked = UtilisationScorer(rows.device, *parts, dict.fromkeys(TERMS, 0.0), training)
        self._scorer = UtilisationScorer(rows.device, *parts, _importances(unranked, rows), training)
        return self

    def predict(self, graphs: Sequence[GraphFeatures], amp: Sequence[bool]) -> list[DemandPrediction]:
        """Predict what jobs with these graphs ask of a GPU."""
        return self.scorer.predict(graphs, amp)

    def explain_global(self) -> dict[str, Any]:
        """Return how much each part of the account moves predictions, and the fitted numbers."""
        return self.scorer.explain_global()

    def explain_local(self, graph: GraphFeatures, amp: bool) -> dict[str, Any]:
        """Return the account of one prediction, with its reason."""
        return {**self.scorer.explain(graph, amp), "reason": self.predict([graph], [amp])[0].reason}

    def _fit_formulas(self, rows: ProfiledGraphs) -> tuple[StepModel, MemoryModel]:
        return fit_step(rows, self.settings.prior_weight), fit_memory(rows)


def fit_step(rows: ProfiledGraphs, prior_weight: float) -> StepModel:
    """Fit the formula of utilisation, then the share of the device's time in which memory is busy."""
    from scipy.optimize import least_squares

    columns, amp, weights = rows.columns, rows.amp, np.sqrt(rows.weights)
    busy, moving = rows.gpu_util_pct / 100.0, rows.gpu_mem_util_pct / 100.0

    def model_of(numbers: Floats, traffic: float = 1.0) -> StepModel:
        return StepModel(**dict(zip(_NUMBERS, np.exp(numbers).tolist(), strict=True)), traffic=traffic)

    def misses(numbers: Floats) -> Floats:
        predicted = model_of(numbers).utilisation(columns, amp)
        drawn = prior_weight * (numbers - _START) / _SPREAD
        return np.concatenate([weights * (predicted - busy) / _UTIL_ERROR, drawn])

    reach = _BOUND * _SPREAD
    numbers = least_squares(misses, _START, bounds=(_START - reach, _START + reach), loss="cauchy").x
    parts = model_of(numbers).parts(columns, amp)
    # Of what was measured, not of what was predicted: the share is to hold for any utilisation.
    could = busy * (parts.arithmetic + parts.traffic) / parts.device

    def traffic_misses(share: Floats) -> Floats:
        return np.asarray(weights * (share[0] * could - moving) / _UTIL_ERROR)

    solution = least_squares(traffic_misses, [0.5], bounds=([0.0], [1.0]), loss="cauchy").x
    return model_of(numbers, float(solution[0]))


def fit_memory(rows: ProfiledGraphs) -> MemoryModel:
    """Fit the formula's coefficients to relative errors, none negative, parameters held within reason."""
    from scipy.optimize import lsq_linear

    terms = memory_terms(rows.columns, rows.amp)
    scale = np.sqrt(rows.weights) / rows.gpu_mem_mib
    bounds = ([0.0, _COPIES_MIN, 0.0], [np.inf, _COPIES_MAX, np.inf])
    solution = lsq_linear(terms * scale[:, None], rows.gpu_mem_mib * scale, bounds=bounds, method="bvls").x
    return MemoryModel(*(max(0.0, float(value)) for value in solution))


def _residuals(step: StepModel, memory: MemoryModel, rows: ProfiledGraphs) -> dict[str, Floats]:
    """Return how far the measurements lie above what the formulas say, on the scales of the margins."""
    columns, amp = rows.columns, rows.amp
    return {
        "util": logit(rows.gpu_util_pct / 100.0) - logit(step.utilisation(columns, amp)),
        "mem_util": logit(rows.gpu_mem_util_pct / 100.0) - logit(step.memory_utilisation(columns, amp)),
        "memory": np.log(rows.gpu_mem_mib) - np.log(np.maximum(memory.mib(columns, amp), 1.0)),
    }


def _importances(scorer: UtilisationScorer, rows: ProfiledGraphs) -> dict[str, float]:
    """Return the mean absolute contribution of each part of the account over the rows, in points."""
    accounts = [
        {term["term"]: abs(term["contribution"]) for term in scorer.explain(graph, bool(amp))["terms"]}
        for graph, amp in zip(rows.graphs, rows.amp, strict=True)
    ]
    return {name: float(np.mean([account[name] for account in accounts])) for name in TERMS}
