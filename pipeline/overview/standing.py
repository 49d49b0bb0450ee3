"""How an installation stands, in one document: each cluster in a line, and the stack on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster_logs.lake import Lake
from foundation.errors import LucidError
from foundation.site import Site
from local_stack.airflow_client import AirflowClient
from local_stack.stack import connect, status
from local_stack.stack_config import running_stack
from lucid_models.mlflow_server import is_unwritten
from lucid_models.registry import Registry
from lucid_models.releases.aliases import CHALLENGER, CHAMPION
from lucid_models.releases.clusters import release_clusters
from lucid_models.releases.manifest import release_name

PUBLICATION = "publish_release"


@dataclass(frozen=True)
class RunUnderWay:
    """A run of a DAG that is queued or running; `since` is an ISO time, None while it is queued."""

    dag_id: str
    run_id: str
    state: str
    since: str | None


@dataclass(frozen=True)
class WaitingApproval:
    """A release that waits for a person to let it go live; `asked` is an ISO time."""

    version: int
    run_id: str
    asked: str


@dataclass(frozen=True)
class ClusterStanding:
    """A cluster: the release that is live, the newest one beside it, what runs for it and what waits.

    `running` and `approvals` are None where no Airflow of this machine tells them.
    """

    name: str
    champion: int | None
    challenger: int | None
    running: Sequence[RunUnderWay] | None
    approvals: Sequence[WaitingApproval] | None


@dataclass(frozen=True)
class Standing:
    """All clusters by name, and the local stack (`local_stack.stack.status`); `problems`: what did not
    answer, in words.
    """

    clusters: Sequence[ClusterStanding]
    stack: Mapping[str, Any]
    problems: Sequence[str]


def read_standing(site: Site, *, state_dir: Path) -> Standing:
    """Read how everything stands; what does not answer is said, and the rest is shown. Writes nothing."""
    problems: list[str] = []
    releases: dict[str, dict[str, int]] = {}
    runs: list[tuple[str | None, RunUnderWay]] | None = None
    waiting: list[tuple[str, WaitingApproval]] | None = None
    try:
        releases = _aliases_by_cluster(site.registry)
    except LucidError as error:
        problems.append(str(error))
    stack = running_stack(state_dir)
    if stack is not None:
        try:
            with connect(stack) as airflow:
                runs, waiting = _runs(airflow), _approvals(airflow)
        except LucidError as error:
            problems.append(str(error))
    names = sorted({*releases, *Lake(site.lake).clusters()})
    # A run that names no cluster is about the only one.
    unnamed = names[0] if len(names) == 1 else None
    clusters = [
        ClusterStanding(
            name,
            releases.get(name, {}).get(CHAMPION),
            releases.get(name, {}).get(CHALLENGER),
            None if runs is None else [run for cluster, run in runs if (cluster or unnamed) == name],
            None if waiting is None else [asked for cluster, asked in waiting if cluster == name],
        )
        for name in names
    ]
    return Standing(clusters, status(state_dir), problems)


def _aliases_by_cluster(tracking_uri: str) -> dict[str, dict[str, int]]:
    if is_unwritten(tracking_uri):
        return {}
    registry = Registry(tracking_uri)
    return {cluster: registry.aliases(release_name(cluster)) for cluster in release_clusters(registry)}


def _runs(airflow: AirflowClient) -> list[tuple[str | None, RunUnderWay]]:
    found = []
    for run in airflow.runs_under_way():
        dag_id, run_id = str(run["dag_id"]), str(run["dag_run_id"])
        cluster = (run.get("conf") or {}).get("cluster")
        if not cluster and run.get("run_type") == "asset_triggered":
            announced = [event.get("extra") or {} for event in airflow.asset_events(dag_id, run_id)]
            cluster = next((extra["cluster"] for extra in announced if extra.get("cluster")), None)
        found.append((cluster, RunUnderWay(dag_id, run_id, str(run["state"]), run.get("start_date"))))
    return found


def _approvals(airflow: AirflowClient) -> list[tuple[str, WaitingApproval]]:
    found = []
    for asked in airflow.questions(PUBLICATION):
        run_id = str(asked["task_instance"]["dag_run_id"])
        judged = airflow.xcom(PUBLICATION, run_id, "check_verdict")
        if isinstance(judged, dict):
            approval = WaitingApproval(int(judged["version"]), run_id, str(asked["created_at"]))
            found.append((str(judged["cluster"]), approval))
    return found
