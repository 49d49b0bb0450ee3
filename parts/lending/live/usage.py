"""What inference uses and will use: readings of the usage, kept in finished bins for the release's forecast.

    STATE/inference_usage.jsonl    {"start_s": 1795382400, "usage": 0.61}

The usage that counts is the last one that was read; where the release has a forecast, the larger of both. A
source that says nothing is waited for, and what is on loan stays so meanwhile; after `usage_lost_after_s`
inference counts as using all of its nodes.
"""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.errors import LucidError
from live_scheduler.memory.records import SeenBins
from parts.lending.live.loan_plan import InferenceNeed
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.live.usage_source import ReadUsage
from parts.lending.replay.forecast import BIN_S, UsageForecaster
from parts.lending.replay.released_loans import ReleasedLoans

USAGE_FILE = "inference_usage.jsonl"


@dataclass(frozen=True)
class ForecastInUse:
    """The forecast that counts (None: none does) by one of its quantiles; `why` there is none, for people."""

    forecaster: UsageForecaster | None
    quantile: float
    why: str = ""

    @classmethod
    def of(cls, rules: ReleasedLoans, forecaster: UsageForecaster | None) -> "ForecastInUse":
        """Return what the rules ask for and the release has."""
        if rules.usage != "forecast":
            return cls(None, rules.quantile)
        return cls(forecaster, rules.quantile, "" if forecaster else " (the release has no forecast of it)")

    def describe(self) -> str:
        """Return what the need goes by, for people."""
        if self.forecaster is None:
            return f"the usage as last read{self.why}"
        return f"the larger of the usage and the forecast's quantile {self.quantile:g}"

    def value(self, usage: NDArray[np.float64], last_bin_start_s: float) -> float:
        """Return the quantile of the next bin, between those that are told by a line; NaN: there is none."""
        if self.forecaster is None:
            return float("nan")
        told = self.forecaster.forecast(usage, last_bin_start_s).quantiles
        if not told:
            return float("nan")
        levels = sorted(told)
        return float(np.interp(self.quantile, levels, [told[level] for level in levels]))


class InferenceUsage:
    """The usage of one cluster's inference."""

    def __init__(self, settings: NodeLoanSettings, folder: Path, read: ReadUsage | None) -> None:
        """`read` as `usage_reader` makes it (None: busy nodes count). Raises OSError for the record."""
        self._settings, self._read = settings, read
        self._bins = SeenBins(folder / USAGE_FILE, "usage", bin_s=BIN_S, most=1.0)
        self._read_s: float | None = None  # when it was read last, or asked for first

    def need(
        self, now_s: float, busy_share: float, forecast: ForecastInUse
    ) -> tuple[InferenceNeed | None, str | None]:
        """Return what inference needs, and what is wrong with it; without a need nothing is to be changed.

        `busy_share` of the nodes has jobs of inference. Raises OSError when a bin cannot be written.
        """
        try:
            usage = busy_share if self._read is None else self._read()
        except LucidError as error:
            return self._without(now_s, str(error))
        self._read_s = now_s
        self._bins.note(now_s, usage)
        return InferenceNeed(usage, self._forecast(forecast, now_s)), None

    def _without(self, now_s: float, why: str) -> tuple[InferenceNeed | None, str]:
        if self._read_s is None:
            self._read_s = now_s
        if now_s - self._read_s <= self._settings.usage_lost_after_s:
            return None, f"{why} What is on loan stays so."
        return InferenceNeed(1.0), f"{why} Since that lasts, every node is taken back."

    def _forecast(self, forecast: ForecastInUse, now_s: float) -> float | None:
        """Return the forecast of the bin after the newest finished one, where that has just ended."""
        newest_s = self._bins.newest_start_s
        if newest_s is None or not newest_s + BIN_S <= now_s < newest_s + 2 * BIN_S:
            return None
        value = forecast.value(self._bins.values(), float(newest_s))
        return min(max(value, 0.0), 1.0) if isfinite(value) else None
