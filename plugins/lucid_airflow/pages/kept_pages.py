"""Pages that runs have left in the state folder: Data Docs, monitoring, fronts, characterisations, plans."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lucid_airflow import settings

# Route -> the folder, and what makes a page that is not there.
KEPT: dict[str, tuple[Callable[[], Path], str]] = {
    "data-docs": (settings.data_docs_dir, "validate a table first"),
    "monitoring": (settings.monitoring_dir, "run monitor_live first"),
    "fronts": (settings.fronts_dir, "run search_pareto_front first"),
    "characterisation": (settings.characterisation_dir, "run characterise_cluster first"),
    "plans": (settings.plans_dir, "run plan_capacity first"),
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
        folder, remedy = KEPT[kind]
        root = folder().resolve()
        file = (root / path).resolve()
        if file.is_dir():
            file = (file / "index.html").resolve()
        if not file.is_relative_to(root) or not file.is_file():
            raise HTTPException(404, f"No such page; {remedy}.")
        return FileResponse(file)

    return pages
