"""The forecast of inference usage and the headroom it allows, on public series.

    python -m experiments.model_quality.inference_study DATA --write parts/lending/inference_load.md

With PyTorch installed (`make install-zoo`) an LSTM stands beside it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from experiments.model_quality.headroom import LAST_VALUE, HeadroomOutcome, choose_headroom, headroom_outcome
from experiments.model_quality.inference_inputs import read_load, scraped_duty_cycle, scraped_requests
from experiments.model_quality.inference_rivals import inference_rivals
from experiments.model_quality.inference_walk_forward import walk_forward
from experiments.pages import run_study
from foundation.markdown import NO_VALUE, markdown_table, number
from lucid_models.evaluation.measures import Row
from parts.lending.load.series import InferenceSeries
from parts.lending.load.table import LoadReading
from parts.lending.usage.evaluation import OURS, evaluate_inference_load
from parts.lending.usage.features import WINDOW_BINS

SERVERS = 94
# Of the series that are shorter than two days.
TEST_SHARE = 0.3
_SCRAPE_S = 57
LIMITS = (0.05, 0.02, 0.01, 0.005)
PLAIN = (0.0, 0.01, 0.02, 0.05, 0.1)
_RIVALS = ("last_value", "ewma_0.5", "ar_10", "same_time_yesterday", "ebm", "ebm_ewma", "lightgbm", "lstm")
_ACCURACY = ("series", "bins", "member", "ours", *_RIVALS, "P90 covers", "least and most of a day")
_HEADROOM = ("forecast", "headroom %", "steps short %", "servers short", "P99 short", "servers lendable")


def tables(data: Path) -> dict[str, str]:
    """Return the tables by the markers that they stand between."""
    fortnight = read_load(
        str(data / "data/lyra/inference_load.csv.gz"), "inference-load", LoadReading(SERVERS)
    )
    return {
        "inference forecasts": markdown_table(_ACCURACY, _accuracy(data)),
        "inference headroom": markdown_table(_HEADROOM, _headroom(fortnight)),
    }


def _series(data: Path) -> Mapping[str, tuple[InferenceSeries, float]]:
    """Each series and when its test begins, seconds since 1970."""
    rates = str(data / "data/lyra/servegen_rates_10min.csv.gz")
    series: dict[str, tuple[InferenceSeries, float]] = {}
    for column, words in (("m_small", "ServeGen m-small, 10 min"), ("m_large", "ServeGen m-large, 10 min")):
        load = LoadReading(zeros_are_gaps=True, rates_column=column)
        series[words] = (read_load(rates, "inference-load", load), 864_000.0)
    nodes = read_load(
        str(data / "data/philly/philly_node_sequence.csv.gz"), "node-sequence", LoadReading(552)
    )
    series["Philly's busy nodes of 552, 5 min"] = (nodes, datetime(2017, 12, 1, tzinfo=UTC).timestamp())
    folder = data / "data/inference"
    requests = scraped_requests(folder / "qps.csv.gz", scrape_s=_SCRAPE_S)
    duty_cycle = scraped_duty_cycle(folder / "pod_gpu_duty_cycle.csv.gz")
    series["Alibaba GenAI requests, 5 min"] = (requests, _last_part(requests))
    series["Alibaba GenAI GPU duty cycle, 5 min"] = (duty_cycle, _last_part(duty_cycle))
    return series


def _last_part(series: InferenceSeries) -> float:
    """When the newest TEST_SHARE of the bins with a whole window before them begins."""
    tested = int(TEST_SHARE * (series.usage.size - WINDOW_BINS))
    return float(series.times_s[-tested])


def _accuracy(data: Path) -> list[list[str]]:
    rows = []
    for words, (series, begin_s) in _series(data).items():
        measured = {
            row["model"]: row for row in evaluate_inference_load(series, begin_s, rivals=inference_rivals())
        }
        ours = measured[OURS]
        against = {name: _share(measured.get(name)) for name in (OURS, *_RIVALS)}
        days = f"{100 * ours['least_day_p90']:.1f} to {100 * ours['most_day_p90']:.1f} %"
        covered = f"{100 * ours['coverage_p90']:.1f} %"
        rows.append([words, number(ours["bins"], 0), str(ours["member"]), *against.values(), covered, days])
    return rows


def _share(row: Row | None) -> str:
    return NO_VALUE if row is None else number(row["against_last_value"], 3)


def _headroom(series: InferenceSeries) -> list[list[str]]:
    usage = series.usage
    said = walk_forward(series)
    quantiles = {f"P{100 * level:g}": values[:-1] for level, values in said.quantiles.items()}
    plain = [headroom_outcome(usage, None, SERVERS, share) for share in PLAIN]
    chosen = [
        (limit, forecast, choose_headroom(usage, choices, SERVERS, limit))
        for limit in LIMITS
        for forecast, choices in ((LAST_VALUE, {LAST_VALUE: None}), ("ours", quantiles))
    ]
    rows = [[LAST_VALUE, *_figures(one)] for one in plain]
    for limit, forecast, choice in chosen:
        one = choice.chosen
        name = forecast if forecast == LAST_VALUE else f"ours, {one.forecast}"
        held = "at most" if choice.holds else "not within"
        rows.append([f"{name}: {held} {100 * limit:g} % short", *_figures(one)])
    return rows


def _figures(one: HeadroomOutcome) -> list[str]:
    return [
        number(100 * one.headroom, 1),
        number(100 * one.short_share, 2),
        number(one.mean_short, 3),
        number(one.p99_short, 1),
        number(one.mean_lendable, 2),
    ]


if __name__ == "__main__":
    run_study("experiments.model_quality.inference_study", __doc__, tables)
