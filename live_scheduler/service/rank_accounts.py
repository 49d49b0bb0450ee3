"""What a job's rank means, in words: what the queue is really ordered by, and why others are ahead."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp
from typing import Any

from foundation.human_times import human_duration
from foundation.parts import at_place, offered
from live_scheduler.cluster_state import LiveJob
from live_scheduler.deciding.decision import QueuePlace
from live_scheduler.service.live_messages import rank_numbers
from lucid_models.amounts import counted
from simulator.policies.lucid import Lucid
from simulator.policy import Policy

RankAccount = Callable[[Any, LiveJob, QueuePlace, Sequence[QueuePlace], float], Iterator[str]]


def rank_account(
    policy: Policy, name: str, job: LiveJob, place: QueuePlace, ahead: Sequence[QueuePlace], waited_s: float
) -> Iterator[str]:
    """Yield sentences on a job's rank under a policy; none where its numbers say enough.

    A part gives a `RankAccount` by the name of its policy.
    """
    place_of = offered("rank_accounts").get(name)
    account: RankAccount | None = _OWN.get(name) if place_of is None else at_place(place_of)
    if account is not None:
        yield from account(policy, job, place, ahead, waited_s)


def _lucid_account(
    policy: Lucid, job: LiveJob, place: QueuePlace, ahead: Sequence[QueuePlace], waited_s: float
) -> Iterator[str]:
    ageing_s = policy.settings.ageing_s
    if policy.settings.order != "service" or not ageing_s or place.estimated_duration_s is None:
        return
    if len(rank_numbers(place.rank)) != 2 or not job.gpus:
        return
    service_s = job.gpus * place.estimated_duration_s
    aged_s = service_s * exp(-waited_s / ageing_s)
    yield (
        f"It is served by fewest GPU-seconds, less for a job that has waited: it is expected to take "
        f"{counted(job.gpus, 'GPU')} x {human_duration(place.estimated_duration_s)} = {gpu_time(service_s)}, "
        f"which count as {gpu_time(aged_s)} after {human_duration(waited_s)} (ageing_s "
        f"{human_duration(ageing_s)})."
    )


_OWN: Mapping[str, RankAccount] = {"lucid": _lucid_account}


def gpu_time(gpu_seconds: float) -> str:
    """Return GPU time as people read it."""
    value, _, unit = human_duration(gpu_seconds).partition(" ")
    return f"{value} GPU-{unit.rstrip('s') if unit != 's' else 's'}{'s' if unit == 'days' else ''}"
