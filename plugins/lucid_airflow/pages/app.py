"""Serves the product's pages under /lucid to people who are logged in to Airflow: what runs have left in
the state folder, what the pages in Airflow's own frame read (`overview_api.py`), and their scripts.

Airflow mounts a plugin's app without authentication, so this one asks for the user itself, and sends a
browser without one to Airflow's login. Everything is imported at the first request: the plugin is loaded by
every task, and only the API server needs this.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foundation.parts import hooks
from foundation.security_headers import FOR_PAGES, SecurityHeaders
from lucid_airflow import settings

# Route -> what makes a page that is not there; beside those of parts.
_KEPT = {
    "data-docs": "validate a table first",
    "monitoring": "run monitor_live first",
    "plans": "run plan_capacity first",
}
ASSETS = Path(__file__).with_name("assets")


class PagesApp:
    """The ASGI app."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if self._app is None:
            self._app = _build()
        await self._app(scope, receive, send)


def _build() -> Any:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, FastAPI, HTTPException, Request
    from fastapi.exception_handlers import http_exception_handler
    from fastapi.responses import FileResponse, RedirectResponse

    from lucid_airflow.pages import ingest_api, overview_api, what_if_api

    app = FastAPI(title="Lucid", openapi_url=None, docs_url=None, redoc_url=None)

    @app.exception_handler(HTTPException)
    async def send_to_login(request: Request, error: HTTPException) -> Any:
        if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
            from airflow.api_fastapi.app import get_auth_manager

            login = get_auth_manager().get_url_login()
            return RedirectResponse(f"{login}?next={quote(str(request.url), safe='')}")
        return await http_exception_handler(request, error)

    for pages in (overview_api, ingest_api):
        app.include_router(pages.router(), prefix="/api", dependencies=[Depends(get_user)])
    app.include_router(what_if_api.router(), prefix="/api/what-if", dependencies=[Depends(get_user)])

    @app.get("/assets/plotly.min.js")
    def read_plotly() -> FileResponse:
        """The library of interactive pictures, as its Python package brings it."""
        file = Path(str(files("plotly").joinpath("package_data/plotly.min.js")))
        return FileResponse(file, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    @app.get("/assets/{name}")
    def read_asset(name: str) -> FileResponse:
        """Scripts hold nothing of the installation: Airflow's own are open as well."""
        file = ASSETS / Path(name).name
        if not file.is_file():
            raise HTTPException(404, "No such file.")
        return FileResponse(file, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    # The last, since its routes are the widest.
    app.include_router(_kept_pages(), dependencies=[Depends(get_user)])
    app.add_middleware(SecurityHeaders, headers=FOR_PAGES)
    return app


def _kept_kinds() -> dict[str, str]:
    """Return the routes, each with what makes a page that is not there."""
    return {**_KEPT, **{pages.kind: f"run {pages.dag_id} first" for _, pages in hooks("pages")}}


def _kept_pages() -> Any:
    """Pages that runs have left in the state folder: Data Docs, monitoring, plans, and those of parts."""
    from fastapi import APIRouter, HTTPException
    from fastapi.responses import FileResponse

    pages = APIRouter()

    @pages.get("/{kind}/{path:path}")
    def read_kept_page(kind: str, path: str) -> FileResponse:
        kept = _kept_kinds()
        if kind not in kept:
            raise HTTPException(404, "No such page.")
        root = settings.pages_dir(kind).resolve()
        file = (root / path).resolve()
        if file.is_dir():
            file = (file / "index.html").resolve()
        if not file.is_relative_to(root) or not file.is_file():
            raise HTTPException(404, f"No such page; {kept[kind]}.")
        return FileResponse(file)

    return pages
