"""What a replay of jobs is told of sleeping nodes, from a flat table of settings."""

from collections.abc import Mapping
from typing import Any

from simulator.node_sleep.control import NodeForecaster
from simulator.node_sleep.node_sleep import NodeSleep
from simulator.node_sleep.settings import SleepSettings


def sleep_of_replay(settings: Mapping[str, Any], seed: int = 0) -> NodeSleep:
    """Return how nodes sleep; the forecast of the control "forecast" learns from the replay's own bins.

    Raises as `NodeSleep.from_data`.
    """
    forecaster: NodeForecaster | None = None
    if settings.get("control") == "forecast":
        from pipeline.node_sleep.learning_forecaster import LearningForecaster  # imports the model

        near_bins = settings.get("near_bins", SleepSettings.near_bins)
        forecaster = LearningForecaster(SleepSettings.from_data({"near_bins": near_bins}).near_bins)
    return NodeSleep.from_data(settings, forecaster=forecaster, seed=seed)
