"""What the policy of a declared site goes by and a log does not have, in sentences."""

from collections.abc import Callable, Iterable

from cluster_logs.site.rules import SiteRules
from simulator.job import Job

_SHOWN = 3  # virtual clusters named


def lacking(jobs: Iterable[Job], rules: SiteRules) -> tuple[str, ...]:
    """Return what a site's scheduler would know of these jobs and a replay cannot, each with what follows."""
    jobs = tuple(jobs)
    lacks: list[tuple[bool, Callable[[Job], object], str]] = [
        (
            _goes_by_users(rules),
            lambda job: job.user,
            "The log names no users: their fair share and their limits are not replayed.",
        ),
        (
            _goes_by_users(rules),
            lambda job: job.account,
            "The log names no accounts: each user is replayed in the first that the site has of it.",
        ),
        (
            _goes_by_qos(rules),
            lambda job: job.qos,
            "The log names no QOS: all jobs have the one that the site gives by default.",
        ),
        (
            rules.scheduler.type == "backfill",
            lambda job: job.time_limit_s,
            "The log has no time limits: each job has that of its partition, so less is backfilled.",
        ),
    ]
    found = [text for needed, of_job, text in lacks if needed and not any(map(of_job, jobs))]
    partitions = {each.name for each in rules.partitions}
    others = sorted({job.virtual_cluster for job in jobs} - partitions) if partitions else []
    if others:
        shown = ", ".join(others[:_SHOWN]) + (
            f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        )
        found.append(
            f"The site declares no partition {shown}: jobs there have no partition's limits and priority."
        )
    return tuple(found)


def _goes_by_users(rules: SiteRules) -> bool:
    limited = rules.scheduler.enforce_limits and (rules.qos or rules.accounts or rules.users)
    shared = rules.priority.type == "multifactor" and rules.priority.weight_fair_share > 0
    return bool(shared or limited)


def _goes_by_qos(rules: SiteRules) -> bool:
    weighed = rules.priority.type == "multifactor" and rules.priority.weight_qos > 0
    return len(rules.qos) > 1 and (
        weighed or rules.preemption.type == "qos" or rules.scheduler.enforce_limits
    )
