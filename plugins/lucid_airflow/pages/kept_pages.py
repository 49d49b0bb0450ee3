"""Pages that runs have left in the state folder: Data Docs, monitoring, plans, and those of parts."""

from typing import Any

from foundation.parts import hooks
from lucid_airflow import settings

# Route -> what makes a page that is not there; beside those of parts.
_KEPT = {
    "data-docs": "validate a table first",
    "monitoring": "run monitor_live first",
    "plans": "run plan_capacity first",
}


def kept_kinds() -> dict[str, str]:
    """Return the routes, each with what makes a page that is not there."""
    return {**_KEPT, **{pages.kind: f"run {pages.dag_id} first" for _, pages in hooks("pages")}}


def router() -> Any:
    """Return a route for each kind of page."""
    from fastapi import APIRouter, HTTPException
    from fastapi.responses import FileResponse

    pages = APIRouter()

    @pages.get("/{kind}/{path:path}")
    def read_kept_page(kind: str, path: str) -> FileResponse:
        kept = kept_kinds()
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
