"""The gate's constraints: what blocks a challenger whatever the objective says."""

from dataclasses import replace

import numpy as np

from foundation.errors import BadInputError
from foundation.human_times import human_duration
from simulator.gate.bootstrap import PairedChange
from simulator.gate.limits import allowed, at_most_beside, number, quantity, unmeasured
from simulator.gate.metrics import (
    EstimateCheck,
    MeasuredWindow,
    PolicyFigures,
    SharedJobs,
    delivered_gpu_h,
    quantile,
    slowdown,
    worst_group,
)
from simulator.gate.rules import SITE_ORDER, GateRules
from simulator.gate.spoken_names import spoken
from simulator.gate.verdict import GRADE, LATENCY, PROVING_WINDOW, Constraint
from simulator.wait_fidelity.grade import WaitGrade
from simulator.wait_fidelity.grades import GRADES

P999_JOBS = 1_000
# GPUs, both included: one, up to a usual node, a few nodes, more.
SIZE_CLASSES = ((1, 1), (2, 8), (9, 64), (65, np.inf))


def within(change: PairedChange, margin_pct: float, floor: float, rules: GateRules) -> bool:
    """Whether the upper bound of the change stays within the relative margin or the absolute floor."""
    if change.difference.blocks < rules.min_blocks or change.difference.high is None:
        return False
    if change.difference.high <= floor:
        return True
    relative = change.relative_pct
    return relative is not None and relative.high is not None and relative.high <= margin_pct


def _beside_reference(
    name: str, unit: str, new: float, old: float, margin_pct: float, floor: float, what: str
) -> Constraint:
    comparison = f"{what}: {quantity(new, unit)} against the reference's {quantity(old, unit)}"
    return at_most_beside(name, unit, new, old, margin_pct, floor, comparison)


def upper_bound(change: PairedChange) -> str:
    """Return the upper bound of a change in per cent, for a sentence."""
    high = change.relative_pct.high if change.relative_pct else None
    return "unknown" if high is None else f"{high:+z.1f} %"


def proving_window(site: PolicyFigures, rules: GateRules) -> Constraint:
    """Something must queue in the window, or every order of the queue gives the same schedule.

    `site`: figures of the window's jobs alone under the site's order, so a queue in the warm-up does not
    count. Nor does that of a rival: no order gains more than what the site's jobs queue, and preemption makes
    queues where there were none.
    """
    queuing_s = float(site.queuing_delay_s.mean())
    limit_s = rules.unproven_queuing_pct / 100.0 * float(site.jct_s.mean())
    limit = f"{human_duration(limit_s)} ({rules.unproven_queuing_pct:g} % of its mean JCT)"
    facts = (
        f"{human_duration(queuing_s)} a job under the site's order, not above {limit}, so the window proves "
        "nothing about the order of a queue"
    )
    if queuing_s > limit_s:
        passed = True
        sentence = (
            f"Jobs queue: {human_duration(queuing_s)} on average under the site's order, above {limit}."
        )
    elif rules.unproven == "publish_harmless":
        passed = None
        sentence = (
            f"Not measurable: next to nothing queues ({facts}); by the rule unproven = publish_harmless a "
            "release that does no harm may go live."
        )
    else:
        passed = False
        sentence = (
            f"Next to nothing queues ({facts}): validate on a window in which jobs queue, or set the gate's "
            "rule unproven to publish_harmless."
        )
    return Constraint(PROVING_WINDOW, "s", None, queuing_s, limit_s, passed, sentence)


def graded_waits(grade: WaitGrade | None, rules: GateRules) -> Constraint:
    """Replayed waits must be like those of the log, or what a replay promises is not to be believed."""
    if grade is None or grade.grade is None:
        why = "Not measured: no replay was compared with the log." if grade is None else grade.sentence
        return unmeasured(GRADE, "", why)
    passed = GRADES.index(grade.grade) <= GRADES.index(rules.worst_grade)
    what_to_do = (
        ""
        if passed
        else (
            " Declare the site's policy (`lucid site read`, `lucid site keep`) and its nodes, or let worse "
            f"grades go live: the gate's rule worst_grade, now {rules.worst_grade}."
        )
    )
    return Constraint(GRADE, "", None, None, None, passed, grade.sentence + what_to_do)


def usable_estimates(check: EstimateCheck | None) -> Constraint:
    """No estimate may be missing, infinite, zero or negative."""
    name, unit = "estimates_finite_and_positive", "jobs"
    if check is None:
        return unmeasured(name, unit, "Not measured: the estimates were not handed over.", limit=0.0)
    bad = check.not_finite + check.not_positive
    if check.jobs == 0:
        sentence = "There are no estimates."
    elif bad:
        sentence = (
            f"{bad:,} of {check.jobs:,} estimates are unusable ({check.not_finite:,} not finite, "
            f"{check.not_positive:,} not above zero); none may be."
        )
    elif check.failed_expectations:
        sentence = f"The estimates failed {', '.join(check.failed_expectations)}."
    else:
        sentence = f"All {check.jobs:,} estimates are finite and above zero."
    return Constraint(name, unit, float(bad), None, 0.0, check.usable, sentence)


def every_job_ends(judged: PolicyFigures) -> Constraint:
    """No job may be left when the replay ends."""
    unfinished = int((~judged.finished).sum())
    sentence = f"{unfinished:,} jobs never ended; none may be left." if unfinished else "Every job ended."
    return Constraint("every_job_ends", "jobs", float(unfinished), 0.0, 0.0, unfinished == 0, sentence)


def not_worse_than_site_order(change: PairedChange, rules: GateRules) -> Constraint:
    """What counts against the site's order, beside a champion: small losses may not add up."""
    name = rules.objective_against(SITE_ORDER)
    margin_pct, floor_s = rules.margin(SITE_ORDER, name)
    passed = within(change, margin_pct, floor_s, rules)
    return Constraint(
        "not_worse_than_site_order",
        "s",
        change.challenger,
        change.reference,
        allowed(change.reference, margin_pct, floor_s),
        passed,
        f"The {spoken(name)} is {human_duration(change.challenger)} against "
        f"{human_duration(change.reference)} under the site's order; "
        f"the change's upper bound is {upper_bound(change)}, {'within' if passed else 'beyond'} "
        f"the margin of +{margin_pct:g} % or +{human_duration(floor_s)}.",
    )


def tail_waiting(judged: PolicyFigures, other: PolicyFigures, rules: GateRules) -> list[Constraint]:
    """The longest waits: P99.9, the number of starved jobs, the longest of all."""
    new, old = judged.queuing_delay_s, other.queuing_delay_s
    starved_new = int((new > rules.starvation_wait_s).sum())
    starved_old = int((old > rules.starvation_wait_s).sum())
    floor_jobs = max(1.0, np.floor(rules.starved_floor_pct / 100.0 * new.size))
    hours = rules.starvation_wait_s / 3600.0
    p999 = _beside_reference(
        "p999_queuing_delay",
        "s",
        quantile(new, 0.999),
        quantile(old, 0.999),
        rules.p999_margin_pct,
        rules.p999_floor_s,
        "P99.9 queuing delay",
    )
    if new.size < P999_JOBS:
        why = f"Not measurable: of fewer than {P999_JOBS:,} jobs ({new.size:,}), P99.9 is the longest wait."
        p999 = replace(p999, limit=None, passed=None, sentence=why)
    return [
        p999,
        _beside_reference(
            "starved_jobs",
            "jobs",
            float(starved_new),
            float(starved_old),
            rules.starved_margin_pct,
            float(floor_jobs),
            f"Jobs that wait over {hours:g} h",
        ),
        _beside_reference(
            "longest_wait",
            "s",
            float(new.max()),
            float(old.max()),
            rules.longest_wait_margin_pct,
            rules.longest_wait_floor_s,
            "Longest wait",
        ),
    ]


def starved_gangs(
    judged: PolicyFigures, other: PolicyFigures, shared: SharedJobs, window: MeasuredWindow, rules: GateRules
) -> Constraint:
    """Starved jobs of the size class in which most more starve: gangs are few, and get lost among all jobs.

    Not measured in a window that is not longer than the wait that counts as starving: no job can be seen to.
    """
    name, hours = "starved_gangs", rules.starvation_wait_s / 3600.0
    if window.end_s - window.start_s <= rules.starvation_wait_s:
        days = human_duration(window.end_s - window.start_s)
        return unmeasured(name, "jobs", f"Not measured: no job can wait over {hours:g} h inside {days}.")
    worst: tuple[float, Constraint] | None = None
    for least, most in SIZE_CLASSES:
        sized = (shared.gpus >= least) & (shared.gpus <= most)
        if not sized.any():
            continue
        starved_new, starved_old = (
            float((figures.queuing_delay_s[sized] > rules.starvation_wait_s).sum())
            for figures in (judged, other)
        )
        floor_jobs = max(1.0, float(np.floor(rules.starved_floor_pct / 100.0 * sized.sum())))
        sizes = f"{least:g} to {most:g} GPUs" if np.isfinite(most) else f"{least:g} GPUs and more"
        found = _beside_reference(
            name,
            "jobs",
            starved_new,
            starved_old,
            rules.starved_margin_pct,
            floor_jobs,
            f"Jobs of {sizes} that wait over {hours:g} h",
        )
        over = starved_new - (found.limit or 0.0)
        if worst is None or over > worst[0]:
            worst = over, found
    return worst[1] if worst is not None else unmeasured(name, "jobs", "Not measured: no job asks for GPUs.")


def fairness(
    judged: PolicyFigures, other: PolicyFigures, shared: SharedJobs, rules: GateRules
) -> list[Constraint]:
    """The worst-off user and the worst-off virtual cluster, against the reference's worst-off one."""
    new = slowdown(judged, shared, rules.slowdown_bound_s)
    old = slowdown(other, shared, rules.slowdown_bound_s)
    groups = (
        ("fairness_between_users", "user", shared.user),
        ("fairness_between_virtual_clusters", "virtual cluster", shared.virtual_cluster),
    )
    constraints = []
    for name, kind, group in groups:
        named = np.array([value is not None for value in group], dtype=bool)
        worst_new = worst_group(new, group, rules.fairness_min_jobs)
        worst_old = worst_group(old, group, rules.fairness_min_jobs)
        why_not = ""
        if not named.any():
            why_not = f"the log names no {kind}s"
        elif worst_new is None or worst_old is None:
            why_not = f"no {kind} submitted {rules.fairness_min_jobs} jobs or more in the window"
        elif worst_new.groups < 2:
            why_not = f"only one {kind} submitted {rules.fairness_min_jobs} jobs or more in the window"
        if why_not or worst_new is None or worst_old is None:
            constraints.append(unmeasured(name, "slowdown", f"Not measurable: {why_not}."))
            continue
        what = (
            f"Mean slowdown of the worst-off {kind} of {worst_new.groups} "
            f"({worst_new.name!r}; under the reference {worst_old.name!r})"
        )
        constraints.append(
            _beside_reference(
                name,
                "slowdown",
                worst_new.mean_slowdown,
                worst_old.mean_slowdown,
                rules.fairness_margin_pct,
                rules.fairness_floor,
                what,
            )
        )
    return constraints


def utilisation(
    judged: PolicyFigures, other: PolicyFigures, shared: SharedJobs, window: MeasuredWindow, rules: GateRules
) -> Constraint:
    """The work that gets done inside the window may not fall."""
    new, old = delivered_gpu_h(judged, shared, window), delivered_gpu_h(other, shared, window)
    unit, what = "GPU-hours", "Work delivered inside the window"
    if window.gpus:
        capacity = window.gpus * (window.end_s - window.start_s) / 3600.0
        new, old = 100.0 * new / capacity, 100.0 * old / capacity
        unit, what = "%", "Work delivered inside the window, of the cluster's GPU-hours"
    limit = old * (1.0 - rules.utilisation_margin_pct / 100.0)
    passed = new >= limit
    return Constraint(
        "utilisation",
        unit,
        new,
        old,
        limit,
        passed,
        f"{what}: {quantity(new, unit)} against the reference's {quantity(old, unit)}; "
        f"{'not below' if passed else 'below'} the limit of {quantity(limit, unit)} "
        f"(-{rules.utilisation_margin_pct:g} %).",
    )


def decision_latency(measured_ms: float | None, rules: GateRules) -> Constraint:
    """A decision must come in time for the scheduler's next round."""
    limit, jobs = rules.decision_latency_limit_ms, rules.decision_jobs
    if measured_ms is None:
        return unmeasured(LATENCY, "ms", "Not measured: no release was timed.", limit)
    if not np.isfinite(measured_ms) or measured_ms < 0:
        raise BadInputError(f"A decision latency of {measured_ms!r} ms.", remedy="Measure it again.")
    passed = measured_ms <= limit
    return Constraint(
        LATENCY,
        "ms",
        float(measured_ms),
        None,
        limit,
        passed,
        f"Ranking {jobs:,} queued jobs, features and inference included, took {number(measured_ms)} ms of "
        f"processor time; {'within' if passed else 'above'} the limit of {number(limit)} ms.",
    )
