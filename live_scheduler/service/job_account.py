"""Why a job stands where it stands, and what would bring it forward: `lucid live explain`."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import exp
from typing import Any

from foundation.errors import LucidError
from foundation.human_times import human_duration
from foundation.parts import at_place, offered
from live_scheduler.cluster_state import OTHER_FACTS, LiveJob
from live_scheduler.deciding.decision import QueuePlace
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.hindsight.decision_log import FirstSight
from live_scheduler.live_view import LiveView
from live_scheduler.service.answers import find_job, gpus_of, in_charge, moment, waited_s, whose_order
from live_scheduler.service.live_messages import rank_numbers
from live_scheduler.service.schema import Explanation
from lucid_models.amounts import counted
from lucid_models.releases.manifest import DEFAULT_POLICY
from simulator.policies.lucid import Lucid
from simulator.policy import Policy

_FIRST_AHEAD = 10
RankAccount = Callable[[Any, LiveJob, QueuePlace, Sequence[QueuePlace], float], Iterator[str]]


def explanation_of(view: LiveView, job_id: str, estimate: tuple[float, str] | None = None) -> Explanation:
    """Explain a job's place; `estimate` is its present estimate (s) with the model's account.

    Raises ServiceUnavailableError, NotFoundError.
    """
    cluster = view.read_cluster()
    job = find_job(cluster, job_id)
    decision = view.decision
    place = decision.by_id.get(job.job_id) if decision else None
    pool = place.pool if place else job.partition
    queue = [other for other in decision.ranked if other.pool == pool] if decision and place else []
    ahead = [other for other in queue if place and other.place < place.place]
    gpu_seconds_ahead = _gpu_seconds(view, ahead)
    offered, free = gpus_of(cluster, pool)
    profiler = view.settings.profiling_partition or None
    estimated_s = place.estimated_duration_s if place else None
    if estimated_s is None and estimate is not None:
        estimated_s = estimate[0]
    account = Explanation(
        job_id=job.job_id,
        at_s=cluster.at_s,
        state="waiting" if job.waiting else "running",
        virtual_cluster=job.virtual_cluster,
        pool=pool,
        gpus=job.gpus,
        submit_time_s=job.submit_time_s,
        waited_s=waited_s(job, cluster.at_s),
        release=decision.release if decision else view.release.release,
        policy=view.settings.policy,
        in_charge=in_charge(view),
        note=whose_order(view),
        user=job.user,
        name=job.name,
        facts={name: f"{fact}" for name, fact in job.other_facts.items()},
        tasks=job.tasks,
        start_time_s=job.start_time_s,
        place=place.place if place else None,
        queue_length=len(queue) if place else None,
        jobs_ahead=len(ahead) if place else None,
        gpu_seconds_ahead=gpu_seconds_ahead if place else None,
        first_ahead=tuple(other.job_id for other in ahead[:_FIRST_AHEAD]),
        starts_now=bool(place and place.starts_now),
        overdue=bool(place and place.overdue),
        held=job.held,
        waits_for=job.waits_for,
        cluster_reason=job.reason,
        to_be_profiled=job.waiting and profiler == pool,
        is_profiled=not job.waiting and profiler == job.partition,
        # As the policy has it: a run that was cut short tells what a job needs.
        was_profiled=profiler is not None and job.restarts > 0 and profiler not in (pool, job.partition),
        begin_time_s=job.begin_time_s,
        partner=place.partner if place else None,
        left_alone=decision.left_alone.get(job.job_id) if decision else None,
        estimated_duration_s=estimated_s,
        estimate_reason=estimate[1] if estimate else None,
        release_version=decision.release_version if decision else view.release.version,
        gpus_free=free,
        gpus_offered=offered,
        would_move_it=tuple(_would_move(view, job, place, queue)) if job.waiting else (),
    )
    return account.model_copy(update={"sentences": tuple(_sentences(account, view, job, place))})


def first_sight_in_words(seen: FirstSight) -> str:
    """Say what was believed of a job when it was first ranked."""
    belief = seen.estimated_duration_s
    believed = "" if belief is None else f", with an estimate of {_time(belief)}"
    return (
        f"First ranked at {moment(seen.at_s)}, at place {seen.place} in {seen.pool}{believed}, by "
        f"{seen.release}."
    )


def _gpu_seconds(view: LiveView, places: Sequence[QueuePlace]) -> float:
    cluster = view.cluster
    total = 0.0
    for place in places:
        job = cluster.by_id.get(place.job_id) if cluster else None
        if job is not None and place.estimated_duration_s is not None:
            total += job.gpus * job.tasks * place.estimated_duration_s
    return total


def _sentences(account: Explanation, view: LiveView, job: LiveJob, place: QueuePlace | None) -> list[str]:
    sentences = []
    tasks = f" (an array; {counted(job.tasks, 'task')} not started)" if job.tasks > 1 and job.waiting else ""
    if not job.waiting:
        sentences.append(
            f"Job {job.job_id} runs in {job.partition} since {moment(job.start_time_s)}, "
            f"after a wait of {_time(account.waited_s)}."
        )
    elif place is None:
        why = account.left_alone or "the last decision did not rank it yet"
        sentences.append(f"Job {job.job_id}{tasks} waits in {job.partition} and is not ranked: {why}.")
    else:
        sentences.append(
            f"Job {job.job_id}{tasks} waits in {place.pool} for {_time(account.waited_s)} and stands at "
            f"place {place.place} of {account.queue_length}."
        )
        sentences.append(_ahead_of(account))
        account_of_rank = [] if place.overdue else list(_rank_account(view, job, place, account.waited_s))
        sentences += account_of_rank or [_rank_of(view, job, place)]
    if account.estimate_reason:
        sentences.append(f"Estimated run time: {account.estimate_reason}")
    if account.to_be_profiled:
        sentences.append(f"It is to be measured first, on {account.pool}; its home is {job.virtual_cluster}.")
    elif account.is_profiled:
        sentences.append(
            f"It is measured there; if it does not end meanwhile, it goes home to {job.virtual_cluster}."
        )
    elif account.was_profiled:
        sentences.append("It has run before, so it is not measured first (again).")
    sentences += [
        f"Left as it is: {why}." for why in dict.fromkeys(job.kept.values()) if why != account.left_alone
    ]
    sentences += _no_sooner(job, account)
    if account.partner:
        sentences.append(f"It is to share the GPUs of job {account.partner}.")
    if job.waiting and account.cluster_reason:
        sentences.append(f"The cluster's own reason: {account.cluster_reason}.")
    if account.facts:
        told = [f"{OTHER_FACTS[name].words} {fact}" for name, fact in account.facts.items()]
        sentences.append(f"What else is known of it: {', '.join(told)}.")
    sentences.append(account.note)
    return sentences


def _no_sooner(job: LiveJob, account: Explanation) -> list[str]:
    """From when on it might start: its wait until then is no queue's doing."""
    if job.waiting and job.begin_time_s is not None and job.begin_time_s > account.at_s:
        return [f"It starts no sooner than {moment(job.begin_time_s)}."]
    barred_s = job.ready_time_s - job.submit_time_s
    if barred_s <= 0 or barred_s > account.waited_s:
        return []
    sentence = (
        f"For {_time(barred_s)} of its wait, until {moment(job.ready_time_s)}, the cluster would not have "
        "started it (a begin time, a dependency, a hold or a pause after a requeue)."
    )
    return [sentence]


def _ahead_of(account: Explanation) -> str:
    if account.starts_now:
        return "It would start now: there are GPUs for it."
    free = f"{account.gpus_free} of {counted(account.gpus_offered or 0, 'GPU')} on offer are free"
    if not account.jobs_ahead:
        return f"It is the next to start; {free}, it asks for {counted(account.gpus, 'GPU')}."
    amount = ""
    if account.gpu_seconds_ahead:
        theirs = (
            "which wants {} by its estimate"
            if account.jobs_ahead == 1
            else "which want {} by their estimates"
        )
        amount = f", {theirs.format(gpu_time(account.gpu_seconds_ahead))}"
    return f"{counted(account.jobs_ahead, 'job')} ahead{amount}; {free}."


def _rank_account(view: LiveView, job: LiveJob, place: QueuePlace, waited_s: float) -> Iterable[str]:
    """What the live policy has to say of a rank; nothing where the settings have changed since."""
    ranked = view.decision.ranked if view.decision else ()
    ahead = [other for other in ranked if other.pool == place.pool and other.place < place.place]
    try:
        policy = live_policy(view.settings)
        return list(rank_account(policy, view.settings.policy or DEFAULT_POLICY, job, place, ahead, waited_s))
    except LucidError:
        return []


def _rank_of(view: LiveView, job: LiveJob, place: QueuePlace) -> str:
    policy = view.settings.policy
    if place.overdue:
        return (
            f"It goes first because it has waited longer than {_time(view.settings.longest_wait_s)} "
            "(longest_wait_s)."
        )
    if place.estimated_duration_s is None:
        return f"The policy {policy} orders it without an estimate."
    if _by_service(job, place):
        return (
            f"The policy {policy} serves the fewest GPU-seconds first; it is expected to take "
            f"{counted(max(job.gpus, 1), 'GPU')} x {_time(place.estimated_duration_s)} = "
            f"{gpu_time(rank_numbers(place.rank)[0])}."
        )
    if not job.gpus:
        return "It asks for no GPU, so it waits for no job that does."
    rank = ", ".join(f"{part:.6g}" for part in rank_numbers(place.rank))
    return f"The policy {policy} ranks it ({rank}), lowest first."


def _would_move(
    view: LiveView, job: LiveJob, place: QueuePlace | None, queue: Sequence[QueuePlace]
) -> list[str]:
    if job.held:
        return ["It stays held until its holder releases it."]
    if job.waits_for:
        return [f"It can start once this is over: {job.waits_for}."]
    if place is None:
        return []
    if place.starts_now:
        return ["Nothing is in its way."]
    sentences: list[str] = []
    if place.place > 1 and not place.overdue and _by_service(job, place):
        sentences += _with_less(view, job, place, queue)
    if place.place > 1:
        sentences.append("It moves up with every job ahead that starts or is withdrawn.")
        if not place.overdue:
            front_s = job.submit_time_s + view.settings.longest_wait_s
            sentences.append(f"At the latest it goes to the front on {moment(front_s)} (longest_wait_s).")
    else:
        sentences.append("It starts as soon as enough GPUs are free together.")
    return sentences


def _with_less(view: LiveView, job: LiveJob, place: QueuePlace, queue: Sequence[QueuePlace]) -> Iterable[str]:
    """Say what fewer GPUs, or a shorter run time, would change, where a queue is served by their product."""
    rank = rank_numbers(place.rank)[0]
    jobs = view.cluster.by_id if view.cluster else {}
    others = [other for other in queue if other.job_id != job.job_id]
    # Overdue jobs, those that start now and those without GPUs go first, whatever their rank.
    firm = [p for p in others if p.overdue or p.starts_now or (p.job_id in jobs and not jobs[p.job_id].gpus)]
    ranks = [rank_numbers(p.rank) for p in others if p not in firm]
    fewer = job.gpus // 2
    while fewer:
        ahead = len(firm) + sum(bool(other) and other[0] <= rank * fewer / job.gpus for other in ranks)
        if ahead + 1 < place.place:
            yield (
                f"With {counted(fewer, 'GPU')} instead of {job.gpus}, and the same run time, it would stand "
                f"at place {ahead + 1}."
            )
            break
        fewer //= 2
    before = next((other for other in others if other.place == place.place - 1 and other not in firm), None)
    if before is not None and (least := rank_numbers(before.rank)) and least[0] >= 1.0:
        yield (
            f"It overtakes job {before.job_id} once its estimate falls below "
            f"{human_duration(least[0] / max(job.gpus, 1))}: finished jobs like it move the estimate."
        )


def _by_service(job: LiveJob, place: QueuePlace) -> bool:
    """Whether a job is ranked by GPUs x estimated run time."""
    rank = rank_numbers(place.rank)
    if not rank or place.estimated_duration_s is None:
        return False
    return math.isclose(rank[0], max(job.gpus, 1) * place.estimated_duration_s, rel_tol=1e-6)


def _time(seconds: float) -> str:
    return human_duration(max(0.0, seconds))


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
