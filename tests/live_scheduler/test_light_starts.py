import subprocess
import sys

import pytest

# What the way back needs of a Slurm cluster; the switch that waits to go it is to stay small.
WAY_BACK = "live_scheduler.safety.restore_command, live_scheduler.slurm.adapter, live_scheduler.settings_file"
HEAVY = {"numpy", "pandas", "pyarrow", "sklearn", "fsspec", "httpx", "pydantic", "fastapi", "mlflow"}
# A client imports what it asks a server with when it is made, and what scores for its first release.
CLIENT = "live_scheduler.client"
# The daemon and its forecasts decide without tables.
DAEMON = "live_scheduler.assembly, live_scheduler.forecast.forecast_process"
TABLES = {"pandas", "pyarrow", "scipy", "sklearn", "mlflow"}


@pytest.mark.slow
@pytest.mark.parametrize(("modules", "heavy"), [(WAY_BACK, HEAVY), (CLIENT, HEAVY), (DAEMON, TABLES)])
def test_what_runs_beside_a_cluster_imports_no_heavy_library(modules: str, heavy: set[str]) -> None:
    code = f"import sys, {modules}; print(*({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == []


@pytest.mark.slow
def test_the_policies_that_a_daemon_may_follow_are_found_without_tables() -> None:
    code = (
        "import sys; from live_scheduler.deciding.live_policies import live_policy_names;"
        f" live_policy_names(); print(*({TABLES!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == []
