"""Tables in, tables out: how MLflow's scoring interface talks to our scorers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from lucid_models.duration.job_columns import MODEL_FACTS
from lucid_models.inference_load.scorer import InferenceLoadScorer
from lucid_models.node_demand.scorer import TARGETS, NodeDemandScorer
from lucid_models.scoring import DurationScorer, PackingScorer, Scorer, UtilisationScorer
from lucid_models.throughput.forecasts import ThroughputForecasts
from lucid_models.throughput.scorer import SERIES
from lucid_models.utilisation.graph_features import FEATURE_NAMES, GraphFeatures
from lucid_models.utilisation.scorer import FIGURES
from lucid_models.waits.queue_frame import QUEUE_COLUMNS, read_queue_frame
from lucid_models.waits.scorer import WaitScorer

# Column -> (type in MLflow's words, whether it must be there).
Columns = Mapping[str, tuple[str, bool]]

INPUT_COLUMNS: Mapping[str, Columns] = {
    "packing": dict.fromkeys(("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp"), ("double", True)),
    "throughput": {"bin_start_s": ("long", True), **dict.fromkeys(SERIES, ("double", True))},
    "duration": {
        "job_id": ("string", True),
        "gpus": ("long", True),
        "submit_time_s": ("double", True),
        **{
            fact.name: ("double" if fact.is_number else "string", False)
            for fact in MODEL_FACTS
            if fact.name not in ("job_id", "gpus")
        },
    },
    "utilisation": dict.fromkeys((*FEATURE_NAMES, "amp"), ("double", True)),
    "node_demand": {"bin_start_s": ("long", True), "busy": ("double", True)},
    "inference_load": {"bin_start_s": ("long", True), "usage": ("double", True)},
    "waits": QUEUE_COLUMNS,
}
OUTPUT_COLUMNS: Mapping[str, Columns] = {
    "packing": {"sharing_score": ("long", True)},
    "throughput": {f"{series}_forecast": ("double", True) for series in SERIES},
    "duration": {
        "p50_s": ("double", True),
        "p90_s": ("double", True),
        "mean_s": ("double", True),
        "reason": ("string", True),
    },
    "utilisation": {**dict.fromkeys(FIGURES, ("double", True)), "reason": ("string", True)},
    "node_demand": dict.fromkeys(TARGETS, ("double", True)),
    "inference_load": {"usage_forecast": ("double", True)},
    "waits": dict.fromkeys(("p50_s", "p90_s"), ("double", True)),
}


def score_frame(scorer: Scorer, table: pd.DataFrame) -> pd.DataFrame:
    """Score a table with the columns of INPUT_COLUMNS; the result has those of OUTPUT_COLUMNS, row for row.

    A throughput table is a history of evenly spaced bins; each row is forecast from the rows before it. So is
    a table of busy nodes, or of the usage of servers; what follows each row is forecast from the rows up to
    it. A table of a queue is that of one moment, with the jobs that started lately; they wait 0 s more.
    """
    if isinstance(scorer, PackingScorer):
        scores = scorer.predict(
            *(table[name].to_numpy(dtype=np.float64) for name in INPUT_COLUMNS["packing"])
        )
        return pd.DataFrame({"sharing_score": scores.astype(np.int64)}, index=table.index)
    if isinstance(scorer, ThroughputForecasts):
        return _forecast(scorer, table)
    if isinstance(scorer, NodeDemandScorer):
        first_bin_s = _first_bin_s(table, scorer.features.bin_s)
        return pd.DataFrame(
            scorer.predict_series(table["busy"].to_numpy(dtype=np.float64), first_bin_s), index=table.index
        )
    if isinstance(scorer, InferenceLoadScorer):
        first_bin_s = _first_bin_s(table, scorer.features.bin_s)
        forecasts = scorer.predict_series(table["usage"].to_numpy(dtype=np.float64), first_bin_s)
        return pd.DataFrame({"usage_forecast": forecasts}, index=table.index)
    if isinstance(scorer, WaitScorer):
        queue, partitions, rows = read_queue_frame(table)
        waits_s = np.zeros((len(table), 2))
        waits_s[rows] = scorer.forecast(queue, partitions)
        return pd.DataFrame(waits_s, columns=list(OUTPUT_COLUMNS["waits"]), index=table.index)
    if isinstance(scorer, DurationScorer):
        estimates = scorer.estimate(_jobs(table))
        return pd.DataFrame(
            [vars(estimate) for estimate in estimates], columns=list(OUTPUT_COLUMNS["duration"])
        )
    if isinstance(scorer, UtilisationScorer):
        graphs = [
            GraphFeatures.from_data({name: row[name] for name in FEATURE_NAMES})
            for row in table.to_dict("records")
        ]
        predicted = scorer.predict(graphs, [bool(amp) for amp in table["amp"]])
        return pd.DataFrame(
            [vars(one) for one in predicted], columns=list(OUTPUT_COLUMNS["utilisation"]), index=table.index
        )
    raise BadInputError(
        "A throughput model of one series cannot be served alone.",
        remedy="Save both series with ThroughputForecasts.",
    )


def _forecast(scorer: ThroughputForecasts, table: pd.DataFrame) -> pd.DataFrame:
    bins = {series: scorer.scorer(series).features.bin_s for series in SERIES}
    result: dict[str, Any] = {}
    for series, bin_s in bins.items():
        first_bin_s = _first_bin_s(table, bin_s)
        counts = table[series].to_numpy(dtype=np.float64)
        result[f"{series}_forecast"] = scorer.scorer(series).predict_series(counts, first_bin_s)
    return pd.DataFrame(result, index=table.index)


def _first_bin_s(table: pd.DataFrame, bin_s: int) -> int:
    """When a history begins; raises BadInputError unless its bins follow one another."""
    starts = table["bin_start_s"].to_numpy(dtype=np.int64)
    if not len(starts) or (np.diff(starts) != bin_s).any():
        raise BadInputError(
            f"The history is empty or its bins do not follow one another every {bin_s} s.",
            remedy="Give one row a bin, in order, with NaN where nothing was counted.",
        )
    return int(starts[0])


def _jobs(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if pd.isna(value) else value for name, value in record.items()}
        for record in table.to_dict("records")
    ]
