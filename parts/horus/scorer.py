"""What a saved utilisation model is, with NumPy alone: what a job asks of a GPU, from its graph.

Every figure is an expectation moved by a margin: to the careful side for the figure that a scheduler takes,
since sharing a GPU on an under-estimate hurts two jobs (Horus, TPDS '21, section 5), and to both for the
range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.model_format import Fields, make_document
from parts.horus.formulas import Columns, Margins, MemoryModel, StepModel, columns_of, shifted
from parts.horus.graph_features import GraphFeatures

Floats = NDArray[np.float64]
KIND = "utilisation"
# What training must have seen the like of for a prediction to be one.
RANGES = ("operators", "parameters", "macs_per_operator", "activation_elements")
TERMS = ("launches", "arithmetic", "memory_traffic", "mixed_precision", "care")
# The figures of a prediction, in its order.
FIGURES = (
    "gpu_util_pct",
    "gpu_util_expected_pct",
    "gpu_util_low_pct",
    "gpu_util_high_pct",
    "gpu_mem_util_pct",
    "gpu_mem_util_expected_pct",
    "gpu_mem_util_low_pct",
    "gpu_mem_util_high_pct",
    "gpu_mem_mib",
    "gpu_mem_expected_mib",
    "gpu_mem_low_mib",
    "gpu_mem_high_mib",
)
_MOST_MIB = 1e9
_BEYOND = {
    "operators": "operators",
    "parameters": "parameters",
    "macs_per_operator": "arithmetic an operator",
    "activation_elements": "activations",
}
_SHARES = {
    "launches": "launching its kernels alone keeps the GPU busy {:.0f} % of the time",
    "arithmetic": "arithmetic adds {:+.0f}",
    "memory_traffic": "moving activations {:+.0f}",
    "mixed_precision": "mixed precision {:+.0f}",
    "care": "care {:+.0f}",
}


@dataclass(frozen=True)
class DemandPrediction:
    """What a job is predicted to ask of one GPU: figures on the careful side, the expected ones, and ranges.

    `beyond` names the features that lie outside what the training knew.
    """

    gpu_util_pct: float
    gpu_util_expected_pct: float
    gpu_util_low_pct: float
    gpu_util_high_pct: float
    gpu_mem_util_pct: float
    gpu_mem_util_expected_pct: float
    gpu_mem_util_low_pct: float
    gpu_mem_util_high_pct: float
    gpu_mem_mib: float
    gpu_mem_expected_mib: float
    gpu_mem_low_mib: float
    gpu_mem_high_mib: float
    beyond: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class UtilisationScorer:
    """Predicts GPU utilisation, memory utilisation and memory of jobs from their graphs, for one device.

    `ranges` holds the least and the most that training knew of each of RANGES.
    """

    device: str
    step: StepModel
    memory: MemoryModel
    util_margins: Margins
    mem_util_margins: Margins
    memory_margins: Margins
    ranges: Mapping[str, tuple[float, float]]
    importances: Mapping[str, float]
    training: Mapping[str, Any]

    kind = KIND

    @property
    def _margins(self) -> tuple[Margins, Margins, Margins]:
        return self.util_margins, self.mem_util_margins, self.memory_margins

    def predict_columns(self, columns: Columns, amp: Floats) -> dict[str, Floats]:
        """Return the figures of `DemandPrediction` as arrays, from features by name (`columns_of`)."""
        predictions: dict[str, Floats] = {}
        centre = self.step.utilisation(columns, amp)
        busy = self.step.memory_utilisation(columns, amp)
        mib = self.memory.mib(columns, amp)
        for end, which in (("", "careful"), ("_expected", None), ("_low", "low"), ("_high", "high")):
            by = [0.0 if which is None else float(getattr(margins, which)) for margins in self._margins]
            util = shifted(centre, by[0])
            predictions[f"gpu_util{end}_pct"] = 100.0 * util
            # Memory cannot be busy while no kernel runs.
            predictions[f"gpu_mem_util{end}_pct"] = 100.0 * np.minimum(shifted(busy, by[1]), util)
            predictions[f"gpu_mem{end}_mib"] = np.minimum(mib * np.exp(by[2]), _MOST_MIB)
        return predictions

    def predict(self, graphs: Sequence[GraphFeatures], amp: Sequence[bool]) -> list[DemandPrediction]:
        """Predict jobs that run these graphs, with mixed precision or without.

        Raises BadInputError when there is not one `amp` a graph.
        """
        if len(graphs) != len(amp):
            raise BadInputError(
                f"{len(graphs)} graphs come with {len(amp)} AMP switches.", remedy="Give one a graph."
            )
        if not graphs:
            return []
        columns, switches = columns_of(graphs), np.array(amp, dtype=np.float64)
        predictions = self.predict_columns(columns, switches)
        result = []
        for row, graph in enumerate(graphs):
            figures = {name: float(values[row]) for name, values in predictions.items()}
            beyond = self.beyond(graph)
            reason = prediction_reason(graph, bool(amp[row]), figures, self.explain(graph, amp[row]), beyond)
            result.append(DemandPrediction(**figures, beyond=beyond, reason=reason))
        return result

    def beyond(self, graph: GraphFeatures) -> tuple[str, ...]:
        """Return the features of a graph that lie outside what training knew."""
        values = known_features(graph)
        return tuple(name for name, (least, most) in self.ranges.items() if not least <= values[name] <= most)

    def explain(self, graph: GraphFeatures, amp: bool) -> dict[str, Any]:
        """Return an account of one prediction: points of GPU utilisation that add up, and MiB that do."""
        columns, switch = columns_of([graph]), np.array([float(amp)])
        plain, mixed = self.step.parts(columns, np.zeros(1)), self.step.parts(columns, switch)
        careful = 100.0 * shifted(self.step.utilisation(columns, switch), self.util_margins.careful)
        reached = [
            100.0 * self.step.share(device, host)
            for device, host in (
                (plain.launches, plain.host),
                (plain.launches + plain.arithmetic, plain.host),
                (plain.device, plain.host),
                (mixed.device, mixed.host),
            )
        ]
        levels = [0.0, *(float(value[0]) for value in reached), float(careful[0])]
        values: list[list[float]] = [
            [float(graph.operators)],
            [graph.dense_macs],
            [graph.activation_elements],
            [float(amp)],
            [self.util_margins.careful],
        ]
        terms = [
            {"term": term, "values": values[i], "contribution": levels[i + 1] - levels[i]}
            for i, term in enumerate(TERMS)
        ]
        parts = self.memory.parts_mib(columns, switch)[0]
        factor = float(np.exp(self.memory_margins.careful))
        return {
            "model": KIND,
            "unit": "%",
            "prediction": levels[-1],
            "intercept": 0.0,
            "score": levels[-1],
            "score_unit": "points of GPU utilisation",
            "link": "identity",
            "terms": sorted(terms, key=lambda term: -abs(term["contribution"])),
            "memory_mib": {
                "overhead": float(parts[0]),
                "parameters": float(parts[1]),
                "batch": float(parts[2]),
                "margin": float(parts.sum()) * (factor - 1.0),
            },
        }

    def explain_global(self) -> dict[str, Any]:
        """Return how much each part of the account moves GPU utilisation over the training rows, in
        points.
        """
        ranked = sorted(self.importances.items(), key=lambda item: (-item[1], item[0]))
        return {
            "model": KIND,
            "unit": "points of GPU utilisation",
            "importances": dict(ranked),
            "step": self.step.to_data(),
            "memory": self.memory.to_data(),
        }

    def to_data(self) -> dict[str, Any]:
        """Return the saved form (model_format)."""
        return make_document(
            KIND,
            {
                "device": self.device,
                "step": self.step.to_data(),
                "memory": self.memory.to_data(),
                "util_margins": self.util_margins.to_data(),
                "mem_util_margins": self.mem_util_margins.to_data(),
                "memory_margins": self.memory_margins.to_data(),
                "ranges": {name: list(self.ranges[name]) for name in RANGES},
                "importances": {name: self.importances[name] for name in TERMS},
                "training": dict(self.training),
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "UtilisationScorer":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = Fields(document, "model").child("model")
        ranges = {}
        for name in RANGES:
            ends = fields.child("ranges").numbers(name, 0.0, 1e300, most=2)
            if len(ends) != 2 or ends[0] > ends[1]:
                raise fields.fail(f"ranges.{name}", "is not a lower and an upper end")
            ranges[name] = (float(ends[0]), float(ends[1]))
        return cls(
            fields.text("device"),
            StepModel.from_data(fields.child("step")),
            MemoryModel.from_data(fields.child("memory")),
            Margins.from_data(fields.child("util_margins")),
            Margins.from_data(fields.child("mem_util_margins")),
            Margins.from_data(fields.child("memory_margins")),
            ranges,
            {name: fields.child("importances").number(name, 0.0, 100.0) for name in TERMS},
            fields.training(),
        )


def known_features(graph: GraphFeatures) -> dict[str, float]:
    """Return the features by which a graph is like those of the training, by the names in RANGES."""
    return {
        "operators": float(graph.operators),
        "parameters": graph.parameters,
        "macs_per_operator": graph.macs / graph.operators,
        "activation_elements": graph.activation_elements,
    }


def prediction_reason(
    graph: GraphFeatures,
    amp: bool,
    figures: Mapping[str, float],
    account: Mapping[str, Any],
    beyond: Sequence[str],
) -> str:
    """Return why a job is predicted to ask for so much; `account` is the scorer's explanation."""
    points = {term["term"]: term["contribution"] for term in account["terms"]}
    shares = [text.format(points[name]) for name, text in _SHARES.items() if name != "mixed_precision" or amp]
    memory = account["memory_mib"]
    least, most = figures["gpu_util_low_pct"], figures["gpu_util_high_pct"]
    sentences = [
        (
            f"GPU utilisation {figures['gpu_util_pct']:.0f} % (unseen models: {least:.0f} to {most:.0f} %): "
            f"{graph.operators:,} operators with {amount(graph.macs)} multiply-accumulates a batch of "
            f"{graph.batch_size:,}; {', '.join(shares)}."
        ),
        (
            f"Memory {figures['gpu_mem_mib']:,.0f} MiB: {memory['overhead']:,.0f} to begin with, "
            f"{memory['parameters']:,.0f} for {amount(graph.parameters)} parameters and their optimizer, "
            f"{memory['batch']:,.0f} for the batch, {memory['margin']:+,.0f} for care."
        ),
    ]
    if beyond:
        named = ", ".join(_BEYOND[name] for name in beyond)
        sentences.append(f"Unlike anything that was measured in {named}: take this as a guess.")
    return " ".join(sentences)


def amount(number: float) -> str:
    """Return a large number in words, e.g. `4.1 billion`."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:.3g}"
