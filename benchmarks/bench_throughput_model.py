"""Error and cost of the Throughput Predict Model on Helios's Venus, beside the best naive rivals.

    LUCID_REFERENCE_DATA=DATA python benchmarks/bench_throughput_model.py [--offset-days N] [--json F]

Trained on all that lies before the last four weeks, tested on those (1-28 September 2020, 4,032 bins);
`--offset-days 28` shifts both by four weeks into the past, which is how settings are chosen. Times are CPU
seconds of one core: "rows" scores feature rows that are there already, "forecast" computes the features too.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from cluster_logs.ingest import read_throughput_file
from lucid_models.evaluation.baselines import throughput_baselines
from lucid_models.throughput.model import ThroughputPredictModel, binned_series

TEST_DAYS = 28
SERIES = {"jobs": "submitted_gpu_jobs", "gpus": "submitted_gpus"}
LEADS = {"g5": 5, "g1": 1}


def best_ms(call: Callable[[], object], repeats: int = 15) -> float:
    """Least CPU milliseconds of a call."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - began))
    return min(times)


def measure(path: Path, offset_days: int) -> list[dict[str, object]]:
    table = read_throughput_file(str(path), time_zone="UTC")
    bin_s = int(table["bin_s"].iloc[0])
    day = 86_400 // bin_s
    table = table.iloc[: len(table) - offset_days * day]
    test = TEST_DAYS * day
    rows: list[dict[str, object]] = []
    for series, column in SERIES.items():
        data = binned_series(table, column)
        truth = data.counts[-test:]
        for lead, bins in LEADS.items():
            began = time.process_time()
            model = ThroughputPredictModel().fit(table.iloc[:-test], column, bins)
            fit_s = time.process_time() - began
            scorer = model.scorer
            # Nothing older than the features look back is needed to forecast the test bins.
            reach = test + scorer.features.history_bins
            start_s = data.first_bin_s + (data.counts.size - reach) * bin_s
            forecast = partial(scorer.predict_series, data.counts[-reach:], start_s, slice(-test, None))
            matrix = scorer.features.matrix(data.counts[-reach:], start_s, slice(-test, None))
            naive = throughput_baselines(data.counts, bins, bin_s)
            errors = {name: float(np.nanmean(np.abs(v[-test:] - truth))) for name, v in naive.items()}
            best = min(errors, key=errors.__getitem__)
            rows.append(
                {
                    "series": series,
                    "lead": lead,
                    "mae": float(np.nanmean(np.abs(forecast() - truth))),
                    "best_naive": best,
                    "best_naive_mae": errors[best],
                    "fit_s": fit_s,
                    "rows_ms": best_ms(partial(scorer.predict_rows, matrix)),
                    "forecast_ms": best_ms(forecast),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Error and cost of the Throughput Predict Model.")
    parser.add_argument("--offset-days", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = os.environ.get("LUCID_REFERENCE_DATA")
    if not folder:
        print("skipped: LUCID_REFERENCE_DATA does not name the folder of public data")
        return
    found = measure(Path(folder) / "data" / "venus" / "cluster_throughput.csv.gz", options.offset_days)
    print(f"{'series':6} {'lead':4} {'MAE':>7} {'naive':>7} {'fit s':>6} {'rows ms':>8} {'forecast ms':>12}")
    for row in found:
        print(
            f"{row['series']:6} {row['lead']:4} {row['mae']:7.3f} {row['best_naive_mae']:7.3f} "
            f"{row['fit_s']:6.2f} {row['rows_ms']:8.2f} {row['forecast_ms']:12.2f}   ({row['best_naive']})"
        )
    if options.json:
        options.json.write_text(json.dumps({"python": sys.version, "rows": found}, indent=2))


if __name__ == "__main__":
    main()
