"""One replay of sleeping nodes on a node series, beside the curve of plain buffers and an oracle."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np

from cluster_logs.node_series import NodeSeries, read_node_series
from cluster_logs.readers.time_zones import load_zone
from foundation.errors import BadInputError, UnknownNameError
from foundation.progress import Progress, Work, silent
from pipeline.node_sleep.fitted_forecast import LEAST_DAYS, fit_forecaster
from pipeline.node_sleep.published_forecast import PublishedForecast, read_published_forecast
from pipeline.node_sleep.replay_files import write_replay
from simulator.node_sleep.choice import WEEK_S, SettingsChoice, SleepLimits, candidates, choose_settings
from simulator.node_sleep.control import BIN_S, NodeForecaster
from simulator.node_sleep.demand_window import DemandWindow, demand_window
from simulator.node_sleep.energy import EnergySettings, energy_saved
from simulator.node_sleep.series_forecast import RememberingForecaster, SeriesForecaster
from simulator.node_sleep.series_replay import BootFailures, replay_bins, replay_minutes
from simulator.node_sleep.settings import SleepSettings
from simulator.node_sleep.timeline import SleepFigures, SleepTimeline, figures_of

REPLAYED_CONTROLS = ("helios-artifact", "causal", "buffer", "oracle")
MOST_PAST_WEEKS = 4
CURVE_PCT = 1.2  # of all nodes: the step of the curve of plain buffers
CURVE_POINTS = 12

Rules = Literal["minutes", "bins"]


@dataclass(frozen=True)
class SeriesToReplay:
    """A file of node counts, and the part of it that counts; naive times are on the clock of `time_zone`.

    `gaps` are held, or count as nodes that run nothing ("zero"); None: as published for "helios-artifact",
    held for all else.
    """

    path: str
    start: datetime | None = None
    end: datetime | None = None
    gaps: Literal["hold", "zero"] | None = None
    time_zone: str = "UTC"
    virtual_cluster: str | None = None


@dataclass(frozen=True)
class NodeReplaySettings:
    """How a series is replayed.

    `control`: one of REPLAYED_CONTROLS. `rules`: "minutes" with boots and finished bins, "bins" as published;
    None: "bins" for "helios-artifact", "minutes" for all else. `sleep`: settings as given; None: chosen on
    past weeks within `limits` for "causal", defaults for all else.
    """

    control: str = "causal"
    rules: Rules | None = None
    sleep: SleepSettings | None = None
    boot_s: float = 300.0
    failures: BootFailures = field(default_factory=BootFailures)
    limits: SleepLimits = field(default_factory=SleepLimits)
    energy: EnergySettings = field(default_factory=EnergySettings)

    def __post_init__(self) -> None:
        if self.control not in REPLAYED_CONTROLS:
            raise UnknownNameError("control of a replay", self.control, REPLAYED_CONTROLS)
        if self.control == "helios-artifact" and self.rules == "minutes":
            raise BadInputError(
                "The control 'helios-artifact' has no rules for minutes.", remedy="Use --rules bins."
            )

    @property
    def used_rules(self) -> Rules:
        """Return the rules that hold."""
        return self.rules or ("bins" if self.control == "helios-artifact" else "minutes")


@dataclass(frozen=True)
class NodeReplayReport:
    """What a replay came to; `document` is all of it as plain values."""

    document: dict[str, Any]
    files: list[Path]


def replay_nodes(
    source: SeriesToReplay,
    settings: NodeReplaySettings,
    out_dir: Path,
    *,
    forecast_path: str | None = None,
    progress: Progress = silent,
) -> NodeReplayReport:
    """Replay a series under a control and write bins.csv, nodes.png and replay.json into `out_dir`.

    Raises BadInputError for what cannot be replayed, UnknownNameError for a name that is not in a catalogue.
    """
    gaps = source.gaps or ("zero" if settings.control == "helios-artifact" else "hold")
    series = _read(source, gaps)
    held_bins = (series if gaps == "hold" else _read(source, "hold")).bins(BIN_S)
    window = demand_window(series, _seconds(source.start, source), _seconds(source.end, source))
    published = read_published_forecast(forecast_path, time_zone=source.time_zone) if forecast_path else None
    zone = load_zone(source.time_zone)
    run = _Run(series, window, settings, Forecasts(published, held_bins, zone), progress)
    sleep, choice, reason = run.settings()
    forecaster = run.forecaster(sleep)
    timeline = run.replay(window, sleep, forecaster)
    figures = figures_of(timeline)
    curve = run.curve(sleep)
    document = {
        "control": settings.control,
        "rules": settings.used_rules,
        "gaps": gaps,
        "start": _instant(window.start_s),
        "end": _instant(window.start_s + len(window.running) * BIN_S),
        **asdict(figures),
        "idle_mean": float(np.maximum(0.0, timeline.total - timeline.running).mean()),
        "settings": sleep.to_data(),
        "why": reason,
        "choice": None if choice is None else _choice_facts(choice),
        "energy": {
            **asdict(settings.energy),
            **asdict(energy_saved(figures.asleep_mean, figures.days, settings.energy)),
        },
        "buffer_curve": curve,
        "better_buffers": [point["buffer_nodes"] for point in curve if _is_better(point, figures)],
        "oracle": asdict(figures_of(run.oracle(sleep))),
    }
    forecast = _forecast_by_bin(window, sleep, forecaster, published)
    files = write_replay(out_dir, document, timeline, window, forecast, zone=zone)
    return NodeReplayReport({**document, "files": [str(path) for path in files]}, files)


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


class _Run:
    """One series and window, replayed under several settings."""

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
        asked = self._settings
        name = {"causal": "forecast", "oracle": "forecast"}.get(asked.control, asked.control)
        given = replace(asked.sleep or SleepSettings(), control=name, boot_s=asked.boot_s)
        if asked.control != "causal" or asked.sleep is not None:
            return given, None, "The settings are as given."
        weeks = _past_weeks(self._window.start_s - self._series.start_s)
        published = self._forecasts.published
        if weeks < 1:
            if published is not None:
                return (
                    given,
                    None,
                    "No week lies before the start to choose on: the forecast is used as given.",
                )
            buffer = replace(given, control="buffer")
            return (
                buffer,
                None,
                f"No week lies before the start to choose on: {given.buffer_nodes} nodes idle.",
            )
        past = demand_window(self._series, self._window.start_s - weeks * WEEK_S, self._window.start_s)
        if published is not None and not published.covers(past):
            return given, None, "The published forecast has no past weeks to choose on: it is used as given."
        choice = self._chosen(given, past)
        return choice.settings, choice, choice.reason

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
        if forecaster is None:
            raise BadInputError(
                "There is no forecast: too few days lie before the start, or a published one lacks bins.",
                remedy="Choose another --start, give --forecast FILE, or use --control buffer.",
            )
        return forecaster

    def _future(self, sleep: SleepSettings) -> NodeForecaster:
        bins = self._window.bins
        return RememberingForecaster(SeriesForecaster(bins.start_s, bins.running, sleep.near_bins))

    def replay(
        self, window: DemandWindow, sleep: SleepSettings, forecaster: NodeForecaster | None
    ) -> SleepTimeline:
        """Replay a window by the rules that hold."""
        if self._settings.used_rules == "minutes":
            return replay_minutes(window, sleep, forecaster, failures=self._settings.failures)
        given = None
        if sleep.control == "helios-artifact":
            if self._forecasts.published is None:
                raise BadInputError(
                    "The control 'helios-artifact' needs its forecast.", remedy="Give --forecast FILE."
                )
            given = self._forecasts.published.of(window)
        return replay_bins(window, sleep, forecaster, published_forecast=given)

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


def _read(source: SeriesToReplay, gaps: Literal["hold", "zero"]) -> NodeSeries:
    return read_node_series(
        source.path, gaps=gaps, virtual_cluster=source.virtual_cluster, time_zone=source.time_zone
    )


def _past_weeks(past_s: float) -> int:
    """Return on how many weeks to choose: where two remain, with days before to learn a forecast from."""
    with_forecast = int((past_s - LEAST_DAYS * 86_400) // WEEK_S)
    return min(MOST_PAST_WEEKS, with_forecast if with_forecast >= 2 else int(past_s // WEEK_S))


def _is_better(point: Mapping[str, Any], figures: SleepFigures) -> bool:
    """Return whether a buffer has more nodes asleep at fewer wake-ups and fewer node-minutes short.

    Where nodes wake at once, neither is short.
    """
    never_short = not point["node_minutes_short"] and not figures.node_minutes_short
    return bool(
        point["asleep_mean"] > figures.asleep_mean
        and point["wake_ups_per_day"] < figures.wake_ups_per_day
        and (never_short or point["node_minutes_short"] < figures.node_minutes_short)
    )


def _choice_facts(choice: SettingsChoice) -> dict[str, Any]:
    return {
        "past_weeks": choice.weeks,
        "best_buffer": asdict(choice.buffer),
        "best_forecast": None if choice.forecast is None else asdict(choice.forecast),
    }


def _forecast_by_bin(
    window: DemandWindow,
    sleep: SleepSettings,
    forecaster: NodeForecaster | None,
    published: PublishedForecast | None,
) -> list[float | None]:
    """Return what the control was told: a bin's own forecast, or the mean of the `near_bins` after it."""
    bins = len(window.running)
    if published is not None:
        return [float(value) for value in published.of(window)]
    if forecaster is None or sleep.control != "forecast":
        return [None] * bins
    return [
        forecaster.forecast(
            window.bins.running[: window.bins_before + at + 1], window.start_s + at * BIN_S
        ).near_mean
        for at in range(bins)
    ]


def _seconds(time: datetime | None, source: SeriesToReplay) -> float | None:
    if time is None:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=load_zone(source.time_zone))).timestamp()


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
