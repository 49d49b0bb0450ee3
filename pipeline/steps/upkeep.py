"""Steps that take something away: a cluster, and what is past its retention."""

import logging
from pathlib import Path

from cluster_logs import removal
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, LucidError
from foundation.retention_settings import retention_settings
from foundation.site import Site
from foundation.steps import Done, RunOutcome
from lucid_models.releases.clusters import note_removal
from pipeline.retention.prune import Installation, prune

_log = logging.getLogger(__name__)


def remove_cluster(*, site: Site, typed_again: str | None) -> Done:
    """Remove all that the lake holds of a cluster, once its name was typed again; returns each table's rows.

    Releases in the registry and pages of past runs stay: schedulers go on with the release that is live. The
    cluster is no longer shown, nor found where none is named, until a release of it is built again. Without
    the name typed again BadInputError says what would go.
    """
    if not site.cluster:
        there = ", ".join(Lake(site.lake).clusters()) or "none"
        raise BadInputError("No cluster is named.", remedy=f"Name one of those with jobs: {there}.")
    held = removal.holdings(site.lake, site.cluster)
    if typed_again != site.cluster:
        raise BadInputError(
            f"Nothing was removed. Of cluster {site.cluster!r} the lake holds {held.in_words()}.",
            remedy="Type the cluster's name in the field 'Its name again' to remove all of it.",
        )
    note_removal(site.registry, site.cluster)
    gone = removal.remove_cluster(site.lake, site.cluster, progress=site.progress)
    return Done(
        gone.rows,
        f"Cluster {site.cluster} was removed from the lake: {gone.in_words()}. Its releases and the pages of "
        "past runs stay, but the cluster is no longer shown.",
    )


def apply_retention(*, site: Site, state_dir: Path, task_log_dir: Path, dry_run: bool = False) -> Done:
    """Remove what is older than LUCID_RETENTION says; `task_log_dir`: the logs of Airflow's tasks.

    Returns what stays and went of each kind. What cannot be done fails the step at its end.
    """
    pruned = prune(
        Installation(site.registry, site.lake, state_dir, task_log_dir),
        retention_settings(),
        dry_run=bool(dry_run),
    )
    for each in pruned:
        _log.info("%s: %d stay, %d go", each.kind, each.kept, each.removed)
        for remark in each.remarks:
            _log.warning("%s: %s", each.kind, remark)
    problems = [f"{each.kind}: {each.problem}" for each in pruned if each.problem is not None]
    if problems:
        raise LucidError(" ".join(problems))
    gone = {each.kind: each.removed for each in pruned if each.removed}
    words = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in gone.items())
    verb = "would go" if dry_run else "went"
    return Done(
        {each.kind: {"kept": each.kept, "removed": each.removed} for each in pruned},
        f"{words} {verb}: past their retention." if gone else "Nothing is past its retention.",
        outcome=RunOutcome.DONE if gone else RunOutcome.NOTHING,
    )
