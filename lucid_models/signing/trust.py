"""The trust file: which keys a scheduler believes, for what, since when and until when.

    {"format_version": 1,
     "threshold": {"judge": 1, "publisher": 1},
     "clock_skew_s": 300,
     "keys": [{"id": "3f0c...", "role": "publisher", "public": "HEX OF 32 BYTES",
               "not_before": "2026-11-27T00:00:00+00:00", "not_after": null, "revoked": null}]}

Two roles (TUF's idea of separate roles with thresholds; Samuel et al., "Survivable Key Compromise in Software
Update Systems", CCS '10): the *judge* signs verdicts, the *publisher* what goes live. A key's id is the
SHA-256 of its 32 bytes in hexadecimal, so that no id can stand for another key. Whoever may write this file
decides what schedulers run: it comes to a scheduler's machine by hand or configuration management, never by
the registry.

Needs the standard library only.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import read_regular
from lucid_models.signing.ed25519 import PUBLIC_BYTES

Role = Literal["judge", "publisher"]
ROLES: tuple[Role, ...] = get_args(Role)
FORMAT_VERSION = 1
TRUST_FILE = "trust.json"
TRUST_VARIABLE, UNSIGNED = "LUCID_TRUST", "unsigned"
DEFAULT_CLOCK_SKEW_S = 300.0
_MOST_BYTES = 256 * 1024
_KEY_FIELDS = frozenset({"id", "role", "public", "not_before", "not_after", "revoked"})


@dataclass(frozen=True)
class TrustedKey:
    """A public key (32 bytes) with its role. It signs from `not_before` until `not_after` (None: without an
    end); one that was `revoked` counts for nothing, whatever the date of what it signed.
    """

    public: bytes
    role: Role
    not_before: datetime
    not_after: datetime | None = None
    revoked: datetime | None = None

    @property
    def id(self) -> str:
        """SHA-256 of its bytes, in hexadecimal."""
        return key_id(self.public)

    def is_valid_at(self, moment: datetime) -> bool:
        """Whether it may sign at an aware time."""
        return self.not_before <= moment and (self.not_after is None or moment <= self.not_after)

    def to_data(self) -> dict[str, Any]:
        """As the trust file holds it."""
        return {
            "id": self.id,
            "role": self.role,
            "public": self.public.hex(),
            "not_before": self.not_before.isoformat(),
            "not_after": None if self.not_after is None else self.not_after.isoformat(),
            "revoked": None if self.revoked is None else self.revoked.isoformat(),
        }


@dataclass(frozen=True)
class Trust:
    """The keys, how many of a role must sign, and how far ahead of this clock a statement may be (s)."""

    keys: Sequence[TrustedKey] = ()
    threshold: Mapping[Role, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 1))
    clock_skew_s: float = DEFAULT_CLOCK_SKEW_S

    def key(self, keyid: str) -> TrustedKey | None:
        """The key of an id; None: it is unknown."""
        return next((key for key in self.keys if key.id == keyid), None)

    def to_text(self) -> str:
        """As the file holds it."""
        document = {
            "format_version": FORMAT_VERSION,
            "threshold": dict(self.threshold),
            "clock_skew_s": self.clock_skew_s,
            "keys": [key.to_data() for key in self.keys],
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"


def key_id(public: bytes) -> str:
    """The id of a public key."""
    return hashlib.sha256(public).hexdigest()


def trust_place(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the trust file is (LUCID_TRUST, else `trust.json` in `folder`); None: releases are unsigned."""
    named = environment.get(TRUST_VARIABLE, "").strip()
    if named == UNSIGNED:
        return None
    return Path(named) if named else folder / TRUST_FILE


def read_trust(path: Path) -> Trust:
    """Read a trust file; raises NotFoundError where there is none, BadInputError for what is none."""
    try:
        payload = read_regular(path, _MOST_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(
            f"There is no trust file at {path}: no signed release can be believed.",
            remedy="Make keys (`lucid keys create`) where releases are published, and copy its trust file to "
            "schedulers: `lucid keys show --trust-file` prints it.",
        ) from None
    except OSError as error:
        raise BadInputError(f"The trust file {path} cannot be read: {error}.") from error
    return parse_trust(payload, source=f"The trust file {path}")


def parse_trust(payload: bytes, *, source: str) -> Trust:
    """Read a trust file's bytes; raises BadInputError naming what is wrong in it."""
    try:
        if len(payload) > _MOST_BYTES:
            raise ValueError(f"it holds more than {_MOST_BYTES} bytes")
        document = strict_json.loads(payload)
        if document["format_version"] != FORMAT_VERSION:
            raise ValueError(f"its format version is {document['format_version']!r}, not {FORMAT_VERSION}")
        keys = tuple(_key(each) for each in document["keys"])
        if len({key.id for key in keys}) != len(keys):
            raise ValueError("a key stands in it twice")
        return Trust(keys, _threshold(document["threshold"]), _skew(document["clock_skew_s"]))
    except (ValueError, KeyError, TypeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise BadInputError(
            f"{source} cannot be used: {why}.",
            remedy="Put a good copy in its place: another machine has it, or a backup.",
        ) from error


def _threshold(value: Any) -> dict[Role, int]:
    if not isinstance(value, dict):
        raise ValueError("its threshold is no object")
    if value.keys() != set(ROLES):
        raise ValueError(f"its threshold names {sorted(value)}, not {sorted(ROLES)}")
    for role, count in value.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ValueError(f"its threshold of {role} is {count!r}, not a number from 1 on")
    return dict(value)


def _skew(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86_400:
        raise ValueError(f"its clock_skew_s is {value!r}, not seconds from 0 to 86400")
    return float(value)


def _key(value: Any) -> TrustedKey:
    if not isinstance(value, dict):
        raise ValueError(f"a key is {value!r}, not an object")
    if value.keys() != _KEY_FIELDS:
        raise ValueError(f"a key has the fields {sorted(value)}, not {sorted(_KEY_FIELDS)}")
    if value["role"] not in ROLES:
        raise ValueError(f"a key has the role {value['role']!r}, not one of {', '.join(ROLES)}")
    public = bytes.fromhex(value["public"])
    if len(public) != PUBLIC_BYTES:
        raise ValueError(f"a public key holds {len(public)} bytes, not {PUBLIC_BYTES}")
    not_before = time_with_offset(value["not_before"])
    not_after, revoked = (
        None if value[name] is None else time_with_offset(value[name]) for name in ("not_after", "revoked")
    )
    key = TrustedKey(public, value["role"], not_before, not_after, revoked)
    if key.id != value["id"]:
        raise ValueError(f"the key {value['id']!r} is not the one of this id")
    return key


def time_with_offset(value: Any) -> datetime:
    """An ISO time with its offset, in UTC; raises ValueError, TypeError."""
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"the time {value!r} has no offset")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"the time {value!r} is out of range") from None
