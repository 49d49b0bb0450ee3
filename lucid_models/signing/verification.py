"""Whether a statement is believed: signatures first, then what it says, then its number and its dates.

Every refusal is a `StatementRefusedError` (`refusals.py`). Needs the standard library,
and `cryptography` where there is something signed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_models.releases.approval import ReleaseIdentity
from lucid_models.signing.ed25519 import SIGNATURE_BYTES, is_signed_by
from lucid_models.signing.envelope import Envelope, parse_envelope, pre_authentication_encoding
from lucid_models.signing.refusals import Reason, StatementRefusedError
from lucid_models.signing.statements import (
    JUDGEMENT_TYPE,
    PUBLICATION_TYPE,
    Judgement,
    Publication,
    parse_judgement,
    parse_publication,
)
from lucid_models.signing.trust import Role, Trust, TrustedKey


@dataclass(frozen=True)
class SeenStatement:
    """The newest publication that a client has believed: its number, and the SHA-256 of its payload."""

    sequence: int
    payload_sha256: str

    @classmethod
    def of(cls, payload: bytes, publication: Publication) -> "SeenStatement":
        """What to remember of a publication that was believed."""
        return cls(publication.sequence, hashlib.sha256(payload).hexdigest())


@dataclass(frozen=True)
class BelievedPublication:
    """A publication that was verified, and what to remember of it. `signed_by`: the ids of the keys."""

    publication: Publication
    seen: SeenStatement
    signed_by: Sequence[str] = ()

    def is_stale(self, now: datetime) -> bool:
        """Whether it was not renewed in time."""
        return now > self.publication.expires


def believe_publication(
    text: str | None,
    *,
    release: ReleaseIdentity,
    verdict_sha256: str | None,
    trust: Trust,
    now: datetime,
    seen: SeenStatement | None = None,
    may_be_expired: bool = False,
) -> BelievedPublication:
    """The publication in an envelope (None: there is none) of exactly this release.

    `seen`: the newest one that was believed before; a lower number is refused, and the same number with
    another payload. `now`: an aware time. `may_be_expired`: of a copy that was believed while it held, which
    is used on, as stale. Raises StatementRefusedError.
    """
    place = f"The publication of release {release.version} of {release.cluster}"
    signed = read_publication(text, trust=trust, place=place)
    publication, found = signed.publication, signed.seen
    said = publication.release
    if said.cluster != release.cluster:
        raise StatementRefusedError(
            f"{place} was signed for cluster {said.cluster}.",
            Reason.OTHER_CLUSTER,
            remedy="Another cluster's statement was put there: publish again.",
        )
    if said != release or publication.verdict_sha256 != verdict_sha256:
        raise StatementRefusedError(
            f"{place} was signed for version {said.version} with the manifest {said.manifest_sha256[:12]}... "
            f"and the verdict {publication.verdict_sha256[:12]}...; the registry names version "
            f"{release.version}, {release.manifest_sha256[:12]}..., {str(verdict_sha256)[:12]}....",
            Reason.OTHER_RELEASE,
            remedy="What the registry says was changed after it was published: publish again.",
        )
    if publication.at > now + timedelta(seconds=trust.clock_skew_s):
        raise StatementRefusedError(
            f"{place} was signed at {publication.at.isoformat()}, more than {trust.clock_skew_s:g} s ahead "
            f"of this machine's clock ({now.isoformat(timespec='seconds')}).",
            Reason.FROM_THE_FUTURE,
            remedy="Set the clocks of both machines right.",
        )
    if seen is not None and (
        found.sequence < seen.sequence or (found.sequence == seen.sequence and found != seen)
    ):
        another = "another with that number" if found.sequence == seen.sequence else f"number {seen.sequence}"
        raise StatementRefusedError(
            f"{place} has the number {found.sequence}; {another} was seen before.",
            Reason.LOWER_SEQUENCE,
            remedy="The registry answers with what is no longer true. A rollback is published anew: "
            f"`lucid release rollback --cluster {release.cluster}`.",
        )
    if publication.expires < now and not may_be_expired:
        raise StatementRefusedError(
            f"{place} expired at {publication.expires.isoformat()}.",
            Reason.EXPIRED,
            remedy=f"Renew it: `lucid release renew --cluster {release.cluster}` or its DAG.",
        )
    return signed


def read_publication(text: str | None, *, trust: Trust, place: str) -> BelievedPublication:
    """A publication that enough publishers' keys signed while they were valid, whatever it says.

    Raises StatementRefusedError.
    """
    envelope = _signed_envelope(text, PUBLICATION_TYPE, place)
    signatures = _signatures(envelope, "publisher", trust)
    _check_threshold(signatures, "publisher", trust, None, place)
    publication = parse_publication(envelope.payload)
    signed_by = _check_threshold(signatures, "publisher", trust, publication.at, place)
    return BelievedPublication(publication, SeenStatement.of(envelope.payload, publication), signed_by)


def believe_judgement(
    text: str | None, *, release: ReleaseIdentity, verdict_sha256: str | None, trust: Trust
) -> Judgement:
    """The judge's word in an envelope (None: there is none) that the gate approved exactly this release by
    this verdict. Raises StatementRefusedError.
    """
    place = f"The judgement on release {release.version} of {release.cluster}"
    envelope = _signed_envelope(text, JUDGEMENT_TYPE, place)
    signatures = _signatures(envelope, "judge", trust)
    _check_threshold(signatures, "judge", trust, None, place)
    judgement = parse_judgement(envelope.payload)
    _check_threshold(signatures, "judge", trust, judgement.at, place)
    if judgement.release.cluster != release.cluster:
        raise StatementRefusedError(
            f"{place} was signed for cluster {judgement.release.cluster}.", Reason.OTHER_CLUSTER
        )
    if judgement.release != release or judgement.verdict_sha256 != verdict_sha256:
        raise StatementRefusedError(
            f"{place} was signed for version {judgement.release.version} with the verdict "
            f"{judgement.verdict_sha256[:12]}...; the registry says {str(verdict_sha256)[:12]}....",
            Reason.OTHER_RELEASE,
            remedy="Have it judged again: `lucid release validate`.",
        )
    if not judgement.approved:
        raise StatementRefusedError(f"{place} is that the gate refused it.", Reason.NOT_APPROVED)
    return judgement


def check_file(publication: Publication, file: str, payload: bytes) -> None:
    """Raise StatementRefusedError unless a file of the release is byte for byte what was published."""
    digest = hashlib.sha256(payload).hexdigest()
    if publication.files.get(file) != digest:
        raise StatementRefusedError(
            f"The file {file} of release {publication.release.version} of {publication.release.cluster} has "
            f"the SHA-256 {digest}; {publication.files.get(file)} was published.",
            Reason.FILE_CHANGED,
            remedy="It was changed after it was published: publish a release that is whole.",
        )


def _signed_envelope(text: str | None, payload_type: str, place: str) -> Envelope:
    if text is None:
        raise StatementRefusedError(
            f"{place} is not signed.",
            Reason.UNSIGNED,
            remedy="Publish it with a publisher's key (`lucid keys create`), or let this scheduler believe "
            "unsigned releases (LUCID_TRUST=unsigned).",
        )
    envelope = parse_envelope(text, source=place)
    if envelope.payload_type != payload_type:
        raise StatementRefusedError(
            f"{place} is of the type {envelope.payload_type!r}, not {payload_type}.", Reason.WRONG_ROLE
        )
    return envelope


@dataclass(frozen=True)
class _Signatures:
    """The keys of a role that signed, and why the other signatures do not count."""

    keys: Mapping[str, TrustedKey]
    refused: Sequence[tuple[Reason, str]]


def _signatures(envelope: Envelope, role: Role, trust: Trust) -> _Signatures:
    """Who signed, before what was signed is read; each key counts once."""
    message = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    keys: dict[str, TrustedKey] = {}
    refused: list[tuple[Reason, str]] = []
    for signature in envelope.signatures:
        key = trust.key(signature.keyid)
        name = f"the key {signature.keyid[:12]}..."
        if key is None:
            refused.append((Reason.UNKNOWN_KEY, f"{name} is unknown"))
        elif key.role != role:
            refused.append((Reason.WRONG_ROLE, f"{name} is a {key.role}'s"))
        elif key.revoked is not None:
            refused.append((Reason.REVOKED_KEY, f"{name} was revoked at {key.revoked.isoformat()}"))
        elif len(signature.value) != SIGNATURE_BYTES or not is_signed_by(
            key.public, message, signature.value
        ):
            refused.append((Reason.BAD_SIGNATURE, f"the signature of {name[4:]} does not fit"))
        else:
            keys[key.id] = key
    return _Signatures(keys, refused)


def _check_threshold(
    signatures: _Signatures, role: Role, trust: Trust, at: datetime | None, place: str
) -> Sequence[str]:
    """The ids of the keys that signed and were valid `at` that moment (None: the moment stands in what was
    signed, and that is read only when the signatures hold).

    Raises StatementRefusedError when they are fewer than must sign.
    """
    valid = [key for key in signatures.keys.values() if at is None or key.is_valid_at(at)]
    needed = trust.threshold[role]
    if len(valid) >= needed:
        return sorted(key.id for key in valid)
    refused = list(signatures.refused)
    for key in signatures.keys.values():
        if at is not None and not key.is_valid_at(at):
            until = "without an end" if key.not_after is None else f"until {key.not_after.isoformat()}"
            sentence = (
                f"the key {key.id[:12]}... is valid from {key.not_before.isoformat()} {until}; it was used "
                f"at {at.isoformat()}"
            )
            refused.append((Reason.KEY_OUTSIDE_VALIDITY, sentence))
    if not refused:
        unsigned = (Reason.UNSIGNED, "it has no signature")
        refused = [(Reason.BELOW_THRESHOLD, "no other key signed") if valid else unsigned]
    raise StatementRefusedError(
        f"{place} is signed by {len(valid)} of the {needed} {role} keys that must sign: "
        f"{'; '.join(sentence for _, sentence in refused)}.",
        Reason.BELOW_THRESHOLD if valid else refused[0][0],
        remedy="Compare both sides' keys: `lucid keys show`.",
    )
