"""What the page that brings a log reads before the ingest runs, and where its uploads go.

All of it is for people who may start `ingest_logs`: it shows rows of the files that this DAG may read. The
ingest itself is a run of the DAG, which the page starts by Airflow's own API.
"""

from pathlib import Path
from typing import Annotated, Any

from foundation.site import Site
from lucid_airflow import settings
from lucid_airflow.pages.answers import INGEST, check_may_start, check_same_site, errors_in_words


def uploads_dir() -> Path:
    """Return the folder of uploads: in the inbox, from which forms may read."""
    return settings.inbox_dir() / "uploads"


def router() -> Any:
    """Return the routes; every answer is JSON."""
    from airflow.api_fastapi.core_api.security import GetUserDep
    from fastapi import APIRouter, Depends, Query, Request

    from foundation.jsonable import to_jsonable
    from pipeline.overview import ingest_form, uploads
    from pipeline.overview.log_preview import preview_log

    Place = Annotated[str, Query(alias="input", max_length=4096)]  # noqa: N806 - a type

    def permitted(user: GetUserDep) -> None:
        check_may_start(user, INGEST)

    api = APIRouter(prefix="/ingest", dependencies=[Depends(permitted)])

    def admitted(place: str, what: str) -> str:
        return settings.input_roots().admit(place, what)

    @api.get("")
    def choices() -> Any:
        with errors_in_words():
            lake = settings.lake_uri()
            roots = [root for root in settings.input_roots().roots if root != lake]
            return to_jsonable(ingest_form.read_choices(lake_uri=lake, roots=roots))

    @api.get("/preview")
    def preview(
        place: Place,
        log_format: Annotated[str | None, Query(alias="format")] = None,
        time_zone: str | None = None,
        cluster: str | None = None,
        column: Annotated[list[str] | None, Query(max_length=200)] = None,
    ) -> Any:
        with errors_in_words():
            file = admitted(place, "The log")
            named = dict(pair.split("=", 1) for pair in column or () if "=" in pair)
            return to_jsonable(
                preview_log(
                    file, source_format=log_format, time_zone=time_zone, cluster=cluster, columns=named
                )
            )

    @api.get("/nodes")
    def nodes(place: Place, gpus_per_node: int = 8) -> Any:
        with errors_in_words():
            return to_jsonable(ingest_form.read_nodes(admitted(place, "The nodes"), gpus_per_node))

    @api.get("/cluster")
    def cluster(name: str) -> Any:
        with errors_in_words():
            return to_jsonable(ingest_form.read_target(Site(lake=settings.lake_uri(), cluster=name)))

    @api.post("/uploads")
    async def upload(request: Request, name: str) -> Any:
        check_same_site(request)
        with errors_in_words():
            uploads.check_size(int(request.headers.get("content-length", "0")))
            with uploads.receiving(uploads_dir(), name) as incoming:
                async for piece in request.stream():
                    incoming.write(piece)
                return to_jsonable(incoming.keep())

    return api
