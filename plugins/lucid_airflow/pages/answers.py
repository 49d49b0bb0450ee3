"""What our pages answer a person: what they may do, and our errors in words.

They may do what Airflow lets them do with its DAGs, and the site's table with clusters
(`access/site_rights.py`). Buttons go by it; a task asks again about what it does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from foundation.errors import BadInputError, DiskError, LucidError, NotFoundError, ServiceRefusedError
from lucid_airflow.access.acts import Act, act_of_dags
from lucid_airflow.access.run_rights import may_do

_STATUS = {NotFoundError: 404, ServiceRefusedError: 409, BadInputError: 422, DiskError: 507}
INGEST, REMOVE = "ingest_logs", "remove_cluster"


def may_start(user: Any, dag_id: str, cluster: str | None = None) -> bool:
    """Whether a person may start runs of a DAG about a cluster; None: about at least one."""
    return _may(user, "POST", "RUN", dag_id) and may_do(user.get_name(), act_of_dags()[dag_id], cluster)


def may_answer(user: Any, dag_id: str, cluster: str | None = None) -> bool:
    """Whether a person may answer what a DAG's runs ask about a cluster, as approving a release."""
    return _may(user, "PUT", "HITL_DETAIL", dag_id) and may_do(user.get_name(), Act.APPROVE, cluster)


def _may(user: Any, method: str, entity: str, dag_id: str) -> bool:
    from airflow.api_fastapi import app
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails

    manager = app.get_auth_manager()
    return bool(
        manager.is_authorized_dag(
            method=method, access_entity=DagAccessEntity[entity], details=DagDetails(id=dag_id), user=user
        )
    )


def check_may_start(user: Any, dag_id: str) -> None:
    """Answer 403 unless a person may start runs of a DAG."""
    from fastapi import HTTPException

    if not may_start(user, dag_id):
        raise HTTPException(403, f"This is for people who may start {dag_id}: your role may not.")


def check_same_site(request: Any) -> None:
    """Answer 403 to what another origin's page had the browser send: it would come with the person's login.

    Browsers name the origin with everything that they post; `Sec-Fetch-Site` they send over HTTPS and to
    loopback alone. Behind a proxy the server may be called otherwise than people call it: then it has the
    name in Airflow's `[api] base_url`.
    """
    from airflow.configuration import conf
    from fastapi import HTTPException

    ours = {request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="") or "").netloc}
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site != "same-origin" or (origin is not None and urlsplit(origin).netloc not in ours - {""}):
        raise HTTPException(403, "Another site sent this: open the page in Airflow, and do it there.")


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Answer an error of ours by its sentence.

    404; 409 for what MLflow refuses, 422 for bad input, 507 for a full disk; else 503.
    """
    from fastapi import HTTPException

    try:
        yield
    except LucidError as error:
        status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 503)
        raise HTTPException(status, str(error)) from error
