"""Serves Great Expectations' Data Docs under /lucid/data-docs, the monitoring pages under /lucid/monitoring,
the Pareto fronts under /lucid/fronts and the clusters' characterisations under /lucid/characterisation, to
people who are logged in to Airflow.

Airflow mounts a plugin's app without authentication, so this one asks for the user itself. Everything is
imported at the first request: the plugin is loaded by every task, and only the API server needs this.
"""

from pathlib import Path
from typing import Any


class DataDocsApp:
    """An ASGI app: static files behind Airflow's own login."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if self._app is None:
            self._app = _build()
        await self._app(scope, receive, send)


def _build() -> Any:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse

    from lucid_airflow import settings

    def file_below(folder: Path, path: str, remedy: str) -> FileResponse:
        root = folder.resolve()
        file = (root / path).resolve()
        if file.is_dir():
            file = (file / "index.html").resolve()
        if not file.is_relative_to(root) or not file.is_file():
            raise HTTPException(404, f"No such page; {remedy}.")
        return FileResponse(file)

    app = FastAPI(title="Lucid", openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/data-docs/{path:path}", dependencies=[Depends(get_user)])
    def read_data_docs(path: str) -> FileResponse:
        return file_below(settings.data_docs_dir(), path, "validate a table first")

    @app.get("/monitoring/{path:path}", dependencies=[Depends(get_user)])
    def read_monitoring(path: str) -> FileResponse:
        return file_below(settings.monitoring_dir(), path, "run monitor_live first")

    @app.get("/fronts/{path:path}", dependencies=[Depends(get_user)])
    def read_front(path: str) -> FileResponse:
        return file_below(settings.fronts_dir(), path, "run search_pareto_front first")

    @app.get("/characterisation/{path:path}", dependencies=[Depends(get_user)])
    def read_characterisation(path: str) -> FileResponse:
        return file_below(settings.characterisation_dir(), path, "run characterise_cluster first")

    return app
