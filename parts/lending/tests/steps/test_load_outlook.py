"""The next hours of inference load: bounds as wide as forecasts have been wrong."""

import numpy as np
import pytest

from foundation.errors import BadInputError
from parts.lending.load.series import BIN_S, InferenceSeries, read_inference_series
from parts.lending.replay.settings import LoanSettings
from parts.lending.steps.load_outlook import LoadOutlook, load_outlook
from parts.lending.steps.outlook_picture import draw_outlook
from parts.lending.tests.steps.inference_days import FAST, SERVERS, inference_days
from parts.lending.usage.model import InferenceLoadModel
from parts.lending.usage.scorer import InferenceLoadScorer

BINS = 36


@pytest.fixture(scope="module")
def series() -> InferenceSeries:
    return read_inference_series(inference_days(4))


@pytest.fixture(scope="module")
def scorer(series: InferenceSeries) -> InferenceLoadScorer:
    return InferenceLoadModel(FAST).fit(series.first(3 * 288)).scorer


def outlook_of(
    series: InferenceSeries, scorer: InferenceLoadScorer, bins: int = BINS, **loans: float
) -> LoadOutlook:
    return load_outlook(
        scorer,
        series.usage,
        series.gap,
        series.last_bin_start_s,
        servers=SERVERS,
        loans=LoanSettings(**loans),  # type: ignore[arg-type]
        bins=bins,
    )


@pytest.fixture(scope="module")
def outlook(series: InferenceSeries, scorer: InferenceLoadScorer) -> LoadOutlook:
    return outlook_of(series, scorer)


def test_the_hours_follow_the_day_and_bounds_widen(
    series: InferenceSeries, scorer: InferenceLoadScorer, outlook: LoadOutlook
) -> None:
    assert outlook.times_s[0] == series.last_bin_start_s + BIN_S
    assert outlook.mean.shape == outlook.lendable.shape == (BINS,)
    assert (outlook.bounds[0.5] <= outlook.bounds[0.95]).all()
    width = outlook.bounds[0.95] - outlook.mean
    assert width[-6:].mean() > width[:6].mean()
    assert outlook.mean[0] == pytest.approx(scorer.predict_series(series.usage, round(series.start_s))[-1])


@pytest.mark.thorough("many draws")
def test_a_bound_holds_about_as_often_as_it_says(
    series: InferenceSeries, scorer: InferenceLoadScorer
) -> None:
    held = []
    for bins in range(3 * 288, 4 * 288 - 12, 24):
        part = series.first(bins)
        outlook = outlook_of(part, scorer, bins=12)
        held.append((series.usage[bins : bins + 12] <= outlook.bounds[0.9]).mean())
    assert 0.7 <= float(np.mean(held)) <= 1.0


def test_fewer_servers_are_lendable_with_more_headroom(
    series: InferenceSeries, scorer: InferenceLoadScorer
) -> None:
    little, much = (outlook_of(series, scorer, bins=12, headroom=share) for share in (0.0, 0.2))
    assert (little.lendable - much.lendable == 8).all()
    assert little.least_lendable == little.lendable.min()
    assert little.now == SERVERS - np.ceil(series.usage[-1] * SERVERS - 1e-9)


def test_too_short_a_history_is_refused(series: InferenceSeries, scorer: InferenceLoadScorer) -> None:
    with pytest.raises(BadInputError, match="40 bins of load are too few"):
        outlook_of(series.first(40), scorer)


def test_the_picture_shows_a_day_and_the_hours(series: InferenceSeries, outlook: LoadOutlook) -> None:
    figure = draw_outlook(outlook, series.times_s, series.usage, "small & <fast>")
    above, below = figure.axes
    assert len(above.lines[0].get_xdata()) == 288
    assert "small & <fast>" in above.get_title()
    assert below.get_ylabel() == "servers that\ncould be lent"
