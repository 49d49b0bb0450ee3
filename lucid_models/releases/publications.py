"""What the publisher says of a cluster: signed before `champion` moves, renewed every day, kept for good.

A publication stands as an envelope in the tag `publication` of the version that it makes live, so that a
scheduler gets it with the alias that it asks for anyway; renewals replace it there. Publications and
rollbacks are kept besides (`publication_history.py`).

The number of a statement is one more than the newest that can be found, and at least the seconds since 1970:
it rises though the history was deleted, or the registry put back to an older state.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from foundation.errors import BadInputError, LucidError, ReleaseRefusedError
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.aliases import CHAMPION
from lucid_models.releases.manifest import MANIFEST_FILE, VERDICT_FILE, canonical_json, release_name
from lucid_models.releases.publication_history import (
    PastPublication,
    keep_in_history,
    newest_believed,
    read_history,
)
from lucid_models.releases.store import find_by_alias, identity_of, read_manifest, read_verdict
from lucid_models.signing.envelope import parse_envelope
from lucid_models.signing.installation import Signing
from lucid_models.signing.signers import Signer, seal
from lucid_models.signing.statements import (
    JUDGEMENT_TAG,
    JUDGEMENT_TYPE,
    LONGEST,
    MOST_NAME,
    MOST_REASON,
    PUBLICATION_TAG,
    PUBLICATION_TYPE,
    Judgement,
    Kind,
    Publication,
    parse_publication,
)
from lucid_models.signing.trust import TRUST_VARIABLE, UNSIGNED
from lucid_models.signing.verification import believe_judgement, read_publication

HOURS_VARIABLE, DEFAULT_HOURS = "LUCID_PUBLICATION_HOURS", 24.0


@dataclass(frozen=True)
class PublicationRequest:
    """Who wants a release live, who approved it (empty: nobody was asked), and why, in people's words."""

    asked_by: str = ""
    approved_by: str = ""
    because: str = ""


def sign_judgement(
    registry: Registry, release: RegisteredVersion, judgement: Judgement, signers: list[Signer]
) -> None:
    """Put the judge's word on a verdict into the release's tag; where nothing is signed take it away."""
    if signers:
        text = seal(JUDGEMENT_TYPE, judgement.to_bytes(), signers)
        registry.set_version_tag(release.name, release.version, JUDGEMENT_TAG, text)
    elif JUDGEMENT_TAG in release.tags:
        registry.delete_version_tag(release.name, release.version, JUDGEMENT_TAG)


def check_judgement(release: RegisteredVersion, signing: Signing) -> None:
    """Raise ReleaseRefusedError unless the judge signed the verdict on a release, where that is asked for."""
    trust = signing.trust
    if trust is not None:
        believe_judgement(
            release.tags.get(JUDGEMENT_TAG),
            release=identity_of(release),
            verdict_sha256=release.tags.get("verdict_sha256"),
            trust=trust,
        )


def sign_publication(
    registry: Registry,
    release: RegisteredVersion,
    kind: Kind,
    request: PublicationRequest,
    *,
    replaces: int | None,
    signing: Signing,
) -> None:
    """Put the publisher's word that a release is live into its tag; where nothing is signed take it away.

    Raises BadInputError where the keys that must sign are not here.
    """
    signers = signing.signers("publisher")
    if not signers:
        if PUBLICATION_TAG in release.tags:
            registry.delete_version_tag(release.name, release.version, PUBLICATION_TAG)
        return
    identity = identity_of(release)
    verdict = read_verdict(registry, release) or {}
    verdict_sha256 = release.tags["verdict_sha256"]
    past = newest_believed(read_history(registry, identity.cluster, signing))
    at = datetime.now(UTC).replace(microsecond=0)
    publication = Publication(
        release=identity,
        kind=kind,
        sequence=max(1 + _newest_number(registry, identity.cluster, past, signing), int(at.timestamp())),
        at=at,
        expires=at + _holds_for(),
        files={
            MANIFEST_FILE: identity.manifest_sha256,
            VERDICT_FILE: verdict_sha256,
            **{pin.file: pin.sha256 for pin in read_manifest(registry, release).models.values()},
        },
        verdict_sha256=verdict_sha256,
        gate_rules_sha256=hashlib.sha256(canonical_json(verdict.get("rules") or {})).hexdigest(),
        asked_by=request.asked_by[:MOST_NAME],
        approved_by=request.approved_by[:MOST_NAME],
        because=request.because[:MOST_REASON],
        replaces=replaces,
        previous_sha256=None if past is None else past.sha256,
    )
    text = seal(PUBLICATION_TYPE, publication.to_bytes(), signers)
    registry.set_version_tag(release.name, release.version, PUBLICATION_TAG, text)


def renew_champion(*, tracking_uri: str, cluster: str) -> Publication:
    """Renew the publication of a cluster's champion.

    Raises NotFoundError without a champion, BadInputError where nothing is signed, ReleaseRefusedError unless
    it was signed as live, and as `renew_publication`.
    """
    registry, signing = Registry(tracking_uri), Signing.of_environment()
    champion = find_by_alias(registry, cluster, CHAMPION)
    why = _why_not_live(registry, champion, signing)
    if why is not None:
        raise ReleaseRefusedError(
            f"Release {champion.version} is the champion of {cluster}, but is not signed as live: {why}",
            remedy="See what moved the alias. If it should be live, publish it: `lucid release publish "
            f"--cluster {cluster} --version {champion.version}`.",
        )
    publication = renew_publication(registry, champion, signing)
    if publication is None:
        raise BadInputError(
            f"Nothing is signed here ({TRUST_VARIABLE}={UNSIGNED}): there is no publication to renew."
        )
    return publication


def is_published_as_judged(registry: Registry, release: RegisteredVersion, signing: Signing) -> bool:
    """Whether a release is signed as live, where that is asked for, by the verdict that it has now."""
    if signing.trust_file is None:
        return True
    if _why_not_live(registry, release, signing) is not None:
        return False
    return _stated(release.tags[PUBLICATION_TAG]).verdict_sha256 == release.tags.get("verdict_sha256")


def check_was_published(release: RegisteredVersion, signing: Signing) -> None:
    """Raise ReleaseRefusedError unless the publisher once signed that a release is live, where that is asked
    for: a rollback by the monitoring asks no person, and goes where an alias of the registry points.
    """
    why = _why_never_live(release, signing)
    if why is not None:
        cluster = identity_of(release).cluster
        raise ReleaseRefusedError(
            f"Release {release.version} of {cluster} cannot be gone back to, because it was never signed as "
            f"live: {why}",
            remedy="See what moved the alias `previous`. If it should be live, publish it: `lucid release "
            f"publish --cluster {cluster} --version {release.version}`.",
        )


def _why_not_live(registry: Registry, champion: RegisteredVersion, signing: Signing) -> str | None:
    """Why it does not hold that the publisher signed a champion as live, and nothing newer; None: it does.

    A renewal asks no person: without this, whoever may write to the registry could have any approved release
    signed as live, by moving the alias and waiting.
    """
    why = _why_never_live(champion, signing)
    if why is not None or signing.trust_file is None:
        return why
    newest = newest_believed(read_history(registry, identity_of(champion).cluster, signing))
    sequence = _stated(champion.tags[PUBLICATION_TAG]).sequence
    signed = signing.newest_live(identity_of(champion).cluster)
    if sequence < signed:
        return f"Its number is {sequence}; number {signed} went live since."
    if newest is not None and sequence < newest.publication.sequence:
        return f"Release {newest.publication.release.version} was published after it."
    return None


def _why_never_live(release: RegisteredVersion, signing: Signing) -> str | None:
    """Why a release has no publication that is believed, whatever its number and dates; None: it has."""
    trust = signing.trust
    if trust is None:
        return None
    identity, text = identity_of(release), release.tags.get(PUBLICATION_TAG)
    if text is None:
        return "It has no publication."
    place = f"The publication of release {identity.version} of {identity.cluster}"
    try:
        said = read_publication(text, trust=trust, place=place).publication.release
    except ReleaseRefusedError as error:
        return str(error).removesuffix(error.remedy or "").strip()
    if said != identity:
        return f"Its publication was signed for release {said.version} of {said.cluster}."
    return None


def renew_publication(
    registry: Registry,
    champion: RegisteredVersion,
    signing: Signing,
    request: PublicationRequest = PublicationRequest(),
) -> Publication | None:
    """Say again, with a later expiry, that a champion is live; None where nothing is signed.

    One that is not signed as live, as from before anything was signed, is published as `request` says. Raises
    ReleaseRefusedError when the judge did not sign its verdict, BadInputError where the keys that must sign
    are not here.
    """
    if signing.trust_file is None:
        return None
    check_judgement(champion, signing)
    kind: Kind = "publish"
    replaces: int | None = None
    if _why_not_live(registry, champion, signing) is None:
        said = _stated(champion.tags[PUBLICATION_TAG])
        kind, replaces = "renew", said.replaces
        request = PublicationRequest(said.asked_by, said.approved_by, said.because)
    sign_publication(registry, champion, kind, request, replaces=replaces, signing=signing)
    keep_in_history(registry, identity_of(champion).cluster, signing)
    return _stated(registry.version(champion.name, champion.version).tags[PUBLICATION_TAG])


def _stated(text: str) -> Publication:
    """What a tag says, by any signer."""
    return parse_publication(parse_envelope(text, source=f"The tag {PUBLICATION_TAG}").payload)


def _newest_number(registry: Registry, cluster: str, newest: PastPublication | None, signing: Signing) -> int:
    """The highest number that is remembered, or that the history or the champion shows; 0: none."""
    numbers = [signing.newest_live(cluster), 0 if newest is None else newest.publication.sequence]
    champion = registry.aliases(release_name(cluster)).get(CHAMPION)
    if champion is not None and (trust := signing.trust) is not None:
        text = registry.version(release_name(cluster), champion).tags.get(PUBLICATION_TAG)
        with suppress(LucidError):  # its number is not to be followed
            signed = read_publication(text, trust=trust, place=f"The publication of {cluster}")
            numbers.append(signed.publication.sequence)
    return max(numbers)


def _holds_for() -> timedelta:
    """How long a publication holds (LUCID_PUBLICATION_HOURS)."""
    text = os.environ.get(HOURS_VARIABLE, "").strip() or str(DEFAULT_HOURS)
    try:
        hours = float(text)
    except ValueError:
        hours = float("nan")
    if not 1 <= hours <= LONGEST / timedelta(hours=1):
        raise BadInputError(
            f"{HOURS_VARIABLE}={text!r} is not a number of hours from 1 to {LONGEST / timedelta(hours=1):g}."
        )
    return timedelta(hours=hours)
