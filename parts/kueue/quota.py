"""How many GPUs the ClusterQueues may still hand out: their own quota, and what their cohort can lend.

Kueue, "Cluster queue": a queue may use its nominal quota and, up to its borrowing limit, what is unused in
its cohort. Lending limits and quotas of nested cohorts are not read, so the answer may be too high there; it
decides which jobs are said to start now, never which may.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from parts.kueue.object_parts import entries, part
from parts.kueue.quantities import parse_quantity

Json = Mapping[str, Any]


class _Share(NamedTuple):
    queue: str
    cohort: str
    flavor: tuple[str, str]  # (flavor, resource)
    nominal: Fraction
    borrowable: Fraction | None  # None: without a limit
    used: Fraction


def gpus_left(queues: Sequence[Json], resources: Collection[str]) -> dict[str, int]:
    """Return the GPUs that each ClusterQueue with a quota for them may hand out now."""
    shares = [share for queue in queues for share in _shares(queue, resources)]
    unused: dict[tuple[str, tuple[str, str]], Fraction] = {}
    for share in shares:
        key = (share.cohort or f"/{share.queue}", share.flavor)
        unused[key] = unused.get(key, Fraction(0)) + share.nominal - share.used
    left: dict[str, Fraction] = {}
    for share in shares:
        most = unused[share.cohort or f"/{share.queue}", share.flavor]
        if share.borrowable is not None:
            most = min(most, share.nominal + share.borrowable - share.used)
        left[share.queue] = left.get(share.queue, Fraction(0)) + max(most, Fraction(0))
    return {queue: int(amount) for queue, amount in left.items()}


def _shares(queue: Json, resources: Collection[str]) -> Iterator[_Share]:
    spec, name = part(queue, "spec"), str(queue["metadata"]["name"])
    used = {
        (flavor["name"], resource["name"]): parse_quantity(resource.get("total") or "0")
        for flavor in entries(queue, "status", "flavorsReservation")
        for resource in entries(flavor, "resources")
    }
    for group in entries(spec, "resourceGroups"):
        for flavor in entries(group, "flavors"):
            for resource in entries(flavor, "resources"):
                if resource["name"] not in resources:
                    continue
                key = (str(flavor["name"]), str(resource["name"]))
                limit = resource.get("borrowingLimit")
                yield _Share(
                    name,
                    cohort_of(queue),
                    key,
                    parse_quantity(resource["nominalQuota"]),
                    None if limit is None else parse_quantity(limit),
                    used.get(key, Fraction(0)),
                )


def cohort_of(queue: Json) -> str:
    """Return the cohort of a ClusterQueue; empty: none."""
    spec = part(queue, "spec")
    return str(spec.get("cohortName") or spec.get("cohort") or "")  # v1beta2, v1beta1
