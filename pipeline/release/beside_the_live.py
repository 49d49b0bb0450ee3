"""What a person who publishes a release must know of the one that is live: which is newer, and the change."""

from datetime import UTC, datetime

from foundation.errors import LucidError
from lucid_models.registry import Registry
from lucid_models.releases.store import ReleaseInfo, describe_release

_IN_WORDS = {
    "mean_jct_s": "mean JCT",
    "mean_pred_err_pct": "mean prediction error",
    "p99_pred_err_pct": "P99 prediction error",
}


def beside_the_live(registry: Registry, release: ReleaseInfo, live: int | None) -> str:
    """Return sentences on a release beside the version that is live (None: none is): when each was built and
    how far the gate found `release` from that very one. `release` comes with its whole verdict.
    """
    if live is None:
        return "Nothing is live: schedulers go by their heuristic."
    if live == release.version:
        return f"Release {live} is live already: nothing changes."
    try:
        built = describe_release(registry, registry.version(release.name, live), None).created
    except LucidError as error:
        return f"Release {live} is live and cannot be read: {error}"
    newer = "newer" if release.version > live else "OLDER: publishing it is a step back"
    return (
        f"Live is release {live}, built {_moment(built)}; release {release.version}, built "
        f"{_moment(release.created)}, is {newer}. {_change(release, live)}"
    )


def _change(release: ReleaseInfo, live: int) -> str:
    verdict = release.verdict or {}
    judged_against = (verdict.get("subject") or {}).get("champion_release")
    objective = verdict.get("objective") or {}
    if judged_against == live and verdict.get("reference") != "champion":
        return f"Release {live} could not be replayed when the gate judged: how they differ was not measured."
    if judged_against != live:
        against = "no live release" if judged_against is None else f"release {judged_against}"
        return (
            f"The gate judged it against {against}, not against release {live}: how they differ was not "
            "measured. Have it judged again to know."
        )
    name = _IN_WORDS.get(str(objective.get("name")), str(objective.get("name")))
    change, low, high = (objective.get(f"change_{each}pct") for each in ("", "low_", "high_"))
    if change is None:
        return f"Against release {live} the gate says of {name}: {objective.get('reason')}."
    between = "" if low is None or high is None else f" ({low:+.1f} to {high:+.1f} %)"
    return f"Against release {live} the gate measured {change:+.1f} % in {name}{between}."


def _moment(iso: str) -> str:
    return f"{datetime.fromisoformat(iso).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
