"""The product's roles in an Airflow that logs people in by Flask-AppBuilder (docker-compose.yml).

    python -m lucid_airflow.access.fab_roles        # make them so; says what it changed

A role may look at all that an Airflow viewer sees of the product's DAGs, and of no other DAG; start the runs
of the DAGs by which its acts are done, and answer what runs ask, where it may approve. Only `Lucid Admin`
marks or clears tasks and ends runs, and no role edits what tasks hand over. Permissions are set here, not by
an `access_control=` of the DAGs: Airflow gives what stands there and takes nothing back.

Each role becomes just that: what it had besides is taken away. People get roles by `airflow users create
--role`, or from the site's login (`AUTH_ROLES_MAPPING`). Airflow sees a change within half a minute.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lucid_airflow.access.acts import ROLES, Act, act_of_dags, dags_of

READ, EDIT, CREATE, DELETE = "can_read", "can_edit", "can_create", "can_delete"
# What people do without naming a DAG; `can_edit` on a DAG is asked for besides.
_MENDING = ((EDIT, "DAG Runs"), (EDIT, "Task Instances"), (CREATE, "Task Instances"))

Permission = tuple[str, str]  # an action on a resource, as Flask-AppBuilder calls them


def permissions_of(role: str, viewer: Iterable[Permission]) -> set[Permission]:
    """Return what a role of `ROLES` may do; `viewer`: what Airflow's own role Viewer may."""
    acts = ROLES[role]
    everywhere = {(READ, "DAGs"), (EDIT, "DAGs")}
    permissions = set(viewer) - everywhere | {(READ, f"DAG:{dag_id}") for dag_id in act_of_dags()}
    permissions.add((READ, "Plugins"))  # without it Airflow's UI does not show our pages
    for act in acts:
        permissions |= {(EDIT, f"DAG:{dag_id}") for dag_id in dags_of(act)}
        if act is Act.APPROVE:
            permissions |= {(EDIT, "HITL Detail"), ("menu_access", "HITL Detail")}
        else:
            permissions |= {(CREATE, f"DAG Run:{dag_id}") for dag_id in dags_of(act)}
    if set(acts) == set(Act):
        permissions |= set(_MENDING)
    return permissions


def sync_roles() -> list[str]:
    """Make each role what it is here; return what was changed, a line each."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        manager = builder.sm
        return [
            line
            for role in ROLES
            for line in _sync(manager, role, permissions_of(role, manager.VIEWER_PERMISSIONS))
        ]


def _sync(manager: Any, name: str, wanted: set[Permission]) -> Iterator[str]:
    role = manager.find_role(name)
    if role is None:
        role = manager.add_role(name)
        yield f"{name}: made"
    held = {(each.action.name, each.resource.name): each for each in role.permissions}
    for action, resource in sorted(wanted - set(held)):
        manager.add_permission_to_role(role, manager.create_permission(action, resource))
        yield f"{name}: {action} on {resource} was given"
    for action, resource in sorted(set(held) - wanted):
        manager.remove_permission_from_role(role, held[action, resource])
        yield f"{name}: {action} on {resource} was taken away"


def main() -> None:
    """Sync, and say what was changed."""
    changed = sync_roles()
    for line in changed:
        print(line)
    print(f"{len(ROLES)} roles, {len(changed)} changes: {', '.join(ROLES)}")


if __name__ == "__main__":
    main()
