"""An Airflow home for this test process alone. Import it before anything imports Airflow."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from tests.dag_bundles import bundle_settings

REPOSITORY = Path(__file__).parents[1]
HOME = Path(tempfile.mkdtemp(prefix="lucid-airflow-"))
DATABASE = HOME / "airflow.db"

atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": bundle_settings(HOME / "bundles"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{DATABASE}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for tests only " + "x" * 64,
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "GX_ANALYTICS_ENABLED": "false",
    }
)
