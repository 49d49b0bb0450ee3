"""What the gate said of a release, and what else stands against publishing it, on one screen."""

from collections.abc import Mapping, Sequence
from typing import Any

from foundation.errors import ReleaseRefusedError
from foundation.site import Site

POLICY_COLUMNS = (
    *("policy", "jobs", "mean_jct_s", "mean_queuing_delay_s", "p999_queuing_delay_s", "mean_slowdown"),
    *("utilisation_pct", "preemptions", "colocated_jobs", "mean_pred_err_pct", "p99_pred_err_pct"),
)
CONSTRAINT_COLUMNS = ("name", "challenger", "reference", "limit", "passed", "sentence")


def read_verdict(
    site: Site, *, version: int | None = None, named: bool = False, replaces: int | None = None
) -> dict[str, Any]:
    """Return {cluster, version, live, approved, started_by, reason, beside, summary} of a cluster's release
    (default: the challenger).

    `approved`: the gate approved it and nothing else stands against publishing it now (`named`: a person
    named this version; `replaces`: in place of which one, 0: none). `live`: what it would replace (0: none),
    for `publish_release(replaces=...)`; `started_by`: who started what led to it; `beside`: how it is beside
    the live one. `summary` is Markdown for the person who approves. Raises NotFoundError when there is no
    such release.
    """
    from lucid_models.registry import Registry
    from lucid_models.releases.aliases import CHAMPION
    from lucid_models.releases.decisions import read_starters
    from lucid_models.releases.lifecycle import show_release
    from lucid_models.releases.obstacles import check_not_expired, publication_obstacles
    from pipeline.release.beside_the_live import beside_the_live

    if version is None:
        release = show_release(tracking_uri=site.registry, cluster=site.cluster, alias="challenger")
    else:
        release = show_release(tracking_uri=site.registry, cluster=site.cluster, version=version)
    registry = Registry(site.registry)
    registered = registry.version(release.name, release.version)
    obstacles = publication_obstacles(registry, registered, named=named)
    live = registry.aliases(release.name).get(CHAMPION)
    if replaces is not None and live != release.version:
        try:
            check_not_expired(site.cluster, release.version, replaces=replaces, live=live)
        except ReleaseRefusedError as expired:
            obstacles = [expired, *obstacles]
    sentence = str((release.verdict or {}).get("sentence", ""))
    if obstacles:
        sentence = " ".join(str(obstacle) for obstacle in obstacles)
    word = "refused" if obstacles else "approved"
    reason = sentence.removeprefix(f"{word.capitalize()}: ")  # a verdict's sentence begins with the word
    what = f"Release {release.version} of cluster {release.cluster} runs {release.policy}."
    if release.choice is not None:
        preferred = " and ".join(release.choice["preference"])
        what += f" It is point {release.choice['point']} of a front for {preferred}."
    beside = beside_the_live(registry, release, live)
    return {
        "cluster": release.cluster,
        "version": int(release.version),
        "live": live or 0,
        "approved": not obstacles,
        "started_by": read_starters(registered),
        "reason": f"Release {release.version} of cluster {release.cluster} is {word}: {reason}",
        "beside": beside,
        "summary": f"**{sentence}**\n\n{what}\n\n{beside}",
    }


def summarise_verdict(verdict: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the policies' rows and the constraints of `Verdict.to_dict()`, with a screen's columns only."""
    return {
        "policies": [_select(row, POLICY_COLUMNS) for row in verdict["policies"]],
        "constraints": [_select(row, CONSTRAINT_COLUMNS) for row in verdict["constraints"]],
    }


def _select(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in columns if name in row}
