"""What the page Lucid, its pages of a cluster and a release, and the card on Home read, with what this person
may do.
"""

from collections.abc import Callable
from typing import Any

from lucid_airflow import settings
from lucid_airflow.pages.answers import INGEST, REMOVE, errors_in_words, may_answer, may_start

# What a person may do here is what they may do with these DAGs in Airflow itself.
ACTIONS = {
    "ingest": "ingest_logs",
    "retrain": "retrain_models",
    "validate": "validate_release",
    "publish": "publish_release",
    "rollback": "rollback_release",
    "monitor": "monitor_live",
    "simulate": "evaluate_policies",
}


def router() -> Any:
    """Return the routes; every answer is JSON."""
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import APIRouter

    from foundation.jsonable import to_jsonable
    from foundation.outside_names import check_cluster_name
    from pipeline.overview.cluster_page import read_cluster_page
    from pipeline.overview.clusters import read_overview
    from pipeline.overview.release_page import read_release_page

    api = APIRouter()

    def may_of(user: Any, cluster: str | None) -> dict[str, bool]:
        may = {action: may_start(user, dag_id, cluster) for action, dag_id in ACTIONS.items()}
        return {**may, "approve": may_answer(user, ACTIONS["publish"], cluster)}

    def answered(read: Callable[[], Any], user: Any, cluster: str | None = None) -> dict[str, Any]:
        """What was read, what the person may do (with each cluster; `cluster`: with this one), who they are,
        where MLflow is, and how a publication must be approved; our errors in words.
        """
        with errors_in_words():
            overview = to_jsonable(read())
            names = [each["name"] for each in overview.get("clusters", ())]
            return {
                **overview,
                "may": may_of(user, cluster),
                "may_with": {name: may_of(user, name) for name in names},
                "person": user.get_name(),
                "mlflow": settings.mlflow_ui_url(),
                "approval_required": settings.approval_required(),
                "four_eyes": settings.four_eyes(),
            }

    @api.get("/overview")
    def overview(user: GetUserDep) -> dict[str, Any]:
        def read() -> Any:
            return read_overview(settings.site(), monitoring_dir=settings.pages_dir("monitoring"))

        return answered(read, user)

    @api.get("/releases/{cluster}/{version}")
    def release(user: GetUserDep, cluster: str, version: int) -> dict[str, Any]:
        def read() -> Any:
            return read_release_page(settings.site(check_cluster_name(cluster)), version=version)

        return answered(read, user, cluster)

    @api.get("/clusters/{cluster}")
    def cluster_page(user: GetUserDep, cluster: str) -> dict[str, Any]:
        with errors_in_words():
            page = read_cluster_page(
                settings.site(check_cluster_name(cluster)), state_dir=settings.state_dir()
            )
            may = {
                "remove": may_start(user, REMOVE, cluster),
                "ingest": may_start(user, INGEST, cluster),
            }
        return {**to_jsonable(page), "may": may}

    return api
