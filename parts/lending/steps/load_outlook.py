"""What the load of inference will be over the next hours, and how many of its servers could be lent then.

A forecaster says the next five minutes; its mean, taken for what follows, says the five after that, and so
on. How wrong that is at each lead is measured: the same is done from past moments with a known outcome, and
the quantiles of those errors lie around the mean. So a bound at a lead of two hours is as wide as two-hour
forecasts of this cluster have been wrong.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from parts.lending.load.series import BIN_S
from parts.lending.replay.orchestrator import servers_to_lend, share_of_servers
from parts.lending.replay.settings import LoanSettings
from parts.lending.usage.scorer import InferenceLoadScorer

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.9, 0.95)
HISTORY_BINS = 7 * 288  # that past moments are taken from
PAST_MOMENTS = 120
_TAIL_BINS = 144  # a mean reads the last ten bins and weighs those before; half a day is beyond both
_LEAST_MOMENTS = 20  # fewer errors say nothing of a 95 % bound


@dataclass(frozen=True)
class LoadOutlook:
    """The next bins of five minutes: `times_s` are their starts (s since 1970), equal lengths.

    `bounds` are by level: usage stays below it with that probability, as past forecasts have been wrong.
    `lendable` are the servers that could be lent by the settings if usage were at the highest bound; `now` is
    how many by the newest finished bin.
    """

    times_s: Floats
    mean: Floats
    bounds: dict[float, Floats]
    lendable: NDArray[np.int64]
    now: int
    servers: int
    past_moments: int

    @property
    def least_lendable(self) -> int:
        """How many servers could be lent over the whole time."""
        return int(self.lendable.min())


def iterated_means(scorer: InferenceLoadScorer, usage: Floats, last_bin_start_s: float, bins: int) -> Floats:
    """Return the forecast means of the next `bins`, each taken for what happened; shape (bins,)."""
    series = np.concatenate([usage[-_TAIL_BINS:], np.empty(bins)])
    end = series.size - bins
    first_bin_s = round(last_bin_start_s) - (end - 1) * BIN_S
    for ahead in range(bins):
        (series[end + ahead],) = scorer.predict_series(series[: end + ahead], first_bin_s, slice(-1, None))
    return series[end:]


def past_errors(
    scorer: InferenceLoadScorer, usage: Floats, gaps: NDArray[np.bool_], last_bin_start_s: float, bins: int
) -> Floats:
    """Return by how much usage exceeded such forecasts of past moments, shape (moments, bins); NaN: a gap."""
    newest = usage.size - bins
    oldest = max(1, usage.size - HISTORY_BINS)
    moments = np.unique(np.linspace(oldest, newest, PAST_MOMENTS).astype(int)) if newest > oldest else ()
    errors = np.full((len(moments), bins), np.nan)
    for row, moment in enumerate(moments):
        at_s = last_bin_start_s - (usage.size - moment) * BIN_S
        means = iterated_means(scorer, usage[:moment], at_s, bins)
        truth = np.where(gaps[moment : moment + bins], np.nan, usage[moment : moment + bins])
        errors[row] = truth - means
    return errors


def load_outlook(
    scorer: InferenceLoadScorer,
    usage: Floats,
    gaps: NDArray[np.bool_],
    last_bin_start_s: float,
    *,
    servers: int,
    loans: LoanSettings,
    bins: int,
) -> LoadOutlook:
    """Forecast the next `bins` of five minutes. `usage`, `gaps`: finished bins, oldest first, shape (n,).

    Raises BadInputError where the history is too short to say how wrong such forecasts are.
    """
    mean = iterated_means(scorer, usage, last_bin_start_s, bins)
    errors = past_errors(scorer, usage, gaps, last_bin_start_s, bins)
    if len(errors) < _LEAST_MOMENTS or np.isnan(errors).all(axis=0).any():
        raise BadInputError(
            f"{usage.size} bins of load are too few to forecast {bins} bins and say how wrong that may be.",
            remedy="Ingest more of the load, or look fewer hours ahead.",
        )
    bounds = {level: np.clip(mean + np.nanquantile(errors, level, axis=0), 0.0, 1.0) for level in LEVELS}
    highest = bounds[max(bounds)]
    lendable = [_lendable(share, servers, loans) for share in highest]
    return LoadOutlook(
        times_s=last_bin_start_s + BIN_S * np.arange(1, bins + 1, dtype=np.float64),
        mean=mean,
        bounds=bounds,
        lendable=np.array(lendable, dtype=np.int64),
        now=_lendable(float(usage[-1]), servers, loans),
        servers=servers,
        past_moments=len(errors),
    )


def _lendable(share: float, servers: int, loans: LoanSettings) -> int:
    """How many servers are free of inference at such a usage; the demand of jobs aside."""
    free = LoanSettings(headroom=loans.headroom)
    return servers_to_lend(servers, share_of_servers(share, servers), 0, free)
