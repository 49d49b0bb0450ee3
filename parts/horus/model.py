"""Learns what jobs ask of a GPU from solo profiles of the zoo and the graphs of its workloads.

The formulas (`formulas`) have few numbers, which are fitted to all configurations at once:
utilisation by least squares with a loss that a model which no formula fits cannot pull along (it waits for
its data, say), and with a weak pull towards what data sheets say; memory by non-negative least squares of
relative errors. Then every model is left out in turn, and the misses on those unseen models give the
margins.

The graphs of the workload zoo are a table of this package (zoo_features.csv): a profile of one of its
configurations needs no ONNX file. `experiments.profiling.zoo_graphs` writes it.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, NotFoundError
from lucid_models.scorer_model import ScorerModel
from parts.horus.formulas import (
    Columns,
    Margins,
    MemoryModel,
    StepModel,
    columns_of,
    level_of_cost,
    logit,
    memory_terms,
)
from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures
from parts.horus.scorer import (
    KIND,
    RANGES,
    TERMS,
    DemandPrediction,
    UtilisationScorer,
    known_features,
)

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
MIN_MODELS = 4
RANGE_SHARE = 0.7  # of unseen models, that is to lie within the range
PRIOR_WEIGHT = 0.3  # the pull of the fit towards the data sheets
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


@cache
def read_zoo_features() -> Mapping[str, GraphFeatures]:
    """Return the features of every configuration of the zoo, by job type."""
    return read_features_table(table_path())


def table_path() -> Path:
    """Return where the table lies."""
    return Path(str(files("parts.horus") / "zoo_features.csv"))


def read_features_table(path: Path) -> dict[str, GraphFeatures]:
    """Read a table of features by job type; raises NotFoundError, or BadInputError naming the row."""
    if not path.is_file():
        raise NotFoundError(f"There is no table of graphs {str(path)!r}.", remedy="Check the path.")
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        missing = {"job_type", *FEATURE_NAMES} - set(reader.fieldnames or ())
        if missing:
            raise BadInputError(
                f"{path} lacks the columns {', '.join(sorted(missing))}.", remedy="Write it again."
            )
        features: dict[str, GraphFeatures] = {}
        for row in reader:
            try:
                features[row["job_type"]] = GraphFeatures.from_data(row)
            except BadInputError as error:
                raise BadInputError(f"{path}, {row['job_type']!r}: {error}") from error
    return features


@dataclass(frozen=True)
class ProfiledGraphs:
    """Configurations with their graphs and what was measured of them, as arrays of shape (rows,).

    `amp` is 1 with mixed precision, else 0. `without_graph` counts the profiles that no graph belongs to.
    """

    job_types: tuple[str, ...]
    models: tuple[str, ...]
    graphs: tuple[GraphFeatures, ...]
    amp: Floats
    gpu_util_pct: Floats
    gpu_mem_util_pct: Floats
    gpu_mem_mib: Floats
    device: str
    simulated: bool
    without_graph: int

    def __len__(self) -> int:
        return len(self.job_types)

    @cached_property
    def columns(self) -> Columns:
        """Return the graphs' features by name."""
        return columns_of(self.graphs)

    @cached_property
    def weights(self) -> Floats:
        """Return one weight a row, so that every model weighs the same; they sum to the number of models."""
        _, of = np.unique(np.asarray(self.models), return_inverse=True)
        return np.asarray(1.0 / np.bincount(of)[of])

    def of_model(self, name: str) -> NDArray[np.bool_]:
        """Return which rows are configurations of a model."""
        return np.array([model == name for model in self.models], dtype=np.bool_)

    def only(self, rows: NDArray[np.bool_]) -> "ProfiledGraphs":
        """Return some of the rows."""
        places = np.flatnonzero(rows)
        return ProfiledGraphs(
            tuple(self.job_types[place] for place in places),
            tuple(self.models[place] for place in places),
            tuple(self.graphs[place] for place in places),
            self.amp[places],
            self.gpu_util_pct[places],
            self.gpu_mem_util_pct[places],
            self.gpu_mem_mib[places],
            self.device,
            self.simulated,
            self.without_graph,
        )


def join_graphs(solo: "pd.DataFrame", graphs: Mapping[str, GraphFeatures] | None = None) -> ProfiledGraphs:
    """Join solo profiles (PROFILE_SCHEMA) to graphs by job type (None: the zoo's own).

    Raises BadInputError when the profiles are of several devices, or none has a graph.
    """
    if graphs is None:
        graphs = read_zoo_features()
    devices = sorted({str(device) for device in solo["device"]})
    if len(devices) > 1:
        raise BadInputError(
            f"The profiles are of {len(devices)} devices: {', '.join(devices)}.",
            remedy="Utilisation belongs to a device: train one model for each.",
        )
    profiled = solo[solo["job_type"].isin(list(graphs))]
    if profiled.empty:
        raise BadInputError(
            f"None of the {len(solo)} profiled configurations has a graph.",
            remedy="Export their networks to ONNX and read the features (docs/profiling.md).",
        )
    names = tuple(str(name) for name in profiled["job_type"])
    return ProfiledGraphs(
        names,
        tuple(str(model) for model in profiled["model"]),
        tuple(graphs[name] for name in names),
        profiled["amp"].to_numpy(dtype=np.float64),
        profiled["gpu_util_pct"].to_numpy(dtype=np.float64),
        profiled["gpu_mem_util_pct"].to_numpy(dtype=np.float64),
        profiled["gpu_mem_mib"].to_numpy(dtype=np.float64),
        devices[0],
        bool(profiled["simulated"].astype(bool).any()),
        len(solo) - len(profiled),
    )


@dataclass(frozen=True)
class UtilisationSettings:
    """How careful predictions are, and how they are learned.

    - `util_under_cost`, `memory_under_cost`: so many times as much as an over-estimate does an under-estimate
      cost, of utilisation (two jobs slow each other down) and of memory (a job dies). The share of unseen
      models to over-estimate follows: 3 gives 75 %, 6 gives 86 %.
    """

    util_under_cost: float = 3.0
    memory_under_cost: float = 6.0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("util_under_cost", 1.0, 1e3),
            ("memory_under_cost", 1.0, 1e3),
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
            key: Margins.of(values, rows.models, level=levels[key], range_share=RANGE_SHARE)
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
            "settings": asdict(settings) | {"range_share": RANGE_SHARE, "prior_weight": PRIOR_WEIGHT},
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
        return fit_step(rows, PRIOR_WEIGHT), fit_memory(rows)


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
