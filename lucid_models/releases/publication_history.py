"""What was live of a cluster: each publication and rollback in a run of its own, as a file and as a tag.

Each names the one before by its digest, so that a history from which one was taken shows the gap.
"""

import hashlib
import logging
from dataclasses import dataclass, replace

from foundation.errors import LucidError, ReleaseRefusedError
from lucid_models.registry import Registry
from lucid_models.releases.aliases import CHAMPION
from lucid_models.releases.manifest import release_name
from lucid_models.releases.studies import log_document
from lucid_models.signing.envelope import parse_envelope
from lucid_models.signing.installation import Signing
from lucid_models.signing.statements import PUBLICATION_TAG, Publication, parse_publication
from lucid_models.signing.verification import read_publication

EXPERIMENT = "lucid-publications"
STATEMENT_FILE = "publication.dsse.json"
MOST_SHOWN = 50
logger = logging.getLogger("lucid.releases")


@dataclass(frozen=True)
class PastPublication:
    """A publication or rollback of the past. `sha256`: of its payload; `is_believed`: the installation's keys
    signed it for this cluster; `problem`: why not, or that the one before it is missing.
    """

    publication: Publication
    sha256: str
    is_believed: bool
    problem: str | None = None


def keep_in_history(registry: Registry, cluster: str, signing: Signing) -> None:
    """Keep the publication or rollback that made the champion live, unless it is kept already, or is not
    believed.
    """
    trust = signing.trust
    if trust is None:
        return
    number = registry.aliases(release_name(cluster)).get(CHAMPION)
    text = (
        None if number is None else registry.version(release_name(cluster), number).tags.get(PUBLICATION_TAG)
    )
    if text is None:
        return
    try:
        live = read_publication(text, trust=trust, place=f"The publication of release {number} of {cluster}")
    except ReleaseRefusedError as error:
        # Else its key, once revoked, or whoever wrote it would keep every later one from being published.
        logger.warning("Not kept in the history: %s", error)
        return
    publication = live.publication
    signing.remember_live(cluster, publication.sequence)
    if publication.kind == "renew":
        return
    if live.seen.payload_sha256 in [past.sha256 for past in read_history(registry, cluster, signing)]:
        return
    with registry.run(
        EXPERIMENT,
        f"{cluster} {publication.kind} {publication.release.version}",
        {"cluster": cluster, "release_version": str(number), PUBLICATION_TAG: text},
    ) as run:
        log_document(run, STATEMENT_FILE, text.encode(), None)


def read_history(registry: Registry, cluster: str, signing: Signing) -> list[PastPublication]:
    """The newest `MOST_SHOWN` publications and rollbacks of a cluster, the newest first.

    One that the installation's keys did not sign, that is of another cluster or lacks its predecessor
    has a `problem`.
    """
    trust = signing.trust
    found: list[PastPublication] = []
    for run in registry.find_runs(EXPERIMENT, {"cluster": cluster}, most=MOST_SHOWN + 1):
        text, place = run.tags.get(PUBLICATION_TAG), f"A publication of {cluster}"
        try:
            payload = parse_envelope(text or "", source=place).payload
            publication = parse_publication(payload)
        except LucidError as error:
            logger.warning("Run %s is no publication: %s", run.run_id, error)
            continue
        problem = None
        if publication.release.cluster != cluster:
            problem = f"It was signed for cluster {publication.release.cluster}."
        try:
            if trust is not None:
                read_publication(text, trust=trust, place=place)
        except LucidError as error:
            problem = str(error)
        digest = hashlib.sha256(payload).hexdigest()
        found.append(PastPublication(publication, digest, problem is None, problem))
    found.sort(key=lambda past: (not past.is_believed, -past.publication.sequence))
    return _with_gaps(found)[:MOST_SHOWN]


def _with_gaps(newest_first: list[PastPublication]) -> list[PastPublication]:
    """Say of each that is believed whether the one before it, which it names, is there."""
    believed = [past for past in newest_first if past.is_believed]
    shown = []
    for index, past in enumerate(believed):
        before = believed[index + 1].sha256 if index + 1 < len(believed) else None
        is_oldest_read = before is None and len(newest_first) > MOST_SHOWN
        gap = past.publication.previous_sha256 != before and not is_oldest_read
        shown.append(
            replace(
                past, problem="The publication before it is missing, or is not believed." if gap else None
            )
        )
    return [*shown, *(past for past in newest_first if not past.is_believed)]


def newest_believed(history: list[PastPublication]) -> PastPublication | None:
    """The newest of a history that is believed; None: there is none."""
    return history[0] if history and history[0].is_believed else None
