"""Node failures at random: each node breaks down and is repaired, independently of all others."""

from random import Random

from foundation.errors import BadInputError
from simulator.cluster.changes import NodeFailure
from simulator.cluster.spec import ClusterSpec
from simulator.workload.workload import Workload

HOUR_S = 3_600.0
DEFAULT_REPAIR_HOURS = 4.0


def random_failures(
    cluster: ClusterSpec,
    *,
    mtbf_hours: float,
    repair_hours: float = DEFAULT_REPAIR_HOURS,
    until_s: float,
    seed: int = 0,
) -> tuple[NodeFailure, ...]:
    """Draw the failures of every node until `until_s`, in the order of time.

    Times to failure and to repair are exponential (an alternating renewal process) with the means given, in
    hours; `mtbf_hours` is that of one node. Each node has a stream of its own, from the seed and its name:
    another node more or less changes no other's failures. Nodes that come later do not fail.
    """
    for name, hours in (("mtbf_hours", mtbf_hours), ("repair_hours", repair_hours)):
        if not 0 < hours < float("inf"):
            raise BadInputError(f"{name} is {hours!r}.", remedy="Use more than 0 hours.")
    failures = []
    for name, nodes in cluster.virtual_clusters.items():
        for node in range(nodes):
            random = Random(f"{seed} {name} {node}")  # noqa: S311  (not for secrets)
            at_s = random.expovariate(1 / (mtbf_hours * HOUR_S))
            while at_s < until_s:
                down_s = max(1.0, random.expovariate(1 / (repair_hours * HOUR_S)))
                failures.append(NodeFailure(at_s, name, node, down_s))
                at_s += down_s + random.expovariate(1 / (mtbf_hours * HOUR_S))
    return tuple(sorted(failures, key=lambda failure: failure.at_s))


def longest_run_s(workload: Workload, cluster: ClusterSpec) -> float:
    """Return a time (s) by which most schedules are over: failures after it are not drawn.

    The last submission, all work one after another on all GPUs, and the longest job once more. A job that
    failures keep from ending can so not keep a simulation from ending.
    """
    if not len(workload):
        return 0.0
    jobs = workload.columns
    work_gpu_s: float = sum((jobs.gpus * jobs.duration_s).tolist())
    longest_s = float(jobs.duration_s.max())
    return float(jobs.submit_time_s[-1]) + work_gpu_s / max(1, cluster.total_gpus) + longest_s
