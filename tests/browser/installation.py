"""Airflow's API server with our plugin, on a state folder of its own: what a browser looks at.

To look at the pages yourself, filled with a small cluster, its releases and runs (ready within a minute):

    python -m tests.browser.installation                 # prints the address and the logins, ends with Ctrl-C
    python -m tests.browser.installation --empty         # nothing ingested yet
    python -m tests.browser.installation --scheduler     # what is triggered or approved also runs
    LUCID_PAGES_PORT=PORT pytest tests/browser/test_...  # tests on one that was started so; they change it

People log in as `viewer`, `user`, `op` and `admin`, Airflow's roles of these names; the password is the name.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from local_stack.stack_config import StackConfig, stack_environment
from tests.dag_bundles import bundle_settings
from tests.fixtures import free_port

ROLES = ("viewer", "user", "op", "admin")
START_LIMIT_S = 540.0


@dataclass
class Installation:
    """One state folder, and the processes on it; or one that another process has started."""

    folder: Path
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def config(self) -> StackConfig:
        """Where everything is, as a local stack has it."""
        return StackConfig(self.folder, airflow_port=self.port)

    @property
    def url(self) -> str:
        """Where people open Airflow: below a prefix, as on a site of many: no page may assume the root."""
        return f"{self.config.airflow_url}/airflow"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process of this installation."""
        plain = {
            key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW_", "LUCID_"))
        }
        return stack_environment(self.config, plain) | {
            "LUCID_TRACKING_URI": f"sqlite:///{self.config.mlflow_dir / 'mlflow.db'}",
            "LUCID_INPUT_ROOTS": str(self.folder),
            "AIRFLOW__API__BASE_URL": self.url,
            "LUCID_REQUIRE_APPROVAL": "true",
            "LUCID_GATE_RULES": json.dumps(
                {"resamples": 400, "decision_jobs": 256, "naive_margin_pct": 10, "worst_grade": "D"}
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{role}:{role}" for role in ROLES),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": bundle_settings(self.folder / "bundles"),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *, scheduler: bool = False) -> None:
        """Make the database, and serve it: nothing has been done yet.

        Raises RuntimeError with the logs' ends.
        """
        self.config.mlflow_dir.mkdir(parents=True, exist_ok=True)
        self.config.secrets_dir.mkdir(exist_ok=True)
        self.config.passwords_file.write_text(json.dumps({role: role for role in ROLES}))
        database = self._run("-m", "tests.browser.filling", "--database", log="database")
        while database.poll() is None:
            self._check()
        self._serve("api-server", "--workers", "1")
        if scheduler:
            self._run("-m", "lucid_airflow.warm_start", "scheduler", "--skip-serve-logs", log="scheduler")
        health = "/api/v2/monitor/health"
        self._wait_for(lambda client: client.get(health).is_success)
        self._wait_for(self._pages_are_read)

    def fill(self) -> None:
        """Fill what has started (`filling.py`); raises RuntimeError with the logs' ends."""
        self._run("-m", "tests.browser.filling", str(self.folder))
        self._wait_for(self._somebody_is_asked)

    def token(self, role: str) -> str:
        """What a browser keeps in its cookie once this person has logged in."""
        answer = httpx.post(
            f"{self.url}/auth/token", json={"username": role, "password": role}, trust_env=False
        )
        return str(answer.raise_for_status().json()["access_token"])

    def stop(self) -> None:
        """End what was started; the folder stays."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:  # a run that waits for a person's answer waits on
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=20)
        self.processes.clear()

    def _serve(self, name: str, *options: str) -> None:
        self._run("-m", "airflow", name, *options, log=name)

    def _run(self, *words: str, log: str = "filling") -> "subprocess.Popen[bytes]":
        self.config.log_dir.mkdir(exist_ok=True)
        with (self.config.log_dir / f"{log}.log").open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=Path(__file__).parents[2],
                env=self.environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def _wait_for(self, is_there: Callable[[httpx.Client], bool]) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        with httpx.Client(base_url=self.url, timeout=10, trust_env=False) as client:
            while time.monotonic() < deadline:
                with suppress(httpx.HTTPError):
                    if is_there(client):
                        return
                self._check()
        raise RuntimeError(self._log("filling") + self._log("api-server"))

    def _somebody_is_asked(self, client: httpx.Client) -> bool:
        """The last of the filling: it goes on once the person has answered."""
        asked = client.get("/api/v2/dags/publish_release/dagRuns/~/hitlDetails", headers=self._login())
        return bool(asked.raise_for_status().json()["total_entries"])

    def _pages_are_read(self, client: httpx.Client) -> bool:
        """The first reader of a page waits until the server has imported what reads it."""
        return client.get("/lucid/api/overview", headers=self._login(), timeout=60).is_success

    def _login(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token('admin')}"}

    def _check(self) -> None:
        if any(process.poll() for process in self.processes):
            raise RuntimeError(self._log("filling") + self._log("api-server"))
        time.sleep(0.5)

    def _log(self, name: str) -> str:
        path = self.config.log_dir / f"{name}.log"
        return path.read_text(errors="replace")[-4_000:] if path.exists() else ""


def main() -> None:
    """Start an installation and hold it until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.installation", description=__doc__)
    parser.add_argument("--empty", action="store_true", help="nothing ingested yet")
    parser.add_argument("--scheduler", action="store_true", help="what is triggered also runs")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lucid-pages-") as folder:
        installation = Installation(Path(folder))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            installation.start(scheduler=asked.scheduler)
            if not asked.empty:
                installation.fill()
            print(f"{installation.url}/plugin/lucid  log in as {', '.join(ROLES)}; the password is the name")
            print(f"state folder {folder}; Ctrl-C ends it", flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            installation.stop()


if __name__ == "__main__":
    main()
