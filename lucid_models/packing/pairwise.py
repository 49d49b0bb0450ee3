"""What a saved pairwise packing model is, with NumPy alone: how fast two jobs run that share their GPUs.

Two additive models read the solo profiles of both jobs, as features that do not depend on their order, and
predict the mean and the lower of the two normalised speeds. Which of the two is the slower one is not
predicted: on unseen models it cannot be predicted (docs/decisions/0008-pairwise-packing.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.explanation.additive import explain_additive_global, explain_additive_row
from lucid_models.model_format import Fields
from lucid_models.packing.tree import PackingSettings

# In the order of packing.model.FEATURES.
_UTIL, _MEM_UTIL, _MEM_MIB, _AMP = range(4)
PAIR_FEATURES = (
    "gpu_util_sum_pct",
    "gpu_util_max_pct",
    "gpu_util_min_pct",
    "gpu_mem_sum_mib",
    "amp_jobs",
)
HEADS = ("mean_speed", "min_speed")
# No job is taken to run faster beside another than alone, and none stands still.
LOWEST_SPEED = 0.05
# A threshold that no pair reaches: no job shares.
NO_PAIR = 2.0
_WORDS = {
    "gpu_util_sum_pct": "GPU utilisations that sum to {:.0f} %",
    "gpu_util_max_pct": "the busier job's {:.0f} %",
    "gpu_util_min_pct": "the other's {:.0f} %",
    "gpu_mem_sum_mib": "{:,.0f} MiB of GPU memory together",
    "amp_jobs": "{:.0f} of the two in mixed precision",
}


def pair_features(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features of pairs, shape (rows, len(PAIR_FEATURES)), from the solo metrics of both jobs.

    `first` and `second` have shape (rows, 4), in the order of packing.model.FEATURES; an unknown metric is
    NaN and makes unknown what depends on it. Swapping the jobs changes no bit.
    """
    return np.stack(
        [
            first[:, _UTIL] + second[:, _UTIL],
            np.maximum(first[:, _UTIL], second[:, _UTIL]),
            np.minimum(first[:, _UTIL], second[:, _UTIL]),
            first[:, _MEM_MIB] + second[:, _MEM_MIB],
            first[:, _AMP] + second[:, _AMP],
        ],
        axis=1,
    )


@dataclass(frozen=True)
class PairwiseScorer:
    """Predicts the mean and the lower speed of pairs, each relative to running alone.

    `mean_speed_min` is the predicted mean speed from which on a pair may share: chosen when the model was
    trained, on jobs' models that were held out, for the precision that the settings ask for.
    """

    mean: AdditiveScorer
    low: AdditiveScorer
    mean_speed_min: float

    def predict(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and lower speed of each pair, both of shape (rows,), with lower <= mean, in [0.05, 1]."""
        features = pair_features(first, second)
        mean = np.clip(self.mean.predict(features), LOWEST_SPEED, 1.0)
        return mean, np.clip(self.low.predict(features), LOWEST_SPEED, mean)

    def predict_one(self, first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
        """Mean and lower speed of one pair, as `predict` gives them; faster for a single pair."""
        row = [
            first[_UTIL] + second[_UTIL],
            _either(max, first[_UTIL], second[_UTIL]),
            _either(min, first[_UTIL], second[_UTIL]),
            first[_MEM_MIB] + second[_MEM_MIB],
            first[_AMP] + second[_AMP],
        ]
        mean = min(max(self.mean.score_one(row), LOWEST_SPEED), 1.0)
        return mean, min(max(self.low.score_one(row), LOWEST_SPEED), mean)

    def may_share(self, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the mean speed of each pair is predicted to reach the threshold, shape (rows,)."""
        return self.predict(first, second)[0] >= self.mean_speed_min

    def explain(self, first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
        """What each feature adds to the two predictions for one pair, with a sentence."""
        first_row, second_row = np.array([first], dtype=np.float64), np.array([second], dtype=np.float64)
        row = pair_features(first_row, second_row)[0].tolist()
        mean, low = (float(speeds[0]) for speeds in self.predict(first_row, second_row))
        mean_terms = explain_additive_row(self.mean, row, mean)
        may_share = mean >= self.mean_speed_min
        named = [
            f"{_said(term['term'], term['values'][0])} {term['contribution']:+.2f}"
            for term in mean_terms["terms"]
        ]
        return {
            **mean_terms,
            "min_speed": explain_additive_row(self.low, row, low),
            "may_share": may_share,
            "reason": f"{'May' if may_share else 'Must not'} share: the two are expected to run at "
            f"{mean:.2f} of their speed on average ({low:.2f} the slower one); {self.mean_speed_min:.2f} is "
            f"needed. From {self.mean.intercept:.2f}: {', '.join(named)}.",
        }

    def explain_global(self) -> dict[str, dict[str, Any]]:
        """Importances and shape functions of both heads, by name."""
        return {
            name: explain_additive_global(head, f"packing, {name}")
            for name, head in zip(HEADS, (self.mean, self.low), strict=True)
        }

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "mean_speed": self.mean.to_data(),
            "min_speed": self.low.to_data(),
            "mean_speed_min": self.mean_speed_min,
        }

    @classmethod
    def from_data(cls, fields: Fields) -> "PairwiseScorer":
        """Read what `to_data` wrote; raises CorruptModelError."""
        heads = []
        for name in HEADS:
            place = fields.child(name)
            head = AdditiveScorer.from_data(place)
            require_features(head, PAIR_FEATURES, place.place)
            if head.link != "identity":
                raise fields.fail(name, f"has the link {head.link}, not identity")
            heads.append(head)
        return cls(heads[0], heads[1], fields.number("mean_speed_min", 0.0, NO_PAIR))


def read_pairwise(fields: Fields, settings: PackingSettings) -> PairwiseScorer | None:
    """The pairwise part of a saved packing model, which is there if its settings say so; raises
    CorruptModelError.
    """
    if fields.has("pairwise") != (settings.kind == "pairwise"):
        raise fields.fail("pairwise", f"does not fit the kind {settings.kind!r}")
    return PairwiseScorer.from_data(fields.child("pairwise")) if fields.has("pairwise") else None


def require_pairwise(scorer: PairwiseScorer | None) -> PairwiseScorer:
    """The pairwise part of a packing model; raises BadInputError when it has none."""
    if scorer is None:
        raise BadInputError(
            "This packing model gives Sharing Scores only, and does not predict the speeds of pairs.",
            remedy="Train one with `lucid train packing --kind pairwise`.",
        )
    return scorer


def _either(choose: Callable[[float, float], float], first: float, second: float) -> float:
    """As NumPy chooses: an unknown one makes the choice unknown."""
    return first + second if first != first or second != second else choose(first, second)


def _said(term: str, value: float | None) -> str:
    return f"{term} unknown" if value is None else _WORDS[term].format(value)
