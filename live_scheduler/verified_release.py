"""Makes a release of what a server or a disk holds, or refuses it: both are believed equally little.

NumPy and the scorers, which take most of the client's start, are imported for the first approved release.
"""

from collections.abc import Callable, Sequence

from foundation.errors import BadInputError, ReleaseRefusedError
from live_scheduler.release import LiveRelease
from lucid_models.releases.approval import (
    MAX_VERDICT_BYTES,
    ReleaseIdentity,
    VerdictTags,
    check_approval,
)
from lucid_models.releases.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    VERDICT_FILE,
    ReleaseManifest,
    parse_pinned_manifest,
)
from lucid_models.releases.optional_parts import optional_part

ReadFile = Callable[[str, int], bytes]
"""Reads a file of a release by name, of at most so many bytes."""


def verify_release(
    alias: str,
    release: ReleaseIdentity,
    verdict: VerdictTags | None,
    read: ReadFile,
    announce: Callable[[ReleaseManifest], object] = lambda manifest: None,
    *,
    signed_by: Sequence[str] = (),
) -> tuple[LiveRelease, dict[str, bytes]]:
    """The release with its files, when its verdict approves exactly it and everything in it verifies.

    `verdict` None: without an approval. `announce` is told of the manifest before the models are read.
    `signed_by`: the roles whose signatures on it were verified before.
    Raises ReleaseRefusedError, and what `read` raises.
    """
    files: dict[str, bytes] = {}
    if verdict is not None:
        # First, because it is small: what is not approved is not fetched.
        document = None if verdict.word is None else read(VERDICT_FILE, MAX_VERDICT_BYTES)
        check_approval(release, verdict, document)
        files |= {} if document is None else {VERDICT_FILE: document}
    from lucid_models.releases.files import check_size, load_release_scorers

    payload = files[MANIFEST_FILE] = read(MANIFEST_FILE, MAX_MANIFEST_BYTES)
    manifest = parse_pinned_manifest(payload, name=release.name, sha256=release.manifest_sha256)
    announce(manifest)
    for kind, pin in manifest.models.items():
        files[pin.file] = read(pin.file, pin.bytes)
        check_size(manifest, kind, len(files[pin.file]))
    scorers = load_release_scorers(manifest, files)
    for name, settings in manifest.parts.items():
        part = optional_part(name)
        try:
            part.check_settings(settings)
        except BadInputError as error:
            raise ReleaseRefusedError(
                f"The release's settings of {part.what} do not hold: {error}"
            ) from error
    approval = None if verdict is None else verdict.sha256
    return (
        LiveRelease(
            alias, release.version, manifest, release.manifest_sha256, approval, scorers, tuple(signed_by)
        ),
        files,
    )
