"""Our DAGs as Airflow reads them in tests: a bundle each, since `dag.test` reads the whole bundle anew."""

import json
from pathlib import Path

DAGS = Path(__file__).parents[1] / "dags"


def bundle_settings(folder: Path) -> str:
    """Make the bundles in a folder; return the setting that names them to Airflow."""
    return json.dumps([_bundle(file, folder) for file in sorted(DAGS.glob("*.py"))])


def dag_file(dag_id: str) -> Path:
    """Return the file in which Airflow finds a DAG: its own, or that of the parts' DAGs."""
    own = DAGS / f"{dag_id}.py"
    return own if own.exists() else DAGS / "dags_of_parts.py"


def _bundle(file: Path, folder: Path) -> dict[str, object]:
    place = folder / file.stem
    place.mkdir(parents=True, exist_ok=True)
    link = place / file.name
    if not link.is_symlink():
        link.symlink_to(file)
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": file.stem, "classpath": local, "kwargs": {"path": str(place)}}
