"""Pages that runs have left in the state folder: Data Docs, monitoring, fronts, characterisations, plans."""

from typing import Any

from lucid_airflow import settings

# Route -> what makes a page that is not there.
KEPT = {
    "data-docs": "validate a table first",
    "monitoring": "run monitor_live first",
    "fronts": "run search_pareto_front first",
    "characterisation": "run characterise_cluster first",
    "plans": "run plan_capacity first",
}


def router() -> Any:
    """Return a route for each kind of page."""
    from fastapi import APIRouter, HTTPException
    from fastapi.responses import FileResponse

    pages = APIRouter()

    @pages.get("/{kind}/{path:path}")
    def read_kept_page(kind: str, path: str) -> FileResponse:
        if kind not in KEPT:
            raise HTTPException(404, "No such page.")
        root = settings.pages_dir(kind).resolve()
        file = (root / path).resolve()
        if file.is_dir():
            file = (file / "index.html").resolve()
        if not file.is_relative_to(root) or not file.is_file():
            raise HTTPException(404, f"No such page; {KEPT[kind]}.")
        return FileResponse(file)

    return pages
