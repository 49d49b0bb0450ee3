"""What is signed: the judge's word on a verdict, and the publisher's on what is live.

A *judgement* says that the gate gave exactly this verdict on exactly this release. A *publication* says that
a release is live for a cluster since when, until when that word holds, and with which number: numbers of a
cluster only rise, so an older truth differs from a newer one (TUF's version and expiry; sections 5.3.4
and 5.4 of its specification). A rollback is a new publication of an older release. A *renewal* says again,
with a later expiry, what is live: without it schedulers notice within a day that no statement comes any more.

Statements are stored as their bytes within an envelope and read strictly: a field that is missing, unknown
or mistyped is refused. Needs the standard library only.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from foundation import strict_json
from lucid_models.releases.approval import ReleaseIdentity, identify
from lucid_models.releases.manifest import SHA256
from lucid_models.signing.refusals import Reason, StatementRefusedError
from lucid_models.signing.trust import time_with_offset

JUDGEMENT_TYPE = "application/vnd.lucid.judgement.v1+json"
PUBLICATION_TYPE = "application/vnd.lucid.publication.v1+json"
Kind = Literal["publish", "rollback", "renew"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LONGEST = timedelta(days=31)  # that a publication may hold; without a bound an old key could sign for ever
# The tags of a release that hold the envelopes.
JUDGEMENT_TAG, PUBLICATION_TAG = "judgement", "publication"
# Characters of what a person wrote, so that an envelope fits into a tag.
MOST_NAME, MOST_REASON = 80, 200


@dataclass(frozen=True)
class StatementTags:
    """The envelopes that the tags of a release hold, as text; None where there is none."""

    publication: str | None = None
    judgement: str | None = None

    @classmethod
    def of(cls, tags: Mapping[str, Any]) -> "StatementTags":
        """Read them from all tags of a version."""
        return cls(tags.get(PUBLICATION_TAG), tags.get(JUDGEMENT_TAG))


NO_STATEMENTS = StatementTags()


@dataclass(frozen=True)
class Judgement:
    """The judge's word: the verdict of this SHA-256 on this release, given at `at` (UTC)."""

    release: ReleaseIdentity
    verdict_sha256: str
    approved: bool
    at: datetime

    def to_bytes(self) -> bytes:
        """As it is signed and stored."""
        return _json_bytes({**asdict(self), "at": self.at.isoformat()})


@dataclass(frozen=True)
class Publication:
    """The publisher's word on what is live for a cluster.

    `files`: SHA-256 of each file of the release, its manifest's and its verdict's among them, by name.
    `sequence`: counts a cluster's statements from 1 on. `at`, `expires`: UTC. `gate_rules_sha256`: of the
    rules that the verdict was given by. `replaces`: the version that was live before (None: none).
    `previous_sha256`: of the payload of the publication or rollback before, so that a gap in the history
    shows (None: it is the first).
    """

    release: ReleaseIdentity
    kind: Kind
    sequence: int
    at: datetime
    expires: datetime
    files: Mapping[str, str]
    verdict_sha256: str
    gate_rules_sha256: str
    asked_by: str
    approved_by: str
    because: str
    replaces: int | None
    previous_sha256: str | None

    def to_bytes(self) -> bytes:
        """As it is signed and stored."""
        times = {"at": self.at.isoformat(), "expires": self.expires.isoformat()}
        return _json_bytes({**asdict(self), **times, "files": dict(self.files)})


def parse_judgement(payload: bytes) -> Judgement:
    """Read a judgement's bytes; raises StatementRefusedError."""
    data = _object(payload, Judgement, "judgement")
    try:
        if not isinstance(data["approved"], bool):
            raise ValueError(f"approved is {data['approved']!r}")
        return Judgement(
            _identity(data["release"]),
            _digest(data["verdict_sha256"]),
            data["approved"],
            time_with_offset(data["at"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _misfit("judgement", error) from error


def parse_publication(payload: bytes) -> Publication:
    """Read a publication's bytes; raises StatementRefusedError."""
    data = _object(payload, Publication, "publication")
    try:
        files = data["files"]
        if not isinstance(files, dict):
            raise ValueError("files is no object")
        if data["kind"] not in KINDS:
            raise ValueError(f"kind is {data['kind']!r}, not one of {', '.join(KINDS)}")
        at, expires = time_with_offset(data["at"]), time_with_offset(data["expires"])
        if not timedelta(0) < expires - at <= LONGEST:
            raise ValueError(f"it holds from {at} until {expires}; at most {LONGEST.days} days are allowed")
        previous, replaces = data["previous_sha256"], data["replaces"]
        return Publication(
            release=_identity(data["release"]),
            kind=data["kind"],
            sequence=_count(data["sequence"]),
            at=at,
            expires=expires,
            files={name: _digest(digest) for name, digest in files.items()},
            verdict_sha256=_digest(data["verdict_sha256"]),
            gate_rules_sha256=_digest(data["gate_rules_sha256"]),
            asked_by=_text(data["asked_by"], MOST_NAME),
            approved_by=_text(data["approved_by"], MOST_NAME),
            because=_text(data["because"], MOST_REASON),
            replaces=None if replaces is None else _count(replaces),
            previous_sha256=None if previous is None else _digest(previous),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _misfit("publication", error) from error


def _object(payload: bytes, kind: type[Judgement | Publication], name: str) -> dict[str, Any]:
    try:
        data = strict_json.loads(payload)
    except ValueError as error:
        raise _misfit(name, error) from error
    fields = set(kind.__dataclass_fields__)
    if not isinstance(data, dict) or data.keys() != fields:
        raise _misfit(name, f"its fields are not {', '.join(sorted(fields))}")
    return data


def _identity(value: Any) -> ReleaseIdentity:
    release = identify(value["cluster"], value["version"], value["manifest_sha256"])
    if value != asdict(release):
        raise ValueError(f"the release is {value!r}")
    return release


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not SHA256.fullmatch(value):
        raise ValueError(f"{value!r} is no SHA-256")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise ValueError(f"{value!r} is no number from 1 on")
    return value


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"what should be a text of at most {most} characters is not")
    return value


def _json_bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _misfit(name: str, why: object) -> StatementRefusedError:
    return StatementRefusedError(
        f"The signed {name} cannot be read: {why}.", Reason.UNREADABLE, remedy="Publish the release again."
    )
