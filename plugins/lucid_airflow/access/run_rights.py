"""Whether the person behind a run may do what its tasks do.

A task acts with the accounts of its worker, not with a person's: it asks here before it does. What the
pipeline starts by itself, by an asset or the clock, is nobody's act and is not asked about.
"""

from collections.abc import Sequence
from typing import Any

from foundation.errors import NotAllowedError
from lucid_airflow import settings
from lucid_airflow.access.acts import Act, act_of_dags
from lucid_airflow.access.site_rights import SiteRights, read_site_rights
from lucid_airflow.handover import person_of


def check_right(context: Any, cluster: Any) -> None:
    """Raise NotAllowedError unless who triggered this run may do its DAG's act to a cluster.

    Asked about nothing (`cluster` empty), or by a run that the pipeline started, it lets all pass.
    """
    person = person_of(context)
    act = act_of_dags().get(getattr((context or {}).get("dag"), "dag_id", ""))
    if person is None or act is None or not cluster:
        return
    rights = _site_rights()
    if not rights.may(person, act, str(cluster)):
        others = rights.people(act, str(cluster))
        raise NotAllowedError(
            f"{person} has no right to do this to cluster {cluster} (act {act}).",
            remedy=f"Ask {_one_of(others)}, or whoever keeps the table of rights (LUCID_RIGHTS).",
        )


def objection_to(person: str, cluster: str, starters: Sequence[str] = ()) -> str | None:
    """Return why a person's answer to what a run asks does not count, and who must answer; None: it counts.

    `starters`: who started what led to it; none of them may be the one who says yes, where LUCID_FOUR_EYES is
    on.
    """
    rights = _site_rights()
    barred = set(starters) if settings.four_eyes() else set()
    others = _one_of([name for name in rights.people(Act.APPROVE, cluster) if name not in barred])
    if not rights.may(person, Act.APPROVE, cluster):
        return f"{person} has no right to answer for cluster {cluster} (act {Act.APPROVE}): {others} must."
    if person in barred:
        return (
            f"{person} started what is to be published, so another must approve it (LUCID_FOUR_EYES): "
            f"{others} must answer."
        )
    return None


def may_do(person: str, act: Act, cluster: str | None = None) -> bool:
    """Whether the site's table lets a person do something to a cluster; None: to at least one."""
    return _site_rights().may(person, act, cluster)


def _site_rights() -> SiteRights:
    return read_site_rights(settings.rights_file())


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(names) or "another person with that right"
