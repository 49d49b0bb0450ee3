"""What an orchestrator of loans knew on past days, what it would have lent, and when that was short.

Everything is causal: at the start of a five-minute bin those before it are finished, and no other is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

import numpy as np
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from parts.lending.load.series import BIN_S, InferenceSeries, read_inference_series
from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.orchestrator import servers_to_lend, share_of_servers, shares_of_servers
from parts.lending.replay.settings import LoanSettings
from parts.lending.usage.scorer import InferenceLoadScorer

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KnownLoad:
    """Bins of a window; arrays of shape (bins,).

    `times_s`: their starts (s since 1970). `usage`: what then was, `gap` where that was not measured.
    `present`: of the newest bin finished by the start, `believed`: the quantile that was forecast of the bin
    (None: nothing is forecast). `bounds`: by quantile, all that were forecast.
    """

    times_s: Floats
    usage: Floats
    gap: NDArray[np.bool_]
    present: Floats
    believed: Floats | None
    bounds: dict[float, Floats]
    servers: int

    @property
    def coverage(self) -> dict[float, float]:
        """By quantile, the share of the measured bins in which usage did not exceed it."""
        measured = ~self.gap
        if not measured.any():
            return {}
        return {
            level: float((self.usage <= bound + 1e-12)[measured].mean())
            for level, bound in sorted(self.bounds.items())
        }

    def service(self, origin_s: float, **options: float) -> InferenceService:
        """Return the service on the clock of a replay that begins at `origin_s`.

        Decisions go by the usage of the bin before and by what is believed; what inference uses, and whether
        it is short, by what then was. A replay's decisions fall on whole periods of its own clock: bins begin
        there, too (`replay_times_s`). `options`: other fields of InferenceService.
        """
        return InferenceService(
            self.servers,
            tuple(self.replay_times_s(origin_s).tolist()),
            tuple(self.usage.tolist()),
            None if self.believed is None else tuple(self.believed.tolist()),
            tuple(self.present.tolist()),
            **options,  # type: ignore[arg-type]
        )

    def replay_times_s(self, origin_s: float) -> Floats:
        """Return the bins' starts on the clock of a replay (s): up to a bin late, so that they are whole."""
        return self.times_s - origin_s // BIN_S * BIN_S

    def short(self, on_loan: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return in which bins inference lacked servers, if so many were on loan; never in a gap."""
        needed = shares_of_servers(self.usage, self.servers)
        return (needed > self.servers - np.asarray(on_loan)) & ~self.gap

    def short_pct(self, on_loan: Sequence[int] | NDArray[np.int64]) -> float | None:
        """Return in how many of the measured bins that was so; None without any."""
        measured = int((~self.gap).sum())
        return 100.0 * float(self.short(on_loan).sum()) / measured if measured else None


def load_of(site: Site, end: datetime | None = None) -> InferenceSeries | str:
    """Return the lake's inference load of a cluster before `end`, or why there is none."""
    try:
        series = read_inference_series(
            Lake(site.lake).read_series("inference_load", site.cluster, None, end), f"The lake {site.lake}"
        )
    except (NotFoundError, BadInputError) as error:
        return str(error)
    if series.servers is None:
        return f"The inference load of {site.cluster!r} does not say how many servers there are."
    return series


def known_load(
    series: InferenceSeries,
    start: datetime,
    end: datetime,
    scorer: InferenceLoadScorer | None = None,
    quantile: float = 0.95,
) -> KnownLoad:
    """Return what was known in the bins that start in [start, end), and what then was.

    Raises BadInputError where the series has no bin there after its first, does not say how many servers
    there are, or where `quantile` is none that the scorer gives.
    """
    times_s = series.times_s
    rows = np.flatnonzero((times_s >= start.timestamp()) & (times_s < end.timestamp()))
    rows = rows[rows > 0]
    if not rows.size or series.servers is None:
        raise BadInputError(
            f"There is no inference load of known servers from {start:%Y-%m-%d %H:%M} to "
            f"{end:%Y-%m-%d %H:%M} UTC.",
            remedy="Ingest the load of those days.",
        )
    bounds: dict[float, Floats] = {}
    if scorer is not None:
        quantiles = scorer.past_forecasts(series.usage, round(series.start_s), series.gap).quantiles
        if quantile not in quantiles:
            levels = ", ".join(f"{level:g}" for level in sorted(quantiles))
            raise BadInputError(
                f"The forecast has no quantile {quantile:g}.",
                remedy=f"Use one of {levels} (--loaning quantile=...).",
            )
        bounds = {level: bound[rows] for level, bound in quantiles.items()}
    return KnownLoad(
        times_s=times_s[rows],
        usage=series.usage[rows],
        gap=series.gap[rows],
        present=series.usage[rows - 1],
        believed=bounds[quantile] if bounds else None,
        bounds=bounds,
        servers=series.servers,
    )


def lent_servers(known: KnownLoad, loans: LoanSettings) -> NDArray[np.int64]:
    """Return how many servers would have been on loan in each bin, whatever jobs wanted; shape (bins,)."""
    settings = LoanSettings(
        headroom=loans.headroom, hysteresis_servers=loans.hysteresis_servers, hold_s=loans.hold_s
    )
    shares = known.present if known.believed is None else np.maximum(known.present, known.believed)
    on_loan, reclaimed_at_s = 0, -inf
    lent = np.empty(shares.size, dtype=np.int64)
    for row, (at_s, share) in enumerate(zip(known.times_s.tolist(), shares.tolist(), strict=True)):
        if at_s % max(loans.period_s, BIN_S) == 0:
            needed = share_of_servers(share, known.servers)
            target = servers_to_lend(
                known.servers, needed, on_loan, settings, since_reclaim_s=at_s - reclaimed_at_s
            )
            if target < on_loan:
                reclaimed_at_s = at_s
            on_loan = target
        lent[row] = on_loan
    return lent


def on_loan_at(loans: Sequence[tuple[float, int]], times_s: Floats) -> NDArray[np.int64]:
    """Return the most servers on loan in each bin that starts at `times_s`, by steps (s, servers)."""
    at_s = np.array([at for at, _ in loans], dtype=np.float64)
    servers = np.array([count for _, count in loans], dtype=np.int64)
    # What is lent at a bin's start is decided then: the last step at that moment holds.
    first = np.searchsorted(at_s, times_s, side="right") - 1
    last = np.searchsorted(at_s, times_s + BIN_S, side="left") - 1
    most = [
        int(servers[max(0, begin) : max(begin, end) + 1].max(initial=0)) if end >= 0 else 0
        for begin, end in zip(first.tolist(), last.tolist(), strict=True)
    ]
    return np.array(most, dtype=np.int64)
