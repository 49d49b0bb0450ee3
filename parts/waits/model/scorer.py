"""Forecasts when waiting jobs start, with NumPy alone: what a scheduler holds of the wait model.

The logarithm of a wait is a sum of shape functions (lucid_models/additive_scorer.py) over `WaitFeatures`,
drawn by `usual_share` to the usual wait of jobs alike, plus an offset for P50 and one for P90
(`calibration`). Offsets belong to the names of partitions, since numbers that a log gave them mean nothing in
another one; a partition that is new has the offsets of all.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from foundation.errors import BadInputError, ReleaseRefusedError
from lucid_models.additive_scorer import AdditiveScorer, require_features
from lucid_models.groups import Floats
from lucid_models.model_format import Fields, finite_list, make_document
from parts.waits.model.calibration import LEVELS, WaitOffsets
from parts.waits.model.features import WaitFeatures
from parts.waits.model.queue_moment import QueueMoment, queue_of_jobs
from parts.waits.model.usual_waits import USUAL_WAIT, leaning

# Three centuries in s, as a power of ten: no forecast is longer.
MOST_LOG_WAIT = 10.0
_MOST_PARTITIONS = 100_000


class WaitScorer:
    """Shape functions over `WaitFeatures`, and offsets of P50 and P90."""

    kind = "waits"

    def __init__(
        self,
        features: WaitFeatures,
        additive: AdditiveScorer,
        offsets: WaitOffsets[str],
        training: Mapping[str, Any] | None = None,
        usual_share: float = 0.0,
    ) -> None:
        require_features(additive, features.names, "The wait model")
        self.features, self.additive, self.offsets = features, additive, offsets
        self.usual_share = usual_share
        self.training = dict(training or {})

    def forecast(self, queue: QueueMoment, partitions: Sequence[str]) -> Floats:
        """P50 and P90 of how long each waiting job goes on waiting, in s, shape (waiting, 2).

        `partitions`: the name of each one's partition. Raises BadInputError unless there is one a job.
        """
        return self.forecast_rows(self.features.matrix(queue), partitions)

    def forecast_rows(self, matrix: Floats, partitions: Sequence[str]) -> Floats:
        """As `forecast`, of rows of features, shape (rows, features)."""
        if len(partitions) != len(matrix):
            raise BadInputError(
                f"{len(partitions)} partitions were named for {len(matrix)} waiting jobs.",
                remedy="Name the partition of each waiting job.",
            )
        usual = matrix[:, self.features.names.index(USUAL_WAIT)]
        said = leaning(self.additive.predict(matrix), usual, self.usual_share)
        logs = said[:, None] + self.offsets.of(partitions)
        rising = np.maximum.accumulate(np.clip(logs, 0.0, MOST_LOG_WAIT), axis=1)
        return np.asarray(10.0**rising - 1.0, dtype=np.float64)

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        by_partition = dict(sorted(self.offsets.by_partition.items()))
        return make_document(
            self.kind,
            {
                "features": self.features.to_data(),
                "additive": self.additive.to_data(),
                "usual_share": self.usual_share,
                "levels": list(LEVELS),
                "partitions": list(by_partition),
                "offsets": [finite_list(np.array(one)) for one in by_partition.values()],
                "offsets_of_all": finite_list(np.array(self.offsets.of_all)),
                "training": self.training,
            },
        )

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> "WaitScorer":
        """Read what `to_data` wrote; raises CorruptModelError, and FormatVersionError for features that this
        program does not compute.
        """
        fields = Fields(document, "model").child("model")
        if tuple(fields.numbers("levels", 0.0, 1.0, most=len(LEVELS))) != LEVELS:
            raise fields.fail("levels", f"are not {LEVELS}")
        names = fields.texts("partitions", most=_MOST_PARTITIONS, unique=True)
        rows = fields.items("offsets", most=_MOST_PARTITIONS)
        if len(rows) != len(names):
            raise fields.fail("offsets", "are not one row a partition")
        return cls(
            WaitFeatures.from_data(fields.child("features")),
            AdditiveScorer.from_data(fields.child("additive")),
            WaitOffsets(
                {name: _offsets(fields, "offsets", row) for name, row in zip(names, rows, strict=True)},
                _offsets(fields, "offsets_of_all", fields.raw("offsets_of_all")),
            ),
            fields.training(),
            fields.number("usual_share", 0.0, 1.0),
        )


def _offsets(fields: Fields, name: str, value: object) -> tuple[float, ...]:
    offsets = fields.array(name, value, -MOST_LOG_WAIT, MOST_LOG_WAIT)
    if offsets.size != len(LEVELS):
        raise fields.fail(name, f"are not {len(LEVELS)} a row")
    return tuple(offsets.tolist())


def check_pinned(waits: WaitScorer, settings: Mapping[str, Any]) -> None:
    """Refuse a model that answers a plain input with what cannot be."""
    queue = queue_of_jobs(0.0, [{"submit_s": -60.0, "cpus": 1.0, "limit_s": 3_600.0}], [])
    p50_s, p90_s = waits.forecast(queue, ["probe"])[0].tolist()
    if not 0 <= p50_s <= p90_s < math.inf:
        raise ReleaseRefusedError(f"The wait model forecasts {p50_s} s and {p90_s} s on a probe.")
