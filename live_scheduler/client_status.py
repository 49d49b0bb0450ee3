"""What a client of releases does and why, as it is told to people and monitoring."""

from dataclasses import dataclass

SIGNED_TRUST, UNSIGNED_TRUST = "signed", "unsigned releases are believed"


@dataclass(frozen=True)
class ClientStatus:
    """What a client does and why; times are ISO, None: never.

    `mode`: "following" the alias, on the "last known good" release while the server is away or the newer one
    is refused, "stale" when the server was away for too many polls or what was published has expired, or on
    the "fallback". `problem` is what stands in the way now, `refused_*` the last refused release
    (`refused_code`: why, in a word), `fetching` how far a fetch is that runs now. `trust`: "signed", or
    "unsigned releases are believed". Of a signed release in use: `published`, whether the publisher signed
    that it is live; the `sequence` number of that publication, when it `expires`, and whether it has
    `expired` (or, by a clock that is wrong, might have).
    """

    alias: str
    mode: str
    release: str
    version: int | None
    verdict: str | None
    last_poll: str | None
    last_contact: str | None
    problem: str | None
    refused_version: int | None
    refused_reason: str | None
    fetching: str | None = None
    refused_code: str | None = None
    trust: str = UNSIGNED_TRUST
    published: bool | None = None
    sequence: int | None = None
    expires: str | None = None
    expired: bool = False
