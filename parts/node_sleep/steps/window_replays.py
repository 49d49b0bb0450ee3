"""One window of a node series, replayed under given or chosen settings, plain buffers and an oracle."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError
from foundation.progress import Progress, Work
from parts.node_sleep.replay.choice import WEEK_S, SettingsChoice, candidates, choose_settings
from parts.node_sleep.replay.control import NodeForecaster
from parts.node_sleep.replay.demand_window import DemandWindow, demand_window
from parts.node_sleep.replay.naive_forecast import NaiveForecaster
from parts.node_sleep.replay.series_forecast import RememberingForecaster, SeriesForecaster
from parts.node_sleep.replay.series_replay import replay_bins, replay_minutes
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.timeline import SleepTimeline, figures_of
from parts.node_sleep.steps.fitted_forecast import LEAST_DAYS, fit_forecaster
from parts.node_sleep.steps.published_forecast import PublishedForecast
from parts.node_sleep.steps.replay_request import NodeReplaySettings

MOST_PAST_WEEKS = 4
CURVE_PCT = 1.2  # of all nodes: the step of the curve of plain buffers
CURVE_POINTS = 12


@dataclass(frozen=True)
class Forecasts:
    """Where forecasts come from: a published one, else a model that learns from `held_bins`, gaps held."""

    published: PublishedForecast | None
    held_bins: NodeSeries
    zone: ZoneInfo

    def known_at_start(self, window: DemandWindow, sleep: SleepSettings) -> NodeForecaster | None:
        """Return what can forecast from the beginning of a window on; None where there are too few days."""
        if self.published is not None:
            return self.published.forecaster(sleep.near_bins) if self.published.covers(window) else None
        offset = datetime.fromtimestamp(window.start_s, self.zone).utcoffset()
        return fit_forecaster(
            self.held_bins,
            window.start_s,
            sleep.near_bins,
            utc_offset_s=round(offset.total_seconds()) if offset else 0,
        )


class WindowReplays:
    """A window of a series, replayed under several settings."""

    def __init__(
        self,
        series: NodeSeries,
        window: DemandWindow,
        settings: NodeReplaySettings,
        forecasts: Forecasts,
        progress: Progress,
    ) -> None:
        self._series = series
        self._window = window
        self._settings = settings
        self._forecasts = forecasts
        self._progress = progress

    def settings(self) -> tuple[SleepSettings, SettingsChoice | None, str]:
        """Return the settings to replay, how they were chosen (None: they were not), and why in words."""
        settings = self._settings
        name = {"causal": "forecast", "oracle": "forecast"}.get(settings.control, settings.control)
        stated = replace(settings.sleep or SleepSettings(), control=name, boot_s=settings.boot_s)
        if settings.control != "causal" or settings.sleep is not None:
            return stated, None, self._as_given()
        weeks = _past_weeks(self._window.start_s - self._series.start_s)
        published = self._forecasts.published
        if weeks < 1:
            if published is not None:
                return (
                    stated,
                    None,
                    "No week lies before the start to choose on: the forecast is used as given.",
                )
            buffer = replace(stated, control="buffer")
            return (
                buffer,
                None,
                f"No week lies before the start to choose on: {stated.buffer_nodes} nodes idle.",
            )
        past = demand_window(self._series, self._window.start_s - weeks * WEEK_S, self._window.start_s)
        if published is not None and not published.covers(past):
            return stated, None, "The published forecast has no past weeks to choose on: it is used as given."
        choice = self._chosen(stated, past)
        return choice.settings, choice, choice.reason

    def _as_given(self) -> str:
        days = (self._window.start_s - self._series.start_s) / 86_400
        learns = self._settings.control == "causal" and self._forecasts.published is None
        if learns and days < LEAST_DAYS:
            return (
                f"The settings are as given. {days:.3g} days lie before the start and a model learns from "
                f"{LEAST_DAYS}: of the naive forecasts, that which erred least so far is used."
            )
        return "The settings are as given."

    def _chosen(self, given: SleepSettings, past: DemandWindow) -> SettingsChoice:
        forecaster = self._forecasts.known_at_start(past, given)
        total = float(past.total[-1, -1])
        buffers = candidates(replace(given, control="buffer"), total)
        forecasts = candidates(given, total) if forecaster else []
        done = 0
        work = Work("choosing settings on past weeks", "settings")

        def replay_past(tried: SleepSettings) -> SleepTimeline:
            nonlocal done
            self._progress(done, len(buffers) + len(forecasts), work)
            done += 1
            return self.replay(past, tried, forecaster)

        return choose_settings(replay_past, buffers, forecasts, self._settings.limits)

    def forecaster(self, sleep: SleepSettings) -> NodeForecaster | None:
        """Return what the control of the replay asks."""
        if self._settings.control == "oracle":
            return self._future(sleep)
        if sleep.control != "forecast":
            return None
        forecaster = self._forecasts.known_at_start(self._window, sleep)
        if forecaster is None and self._forecasts.published is not None:
            raise BadInputError(
                "The published forecast lacks bins of the days that are replayed.",
                remedy="Choose another --start and --end, leave --forecast out, or use --control buffer.",
            )
        return forecaster or RememberingForecaster(NaiveForecaster(sleep.near_bins))

    def _future(self, sleep: SleepSettings) -> NodeForecaster:
        bins = self._window.bins
        return RememberingForecaster(SeriesForecaster(bins.start_s, bins.running, sleep.near_bins))

    def replay(
        self, window: DemandWindow, sleep: SleepSettings, forecaster: NodeForecaster | None
    ) -> SleepTimeline:
        """Replay a window by the rules that hold."""
        if self._settings.used_rules == "minutes":
            return replay_minutes(window, sleep, forecaster, failures=self._settings.failures)
        published = None
        if sleep.control == "helios-artifact":
            if self._forecasts.published is None:
                raise BadInputError(
                    "The control 'helios-artifact' needs its forecast.", remedy="Give --forecast FILE."
                )
            published = self._forecasts.published.of(window)
        return replay_bins(window, sleep, forecaster, published_forecast=published)

    def curve(self, sleep: SleepSettings) -> list[dict[str, Any]]:
        """Return the figures of plain buffers, by their size."""
        step = max(1, round(float(self._window.total.max()) * CURVE_PCT / 100))
        return [
            {
                "buffer_nodes": size,
                **asdict(
                    figures_of(
                        self.replay(
                            self._window,
                            replace(sleep, control="buffer", buffer_nodes=size, peak_bins=1),
                            None,
                        )
                    )
                ),
            }
            for size in range(step, step * (CURVE_POINTS + 1), step)
        ]

    def oracle(self, sleep: SleepSettings) -> SleepTimeline:
        """Replay the window under Helios' rule with a forecast that knows the future."""
        return self.replay(self._window, replace(sleep, control="forecast", peak_bins=1), self._future(sleep))


def _past_weeks(past_s: float) -> int:
    """Return on how many weeks to choose: where two remain, with days before to learn a forecast from."""
    with_forecast = int((past_s - LEAST_DAYS * 86_400) // WEEK_S)
    return min(MOST_PAST_WEEKS, with_forecast if with_forecast >= 2 else int(past_s // WEEK_S))
