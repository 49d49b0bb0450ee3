"""Tables in, tables out: how MLflow's scoring interface talks to our scorers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from foundation.parts import at_place
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.duration.job_columns import MODEL_FACTS
from lucid_models.scoring import DurationScorer, PackingScorer, Scorer
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts, ThroughputScorer

# Column -> (type in MLflow's words, whether it must be there).
Columns = Mapping[str, tuple[str, bool]]


@dataclass(frozen=True)
class ServingFrame:
    """How tables are scored by models of one kind: the columns that come and go, and `score`, which returns
    a table of the outputs, row for row.
    """

    inputs: Columns
    outputs: Columns
    score: Callable[[Any, pd.DataFrame], pd.DataFrame]


def serving_frame(kind: str) -> ServingFrame:
    """The frame of a kind of the catalogue; errors as in `load_catalogue_entry`."""
    frame: ServingFrame = at_place(load_catalogue_entry(kind).frame)
    return frame


def score_frame(scorer: Scorer, table: pd.DataFrame) -> pd.DataFrame:
    """Score a table with the input columns of its kind's frame; the result has the outputs, row for row."""
    return serving_frame(scorer.kind).score(scorer, table)


def first_bin_s(table: pd.DataFrame, bin_s: int) -> int:
    """When a history begins; raises BadInputError unless its bins follow one another."""
    starts = table["bin_start_s"].to_numpy(dtype=np.int64)
    if not len(starts) or (np.diff(starts) != bin_s).any():
        raise BadInputError(
            f"The history is empty or its bins do not follow one another every {bin_s} s.",
            remedy="Give one row a bin, in order, with NaN where nothing was counted.",
        )
    return int(starts[0])


def _scores(scorer: PackingScorer, table: pd.DataFrame) -> pd.DataFrame:
    scores = scorer.predict(*(table[name].to_numpy(dtype=np.float64) for name in PACKING.inputs))
    return pd.DataFrame({"sharing_score": scores.astype(np.int64)}, index=table.index)


def _forecasts(scorer: ThroughputForecasts | ThroughputScorer, table: pd.DataFrame) -> pd.DataFrame:
    """Of a history of evenly spaced bins: each row is forecast from the rows before it."""
    if isinstance(scorer, ThroughputScorer):
        raise BadInputError(
            "A throughput model of one series cannot be served alone.",
            remedy="Save both series with ThroughputForecasts.",
        )
    result: dict[str, Any] = {}
    starts_s = {series: first_bin_s(table, scorer.scorer(series).features.bin_s) for series in SERIES}
    for series, start_s in starts_s.items():
        counts = table[series].to_numpy(dtype=np.float64)
        result[f"{series}_forecast"] = scorer.scorer(series).predict_series(counts, start_s)
    return pd.DataFrame(result, index=table.index)


def _estimates(scorer: DurationScorer, table: pd.DataFrame) -> pd.DataFrame:
    estimates = scorer.estimate(_jobs(table))
    return pd.DataFrame([vars(estimate) for estimate in estimates], columns=list(DURATION.outputs))


def _jobs(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if pd.isna(value) else value for name, value in record.items()}
        for record in table.to_dict("records")
    ]


PACKING = ServingFrame(
    dict.fromkeys(("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp"), ("double", True)),
    {"sharing_score": ("long", True)},
    _scores,
)
THROUGHPUT = ServingFrame(
    {"bin_start_s": ("long", True), **dict.fromkeys(SERIES, ("double", True))},
    {f"{series}_forecast": ("double", True) for series in SERIES},
    _forecasts,
)
DURATION = ServingFrame(
    {
        "job_id": ("string", True),
        "gpus": ("long", True),
        "submit_time_s": ("double", True),
        **{
            fact.name: ("double" if fact.is_number else "string", False)
            for fact in MODEL_FACTS
            if fact.name not in ("job_id", "gpus")
        },
    },
    {**dict.fromkeys(("p50_s", "p90_s", "mean_s"), ("double", True)), "reason": ("string", True)},
    _estimates,
)
