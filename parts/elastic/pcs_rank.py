"""What a job's rank under PCS means, in words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from foundation.human_times import human_duration
from live_scheduler.cluster_state import LiveJob
from live_scheduler.deciding.decision import QueuePlace
from live_scheduler.service.job_account import gpu_time
from lucid_models.amounts import counted
from parts.elastic.pcs import Pcs, Turn


def pcs_rank(
    policy: Pcs, job: LiveJob, place: QueuePlace, ahead: Sequence[QueuePlace], waited_s: float
) -> Iterator[str]:
    """Say which class a job is in, what that class owns, and which jobs are ahead."""
    turn = place.rank
    if not isinstance(turn, Turn) or place.estimated_duration_s is None:
        return
    config = policy.settings.config()
    at, classes = turn.size_class, len(config.weights)
    most_s = config.thresholds_s[at]
    limit = "any size" if most_s == inf else f"up to {gpu_time(most_s)}"
    size = f"{counted(job.gpus, 'GPU')} x {human_duration(place.estimated_duration_s)}"
    yield (
        f"It is in size class {at + 1} of {classes} ({limit}; it is expected to take {size} = "
        f"{gpu_time(job.gpus * place.estimated_duration_s)}), which owns {config.weights[at]:.1%} of the "
        "GPUs and is served first come, first served."
    )
    yield (
        f"Its class holds {turn.ahead_gpus} GPUs, those asked for before it included: the class that has "
        "least of its share is served next."
    )
    theirs = Counter(other.rank.size_class for other in ahead if isinstance(other.rank, Turn))
    groups = []
    if own := theirs.pop(at, 0):
        groups.append(f"{own} of its own class, submitted before it")
    for other, count in sorted(theirs.items()):
        weight = config.weights[other]
        groups.append(
            f"{count} of class {other + 1}, which has less of its share of {weight:.1%} at their turn"
        )
    if groups:
        yield f"Ahead of it: {'; '.join(groups)}."
