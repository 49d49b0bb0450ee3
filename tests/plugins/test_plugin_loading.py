"""How Airflow finds the plugin, and the trap of its plugin folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow_home import REPOSITORY

SCRIPT = """
import json, sys
from airflow import plugins_manager
plugins_manager.ensure_plugins_loaded()
plugins, errors = plugins_manager._get_plugins()
print("RESULT" + json.dumps({
    "names": [p.name for p in plugins],
    "errors": errors,
    "bare": sorted(n for n in sys.argv[1:] if "lucid" in str(getattr(sys.modules.get(n), "__file__", ""))),
    "heavy": sorted({"pandas", "mlflow", "great_expectations", "sklearn"} & set(sys.modules)),
}))
"""


@pytest.mark.slow
def test_the_entry_point_loads_and_the_folder_is_left_alone(tmp_path: Path) -> None:
    """Pointed at plugins/, Airflow must not import our modules by bare stems (settings, errors, ...)."""
    stems = [path.stem for path in (REPOSITORY / "plugins").rglob("*.py") if path.stem != "__init__"]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *stems],
        env={**os.environ, "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins")},
        cwd=tmp_path,  # the checkout may hold a second record of the package
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.rpartition("RESULT")[2])
    assert found["errors"] == {}
    assert found["names"].count("lucid") == 1
    assert found["bare"] == []
    assert found["heavy"] == [], "every task loads the plugin: it must stay light"


def test_airflow_drops_none_of_our_pages() -> None:
    """It shows one page of a route alone, and says so in a log only."""
    from lucid_airflow.plugin import LucidPlugin

    routes = [app["url_route"] for app in LucidPlugin.react_apps if "url_route" in app]
    assert len(routes) == len(set(routes))
    shown_on = {app["destination"] for app in LucidPlugin.react_apps}
    assert {"dag", "dag_run", "task_instance"} <= shown_on
