"""Settings of sleeping nodes chosen on past weeks: the most nodes asleep within an operator's limits.

Helios (SC '21, section 4.3) has a buffer set by hand; one that is kept beyond the highest of some newest bins
does on public series what its forecast does (parts/node_sleep/README.md). So buffers and forecasts are tried
alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from foundation.checked_settings import CheckedSettings
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.timeline import SleepFigures, SleepTimeline, figures_of

WEEK_S = 7 * 86_400
BUFFER_PCT = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)  # of all nodes
BUFFER_PEAK_BINS = (1, 3, 6, 12, 24)
FORECAST_PEAK_BINS = (1, 6)


@dataclass(frozen=True)
class SleepLimits(CheckedSettings):
    """What the median of past weeks may cost a day: wake-ups, and nodes that demand lacks, times minutes.

    The median, so that one incident (a whole cluster that comes back at once) does not decide.
    """

    subject = "The limit "

    wake_ups_per_day: float = 1.0
    node_minutes_short_per_day: float = 30.0


@dataclass(frozen=True)
class TriedSettings:
    """Settings replayed on past weeks: nodes asleep on average, and what the median week costs, a day.

    `node_minutes_short_per_day` is None by bin rules, which know no boots: then wake-ups alone are limited.
    """

    settings: SleepSettings
    asleep_mean: float
    wake_ups_per_day: float
    node_minutes_short_per_day: float | None
    within_limits: bool


@dataclass(frozen=True)
class SettingsChoice:
    """The settings to use, the best buffer and the best forecast (none was tried: None), and why."""

    settings: SleepSettings
    buffer: TriedSettings
    forecast: TriedSettings | None
    weeks: int
    reason: str


def candidates(settings: SleepSettings, total_nodes: float) -> list[SleepSettings]:
    """Return variants of `settings` to try: buffers by size and by the bins that they stand on."""
    sizes = sorted({max(1, round(total_nodes * pct / 100)) for pct in BUFFER_PCT})
    bins = BUFFER_PEAK_BINS if settings.control == "buffer" else FORECAST_PEAK_BINS
    return [replace(settings, buffer_nodes=size, peak_bins=peak) for peak in bins for size in sizes]


def choose_settings(
    replay: Callable[[SleepSettings], SleepTimeline],
    buffers: Sequence[SleepSettings],
    forecasts: Sequence[SleepSettings],
    limits: SleepLimits,
) -> SettingsChoice:
    """Return the settings that put most nodes to sleep in `replay` of the weeks before, within the limits.

    Where none keeps them, those that exceed them least. A forecast is chosen only where it is better than the
    best of the `buffers`, of which there must be one; `forecasts` may be empty.
    """
    buffer, weeks = _best(replay, buffers, limits)
    past = f"On {weeks} past week{'s' if weeks > 1 else ''} the best"
    if not forecasts:
        reason = (
            f"{past} buffer put {buffer.asleep_mean:.1f} nodes to sleep, and is used; no forecast was tried."
        )
        return SettingsChoice(buffer.settings, buffer, None, weeks, _with_excess(reason, buffer))
    forecast, _ = _best(replay, forecasts, limits)
    is_better = _rank(forecast, limits) > _rank(buffer, limits)
    better = forecast if is_better else buffer
    used = "the forecast is used" if is_better else "a buffer is enough, and is used"
    reason = (
        f"{past} forecast put {forecast.asleep_mean:.1f} nodes to sleep, the best buffer "
        f"{buffer.asleep_mean:.1f}: {used}."
    )
    return SettingsChoice(better.settings, buffer, forecast, weeks, _with_excess(reason, better))


def _with_excess(reason: str, tried: TriedSettings) -> str:
    if tried.within_limits:
        return reason
    short = tried.node_minutes_short_per_day
    return (
        f"{reason} Nothing tried kept the limits: in the median week it cost {tried.wake_ups_per_day:.2f} "
        f"wake-ups{'' if short is None else f' and {short:.0f} node-minutes short'} a day."
    )


def _best(
    replay: Callable[[SleepSettings], SleepTimeline], settings: Sequence[SleepSettings], limits: SleepLimits
) -> tuple[TriedSettings, int]:
    weekly = [(tried, _weeks(replay(tried))) for tried in settings]
    judged = [_judge(tried, weeks, limits) for tried, weeks in weekly]
    return max(judged, key=lambda tried: _rank(tried, limits)), len(weekly[0][1])


def _weeks(timeline: SleepTimeline) -> list[SleepFigures]:
    """Return the figures of each week, the last one perhaps longer; of less than two weeks there is one."""
    steps = round(WEEK_S / timeline.step_s)
    count = max(1, len(timeline.awake) // steps)
    ends = [*(number * steps for number in range(1, count)), len(timeline.awake)]
    return [figures_of(timeline.part(first, last)) for first, last in zip([0, *ends[:-1]], ends, strict=True)]


def _judge(settings: SleepSettings, weeks: Sequence[SleepFigures], limits: SleepLimits) -> TriedSettings:
    days = sum(week.days for week in weeks)
    wake_ups = median(week.wake_ups_per_day for week in weeks)
    shorts = [week.node_minutes_short / week.days for week in weeks if week.node_minutes_short is not None]
    short = median(shorts) if shorts else None
    return TriedSettings(
        settings,
        asleep_mean=sum(week.asleep_mean * week.days for week in weeks) / days,
        wake_ups_per_day=wake_ups,
        node_minutes_short_per_day=short,
        within_limits=wake_ups <= limits.wake_ups_per_day
        and (short is None or short <= limits.node_minutes_short_per_day),
    )


def _rank(tried: TriedSettings, limits: SleepLimits) -> tuple[bool, float, float]:
    """Return what orders settings: within the limits by nodes asleep, beyond them by how far, least first."""
    if tried.within_limits:
        return True, tried.asleep_mean, 0.0
    excess = (tried.wake_ups_per_day - limits.wake_ups_per_day) / (limits.wake_ups_per_day or 1.0)
    if tried.node_minutes_short_per_day is not None:
        most = limits.node_minutes_short_per_day
        excess = max(excess, (tried.node_minutes_short_per_day - most) / (most or 1.0))
    return False, -excess, tried.asleep_mean
