"""An Airflow home for this test process alone. Import it before anything imports Airflow."""

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
HOME = Path(tempfile.mkdtemp(prefix="lucid-airflow-"))


def _bundle(file: Path) -> dict[str, object]:
    """Make a bundle of one DAG: `dag.test` reads all files of the DAG's bundle again for each run."""
    folder = HOME / "bundles" / file.stem
    folder.mkdir(parents=True)
    (folder / file.name).symlink_to(file)
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": file.stem, "classpath": local, "kwargs": {"path": str(folder)}}


atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [_bundle(file) for file in sorted((REPOSITORY / "dags").glob("*.py"))]
        ),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for tests only " + "x" * 64,
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "GX_ANALYTICS_ENABLED": "false",
    }
)
