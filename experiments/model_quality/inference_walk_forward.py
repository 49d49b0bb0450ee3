"""What would have been said of each bin of a series, by models that learned from earlier bins alone."""

import numpy as np

from foundation.progress import Progress, silent
from lucid_models.series.windows import DAY_S
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.fitting import LEAST_BINS, LoadSettings, fit_load_scorer
from parts.lending.usage.scorer import QUANTILES, PastForecasts


def walk_forward(
    series: InferenceSeries,
    settings: LoadSettings | None = None,
    *,
    retrain_s: int = DAY_S,
    progress: Progress = silent,
) -> PastForecasts:
    """What would have been said of each bin by a model that is trained anew every `retrain_s` seconds.

    Before LEAST_BINS bins there is no model: a usage of 1 is said, so that nothing is lent.
    """
    chosen = settings or LoadSettings()
    bins, step = series.usage.size, max(retrain_s // series.bin_s, 1)
    mean = np.ones(bins + 1)
    quantiles = {level: np.ones(bins + 1) for level in QUANTILES}
    starts = [LEAST_BINS, *range(step * (LEAST_BINS // step + 1), bins, step)]
    for number, begin in enumerate(starts if bins >= LEAST_BINS else ()):
        progress(number, len(starts), "forecasting past bins")
        end = starts[number + 1] if number + 1 < len(starts) else bins + 1
        if series.gap[:begin].all():
            continue
        scorer = fit_load_scorer(series.first(begin), chosen)
        known = series.first(min(end, bins))
        said = scorer.past_forecasts(known.usage, round(known.start_s), known.gap)
        mean[begin:end] = said.mean[begin:end]
        for level, values in said.quantiles.items():
            quantiles[level][begin:end] = values[begin:end]
    progress(len(starts), len(starts), "forecasting past bins")
    return PastForecasts(mean, quantiles)
