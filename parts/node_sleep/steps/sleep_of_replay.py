"""What a replay of jobs is told of sleeping nodes, from a flat table of settings."""

from collections.abc import Mapping
from typing import Any

from parts.node_sleep.replay.control import NodeForecaster
from parts.node_sleep.replay.node_sleep import NodeSleep
from parts.node_sleep.replay.settings import SleepSettings


def sleep_of_replay(settings: Mapping[str, Any], seed: int = 0) -> NodeSleep:
    """Return how nodes sleep; the forecast of the control "forecast" learns from the replay's own bins.

    Raises as `NodeSleep.from_data`.
    """
    forecaster: NodeForecaster | None = None
    if settings.get("control") == "forecast":
        from parts.node_sleep.steps.learning_forecaster import LearningForecaster  # imports the model

        near_bins = settings.get("near_bins", SleepSettings.near_bins)
        forecaster = LearningForecaster(SleepSettings.from_data({"near_bins": near_bins}).near_bins)
    return NodeSleep.from_data(settings, forecaster=forecaster, seed=seed)
