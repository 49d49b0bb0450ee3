"""Wait Model: how long waiting jobs go on waiting, where the policy of their cluster is not known.

Learned from a `WaitTable` and calibrated by what forecasts of its earlier moments missed
(docs/decisions/0070-waits-learned-from-the-queue.md).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from foundation.errors import BadInputError
from foundation.human_times import human_duration
from foundation.progress import Progress, silent
from lucid_models.explanation.additive import explain_additive_global, explain_additive_row
from lucid_models.groups import Floats
from parts.waits.model.fitting import WaitSettings, additive_learner, fit_additive, learned_rows
from parts.waits.model.queue_moment import QueueMoment
from parts.waits.model.scorer import WaitScorer
from parts.waits.model.usual_waits import USUAL_SHARE, USUAL_WAIT, leaning_terms
from parts.waits.model.wait_table import WaitTable
from parts.waits.model.walk_forward import first_calibrating, offsets_at, walk_forward

_UNIT = "powers of ten of the wait"
_MOST_REASONS = 3


class WaitModel:
    """P50 and P90 of the waits still to come in a cluster's queue."""

    kind = "waits"

    def __init__(self, settings: WaitSettings | None = None) -> None:
        self.settings = settings or WaitSettings()
        self._scorer: WaitScorer | None = None

    @property
    def scorer(self) -> WaitScorer:
        """What is saved and served; raises BadInputError before `fit`."""
        if self._scorer is None:
            raise BadInputError("The wait model has not been fitted.", remedy="Call fit(table) first.")
        return self._scorer

    def fit(
        self,
        table: WaitTable,
        names: Callable[[int], str],
        said: Floats | None = None,
        progress: Progress = silent,
    ) -> "WaitModel":
        """Learn from all of a table; `names` says what a partition is called.

        `said`: what models of earlier moments forecast (`walk_forward`), which offsets are made of; without
        it they are trained. Raises BadInputError for too few ended waits.
        """
        moments = table.moments_s.size
        learner = additive_learner(table.features.names, self.settings.boosting)
        if said is None:
            said = walk_forward(table, learner, self.settings, first_calibrating(moments), progress)
        known_at_s = table.known_at_s(moments)
        rows, target, weights = learned_rows(table, moments, known_at_s, self.settings, learner)
        additive = fit_additive(
            table.features.names,
            self.settings.boosting,
            table.matrix[rows],
            target,
            table.moment[rows],
            weights,
        )
        offsets = offsets_at(table, said, moments)
        self._scorer = WaitScorer(
            table.features,
            additive,
            offsets.named(names),
            {"moments": int(moments), "rows": int(rows.size), "known_until_s": known_at_s},
            USUAL_SHARE,
        )
        return self

    def predict(self, queue: QueueMoment, partitions: Sequence[str]) -> Floats:
        """As `WaitScorer.forecast`."""
        return self.scorer.forecast(queue, partitions)

    def explain_global(self) -> dict[str, Any]:
        """Importances and shape functions, in powers of ten of the wait."""
        return explain_additive_global(self.scorer.additive, self.kind, _UNIT)

    def explain_local(self, values: Sequence[float], partition: str) -> dict[str, Any]:
        """What each feature adds to the forecast of one waiting job, and its `reason` in words.

        `values`: a row of `WaitFeatures.matrix`; `partition`: the name of the job's.
        """
        from lucid_models.explanation.axes import feature_words

        p50_s, p90_s = self.scorer.forecast_rows(np.array([values]), [partition])[0].tolist()
        scorer = self.scorer
        explained = leaning_terms(
            explain_additive_row(scorer.additive, values, p50_s),
            values[scorer.features.names.index(USUAL_WAIT)],
            scorer.usual_share,
        )
        largest = ", ".join(
            f"{feature_words(term['term'])} (x {10.0 ** term['contribution']:.2g})"
            for term in explained["terms"][:_MOST_REASONS]
        )
        reason = (
            f"Learned from the queue: goes on waiting {human_duration(p50_s)} in the median, nine times of "
            f"ten at most {human_duration(p90_s)}, where jobs wait {_average(explained['intercept'])} on "
            f"average, mainly by its {largest}."
        )
        return {"model": self.kind, **explained, "unit": "s", "score_unit": _UNIT, "reason": reason}

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return self.scorer.to_data()

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "WaitModel":
        """Read what `to_data` wrote; errors as `WaitScorer.from_data`."""
        model = cls()
        model._scorer = WaitScorer.from_data(document)
        return model


def _average(intercept: float) -> str:
    return human_duration(max(10.0 ** min(intercept, 10.0) - 1.0, 0.0))
