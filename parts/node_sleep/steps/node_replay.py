"""One replay of sleeping nodes on a node series, beside the curve of plain buffers and an oracle."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cluster_logs.readers.source import load_zone
from foundation.progress import Progress, silent
from parts.node_sleep.replay.choice import SettingsChoice
from parts.node_sleep.replay.control import BIN_S, NodeForecaster
from parts.node_sleep.replay.demand_window import DemandWindow, demand_window
from parts.node_sleep.replay.power_history import energy_saved
from parts.node_sleep.replay.settings import SleepSettings
from parts.node_sleep.replay.timeline import SleepFigures, figures_of
from parts.node_sleep.steps.published_forecast import PublishedForecast, read_published_forecast
from parts.node_sleep.steps.replay_files import write_replay
from parts.node_sleep.steps.replay_request import NodeReplaySettings, SeriesToReplay
from parts.node_sleep.steps.window_replays import Forecasts, WindowReplays


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
    series = source.read(gaps)
    held_bins = (series if gaps == "hold" else source.read("hold")).bins(BIN_S)
    window = demand_window(series, source.seconds(source.start), source.seconds(source.end))
    published = read_published_forecast(forecast_path, time_zone=source.time_zone) if forecast_path else None
    zone = load_zone(source.time_zone)
    run = WindowReplays(series, window, settings, Forecasts(published, held_bins, zone), progress)
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


def _is_better(point: Mapping[str, Any], figures: SleepFigures) -> bool:
    """Return whether a buffer has more nodes asleep at fewer wake-ups and fewer node-minutes short.

    Where neither is short, or nodes do not boot, the minutes decide nothing.
    """
    short, ours = point["node_minutes_short"], figures.node_minutes_short
    return bool(
        point["asleep_mean"] > figures.asleep_mean
        and point["wake_ups_per_day"] < figures.wake_ups_per_day
        and ((not ours and not short) or (short is not None and ours is not None and short < ours))
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


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
