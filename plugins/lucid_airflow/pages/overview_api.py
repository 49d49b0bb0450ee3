"""What the page Lucid and the card on Home read: all clusters at a glance, and what this person may do."""

from typing import Any

from lucid_airflow import settings

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
    from airflow.api_fastapi import app
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import APIRouter, HTTPException

    from foundation.errors import LucidError
    from foundation.jsonable import to_jsonable
    from pipeline.overview.clusters import read_overview

    api = APIRouter()

    @api.get("/overview")
    def overview(user: GetUserDep) -> dict[str, Any]:
        try:
            seen = read_overview(
                tracking_uri=settings.tracking_uri(),
                lake_uri=settings.lake_uri(),
                monitoring_dir=settings.monitoring_dir(),
            )
        except LucidError as error:
            raise HTTPException(503, str(error)) from error
        manager = app.get_auth_manager()
        may = {
            action: manager.is_authorized_dag(
                method="POST",
                access_entity=DagAccessEntity.RUN,
                details=DagDetails(id=dag_id),
                user=user,
            )
            for action, dag_id in ACTIONS.items()
        }
        return {**to_jsonable(seen), "may": may, "mlflow": settings.mlflow_ui_url()}

    return api
