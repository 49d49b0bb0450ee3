"""What sleeping nodes cost: the queuing that they add to the same replay with nodes that never sleep."""

import numpy as np

from simulator.results.result import SimulationResult


def added_queuing(asleep: SimulationResult, awake: SimulationResult) -> dict[str, float]:
    """Compare two replays of the same jobs under the same policy, job by job.

    `added_queuing_delay_s` is the mean difference of queuing delays; boots that delay some jobs may let
    others go first, so one job's may be below zero. `later_jobs` waited for longer than with all nodes awake,
    and `latest_queuing_delay_s` is the most that a job waited longer.
    """
    added_s = asleep.counted["queuing_delay_s"].to_numpy() - awake.counted["queuing_delay_s"].to_numpy()
    return {
        "added_queuing_delay_s": float(np.mean(added_s)) if len(added_s) else 0.0,
        "later_jobs": int((added_s > ROUNDING_S).sum()),
        "latest_queuing_delay_s": float(np.max(added_s, initial=0.0)),
    }


ROUNDING_S = 1e-6  # differences of sums of times
