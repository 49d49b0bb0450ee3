"""Who made a release the champion, when and why: what people ask first about the one that is live."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from lucid_models.registry import RegisteredVersion, Registry

WENT_LIVE = "went_live"
_LONGEST = 1_000  # characters of what a person wrote


@dataclass(frozen=True)
class Decision:
    """A move of `champion` to a release. `by`: a person's name, or what moved it by itself; `at`: ISO, UTC;
    `before`: the version that was live; `kind`: publish or rollback.
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
    at = datetime.now(UTC).isoformat(timespec="seconds")
    decision = Decision(kind, at, by[:_LONGEST], because[:_LONGEST], before)
    registry.set_version_tag(name, version, WENT_LIVE, json.dumps(asdict(decision)))


def read_decision(release: RegisteredVersion) -> Decision | None:
    """Who made a release the champion the last time; None where nobody did, or an older version of this
    product.
    """
    try:
        data = json.loads(release.tags[WENT_LIVE])
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
