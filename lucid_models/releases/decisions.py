"""Who made a release the champion or turned it down, when and why: what people ask first about the live one,
and about one that never was.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from foundation import strict_json
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.manifest import release_name

WENT_LIVE, TURNED_DOWN, STARTED_BY = "went_live", "turned_down", "started_by"
_LONGEST = 1_000  # characters of what a person wrote


@dataclass(frozen=True)
class Decision:
    """A move of `champion` to a release, or that a person would not have it. `by`: a person's name, or what
    moved it by itself; `at`: ISO, UTC; `before`: the version that was live; `kind`: publish, rollback or
    rejection.
    """

    kind: str
    at: str
    by: str
    because: str
    before: int | None = None


def record_decision(
    registry: Registry, name: str, version: int, *, kind: str, by: str, because: str, before: int | None
) -> None:
    """Write down who moves `champion` to a version, before it moves: then it is never live without."""
    _record(registry, name, version, WENT_LIVE, _decision(kind, by, because, before))


def reject_release(*, tracking_uri: str, cluster: str, version: int, by: str, because: str) -> None:
    """Write down who would not have a release go live; it may be published all the same another time."""
    decision = _decision("rejection", by, because, None)
    _record(Registry(tracking_uri), release_name(cluster), version, TURNED_DOWN, decision)


def record_starters(tracking_uri: str, cluster: str, version: int, people: Iterable[str]) -> None:
    """Write down who started what led to a release, besides those who are known: none of them is the only one
    who approves it.
    """
    people = set(people)
    if not people:
        return
    registry, name = Registry(tracking_uri), release_name(cluster)
    known = read_starters(registry.version(name, version))
    if new := sorted(people.difference(known)):
        registry.set_version_tag(name, version, STARTED_BY, json.dumps([*known, *new]))


def read_starters(release: RegisteredVersion) -> list[str]:
    """Who started what led to a release, by name; none where the pipeline did, or another than Airflow's."""
    try:
        return [str(name) for name in strict_json.loads(release.tags.get(STARTED_BY, "[]"))]
    except (TypeError, ValueError):
        return []


def _decision(kind: str, by: str, because: str, before: int | None) -> Decision:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Decision(kind, at, by[:_LONGEST], because[:_LONGEST], before)


def _record(registry: Registry, name: str, version: int, tag: str, decision: Decision) -> None:
    registry.set_version_tag(name, version, tag, json.dumps(asdict(decision)))


def read_decision(release: RegisteredVersion) -> Decision | None:
    """Who made a release the champion the last time; None where nobody did, or an older version of this
    product.
    """
    return _read(release, WENT_LIVE)


def read_rejection(release: RegisteredVersion) -> Decision | None:
    """Who turned a release down the last time that a person was asked; None where nobody did."""
    return _read(release, TURNED_DOWN)


def _read(release: RegisteredVersion, tag: str) -> Decision | None:
    try:
        data = strict_json.loads(release.tags[tag])
        before = data["before"]
        return Decision(
            str(data["kind"]),
            str(data["at"]),
            str(data["by"]),
            str(data["because"]),
            None if before is None else int(before),
        )
    except (KeyError, TypeError, ValueError):
        return None
