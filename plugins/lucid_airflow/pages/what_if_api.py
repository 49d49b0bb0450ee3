"""What the page What-if reads: what may be asked, and the results that are kept. It starts nothing.

A what-if is a run of the DAG `evaluate_policies`, which the page triggers through Airflow's own API.
"""

from collections.abc import Callable
from typing import Any

from foundation import strict_json
from foundation.strict_json import StrictJsonError
from lucid_airflow import settings
from lucid_airflow.pages.answers import may_start

DAG_ID = "evaluate_policies"


def router() -> Any:
    """Return the routes; every answer is JSON, or CSV to download."""
    from fastapi import APIRouter

    api = APIRouter()
    _asking(api)
    _results(api)
    return api


def _answered(read: Callable[[], Any]) -> Any:
    """What was read; our errors in words."""
    from fastapi import HTTPException

    from foundation.errors import LucidError, NotFoundError, ServiceUnavailableError
    from foundation.jsonable import to_jsonable

    try:
        return to_jsonable(read())
    except LucidError as error:
        unavailable = isinstance(error, ServiceUnavailableError)
        status = 404 if isinstance(error, NotFoundError) else 503 if unavailable else 422
        raise HTTPException(status, str(error)) from error


def _asking(api: Any) -> None:
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import HTTPException

    from foundation.errors import LucidError
    from pipeline.overview.what_if_form import check_what_if, cluster_choices, policy_choices

    @api.get("/form")
    def form(user: GetUserDep) -> Any:
        """What this person may ask, and whether they may ask at all."""

        def read() -> dict[str, Any]:
            may = may_start(user, DAG_ID)
            clusters = [
                choice
                for choice in cluster_choices(settings.site())
                if not may or may_start(user, DAG_ID, choice.name)
            ]
            return {"clusters": clusters, "policies": policy_choices(), "may": may}

        return _answered(read)

    @api.get("/check")
    def check(asked: str) -> Any:
        """Say what the fields of a form (a JSON object) would have replayed, or the rule that they break."""
        try:
            fields = strict_json.loads(asked)
        except StrictJsonError as error:
            raise HTTPException(422, f"The form's fields cannot be read: {error}.") from None
        if not isinstance(fields, dict):
            raise HTTPException(422, "The form's fields are no JSON object.")
        try:
            return check_what_if(settings.site(), fields)
        except LucidError as error:  # an answer, not a failure: people are still writing
            return {"problem": str(error)}


def _results(api: Any) -> None:
    from fastapi import Response

    from foundation.csv_files import csv_text
    from pipeline.overview.what_if import (
        SeenPart,
        read_csv_table,
        read_job,
        read_pictures,
        read_waits,
        read_what_ifs,
    )
    from pipeline.what_if.kept import read_kept, what_if_folder

    folder = settings.what_if_dir

    @api.get("/kept")
    def kept() -> Any:
        return {"what_ifs": _answered(lambda: read_what_ifs(folder()))}

    @api.get("/is-kept")
    def is_kept(run_id: str) -> Any:
        return {"kept": what_if_folder(folder(), run_id).is_dir()}

    # A run's name may hold a slash: what follows it is told apart by its last part.
    @api.get("/kept/{run_id:path}/pictures")
    def pictures(
        run_id: str,
        virtual_cluster: str | None = None,
        from_s: float | None = None,
        until_s: float | None = None,
        points: int = 600,
    ) -> Any:
        def read() -> dict[str, Any]:
            return read_pictures(folder(), run_id, SeenPart(virtual_cluster, from_s, until_s, points))

        return _answered(read)

    @api.get("/kept/{run_id:path}/waits")
    def waits(run_id: str, variant: str, virtual_cluster: str | None = None, text: str = "") -> Any:
        return _answered(lambda: read_waits(folder(), run_id, variant, virtual_cluster, text))

    @api.get("/kept/{run_id:path}/job")
    def job(run_id: str, row: int) -> Any:
        return _answered(lambda: read_job(folder(), run_id, row))

    @api.get("/kept/{run_id:path}/{table}.csv")
    def table(run_id: str, table: str) -> Response:
        text = _answered(lambda: csv_text(read_csv_table(folder(), run_id, table)))
        named = {"Content-Disposition": f'attachment; filename="what-if-{table}.csv"'}
        return Response(text, media_type="text/csv", headers=named)

    @api.get("/kept/{run_id:path}")
    def result(run_id: str) -> Any:
        return _answered(lambda: read_kept(folder(), run_id))
