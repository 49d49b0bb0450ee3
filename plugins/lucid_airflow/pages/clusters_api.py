"""What the page of a cluster reads."""

from typing import Any

from lucid_airflow import settings
from lucid_airflow.pages.answers import errors_in_words
from lucid_airflow.pages.rights import INGEST, REMOVE, may_start


def router() -> Any:
    """Return the routes; every answer is JSON."""
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import APIRouter

    from foundation.jsonable import to_jsonable
    from foundation.outside_names import check_cluster_name
    from pipeline.overview.cluster_page import read_cluster_page

    api = APIRouter(prefix="/clusters")

    @api.get("/{cluster}")
    def cluster_page(user: GetUserDep, cluster: str) -> dict[str, Any]:
        with errors_in_words():
            page = read_cluster_page(
                tracking_uri=settings.tracking_uri(),
                lake_uri=settings.lake_uri(),
                state_dir=settings.state_dir(),
                cluster=check_cluster_name(cluster),
            )
        with errors_in_words():
            may = {
                "remove": may_start(user, REMOVE, cluster),
                "ingest": may_start(user, INGEST, cluster),
            }
        return {**to_jsonable(page), "may": may}

    return api
