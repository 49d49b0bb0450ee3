"""Whether a verdict approves exactly this release: asked alike by publisher, rollback and scheduler.

The gate's verdict is a document of a run beside the release. It names the release that was judged, and the
release's tags pin the document:

    verdict.json   {"approved": true, "sentence": ..., "release": {"name": "lucid-release-venus",
                    "version": 3, "cluster": "venus", "manifest_sha256": ...}, ...}
    tags           manifest_sha256, verdict (approved or refused), verdict_sha256, verdict_run_id

Everything has to agree. Whoever may write all of it to MLflow can still approve what the gate never saw:
`check_approval` hands what it found to an `Authenticator`, which is where signatures belong.

This module needs the standard library only: the light client asks it too.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foundation import strict_json
from foundation.errors import ReleaseRefusedError
from lucid_models.releases.manifest import SHA256, release_name

APPROVED, REFUSED = "approved", "refused"
MAX_VERDICT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ReleaseIdentity:
    """Which release is meant: as the verdict names it."""

    name: str
    version: int
    cluster: str
    manifest_sha256: str


@dataclass(frozen=True)
class VerdictTags:
    """What the tags of a release say of its verdict; None where they say nothing."""

    word: str | None
    sha256: str | None
    run_id: str | None

    @classmethod
    def of(cls, tags: Mapping[str, str]) -> "VerdictTags":
        """Read them from all tags of a version."""
        return cls(tags.get("verdict"), tags.get("verdict_sha256"), tags.get("verdict_run_id"))


Authenticator = Callable[[ReleaseIdentity, bytes], None]
"""Raises ReleaseRefusedError unless a verdict's document on a release comes from its gate run."""


def trust_the_registry(release: ReleaseIdentity, document: bytes) -> None:
    """Who may write to MLflow is believed: nothing is signed."""


def identify(cluster: str, version: object, manifest_sha256: object) -> ReleaseIdentity:
    """The release that a registry or a disk names; raises ReleaseRefusedError for what names none."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ReleaseRefusedError(f"{version!r} is no version of a release: they count from 1.")
    if not isinstance(manifest_sha256, str) or not SHA256.fullmatch(manifest_sha256):
        raise ReleaseRefusedError(
            f"Release {version} of {cluster} does not pin its manifest: the tag manifest_sha256 is "
            f"{manifest_sha256!r}.",
            remedy="Another program registered it: build the release again.",
        )
    return ReleaseIdentity(release_name(cluster), version, cluster, manifest_sha256)


def check_approval(
    release: ReleaseIdentity,
    tags: VerdictTags,
    document: bytes | None,
    *,
    authenticate: Authenticator = trust_the_registry,
) -> None:
    """Raise ReleaseRefusedError unless the document (None: there is none) approves exactly this release."""
    validate = f"Validate it: lucid release validate --cluster {release.cluster} --version {release.version}."
    if document is None or tags.word is None:
        raise ReleaseRefusedError(
            f"Release {release.version} of {release.cluster} has no verdict.", remedy=validate
        )
    verdict = read_verdict_document(release, tags.sha256, document)
    if verdict.get("approved") is not True:
        raise ReleaseRefusedError(
            f"The gate refused {_subject(release)}: {verdict.get('sentence', 'no reason was given')}",
            remedy="See its validation run in MLflow; train or tune again.",
        )
    if tags.word != APPROVED:
        raise ReleaseRefusedError(
            f"The verdict on {_subject(release)} is approved; its tag says {tags.word!r}.", remedy=validate
        )
    if verdict.get("release") != asdict(release):
        raise ReleaseRefusedError(
            f"The verdict on {_subject(release)} was given on {verdict.get('release')}.", remedy=validate
        )
    authenticate(release, document)


def read_verdict_document(release: ReleaseIdentity, sha256: str | None, document: bytes) -> dict[str, Any]:
    """The verdict in a document; raises ReleaseRefusedError when it is not the one that the tags pin."""
    digest = hashlib.sha256(document).hexdigest()
    if digest != sha256:
        raise ReleaseRefusedError(
            f"The verdict on {_subject(release)} has the SHA-256 {digest}; its tag says {sha256}.",
            remedy="It was changed, or a validation was interrupted: validate the release again.",
        )
    try:
        verdict = strict_json.loads(document)
    except (ValueError, RecursionError) as error:
        raise ReleaseRefusedError(f"The verdict on {_subject(release)} is not JSON: {error}.") from error
    if not isinstance(verdict, dict):
        raise ReleaseRefusedError(f"The verdict on {_subject(release)} is not a JSON object.")
    return verdict


def _subject(release: ReleaseIdentity) -> str:
    return f"release {release.version} of {release.cluster}"
