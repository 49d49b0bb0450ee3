"""Airflow as docker-compose.yml runs it, without containers: Celery, Redis and PostgreSQL on private ports.

The versions are those of the image (docker/requirements-airflow.lock); a supervisor starts what dies again,
as `restart: unless-stopped` does there.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from uv import find_uv_bin

from local_stack.airflow_client import AirflowClient
from local_stack.supervisor import STATUS_FILE, ProcessSpec, read_json, write_processes
from tests.deployment.locked_environments import ROOT
from tests.faults.private_servers import INSTALL_LINE, Postgres, Redis, missing_servers, server_folder
from tests.fixtures import free_port
from tests.waiting import wait_until
from tests.wheels import build_image_wheels

DAG = "one_log"
WORKERS = ("worker-1", "worker-2")
LOCK = ROOT / "docker" / "requirements-airflow.lock"


@dataclass
class ProductionAirflow:
    """An installation that runs, with the one DAG `one_log`."""

    folder: Path
    programs: Path
    postgres: Postgres
    redis: Redis
    port: int
    password: str

    @property
    def lake(self) -> Path:
        """The lake that its tasks write."""
        return self.folder / "lake"

    def client(self) -> AirflowClient:
        """A client of its API, logged in as its admin."""
        return AirflowClient(f"http://127.0.0.1:{self.port}", username="admin", password=self.password)

    def process(self, name: str) -> psutil.Process | None:
        """A process by its name, while it runs."""
        entry = (read_json(self.folder / "run" / STATUS_FILE) or {}).get(name) or {}
        with suppress(psutil.Error):
            if entry.get("pid"):
                return psutil.Process(entry["pid"])
        return None

    def worker_of(self, pid: int) -> psutil.Process:
        """The Celery worker below which a task's process runs."""
        above = {parent.pid for parent in psutil.Process(pid).parents()}
        (found,) = [one for name in WORKERS if (one := self.process(name)) is not None and one.pid in above]
        return found

    def running_task(self, airflow: AirflowClient, run_id: str) -> psutil.Process:
        """Wait until the run's task has a process."""

        def found() -> psutil.Process | None:
            for task in airflow.tasks(DAG, run_id):
                assert task["state"] not in ("success", "failed"), "it ran too short to be disturbed"
                if task["state"] == "running" and task.get("pid"):
                    return psutil.Process(task["pid"])
            return None

        return wait_until(found, "the task runs")


def kill_with_children(process: psutil.Process) -> None:
    """As a machine dies: nothing of it is left to say so."""
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            each.kill()


def install(folder: Path) -> Path:
    """An environment with the image's versions and our wheel; skips where nothing supplies them."""

    def uv(*words: object) -> None:
        subprocess.run([find_uv_bin(), *map(str, words)], check=True, capture_output=True, timeout=600)

    uv("venv", "--python", sys.executable, folder)
    locked = ("pip", "install", "--python", folder, "--no-deps", "--require-hashes", "--requirement", LOCK)
    try:
        uv(*locked, "--offline")  # what an earlier run left in uv's cache
    except subprocess.CalledProcessError:
        try:
            uv(*locked)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no package index and no cache has the image's versions: {error.stderr[-300:]!r}")
    (folder / "build").mkdir()
    uv("pip", "install", "--python", folder, "--no-deps", "--offline", *build_image_wheels(folder / "build"))
    return folder / "bin"


@contextmanager
def production_airflow(folder: Path) -> Iterator[ProductionAirflow]:
    """Run an installation in an empty folder."""
    if missing := missing_servers():
        pytest.skip(f"{', '.join(missing)} not installed ({INSTALL_LINE})")
    programs = install(folder / "environment")
    servers = [Postgres(server_folder("postgres")), Redis(server_folder("redis"))]
    postgres, redis = servers
    assert isinstance(postgres, Postgres)
    assert isinstance(redis, Redis)
    try:
        postgres.create()
        for server in servers:
            server.start()
        airflow = ProductionAirflow(folder, programs, postgres, redis, free_port(), secrets.token_urlsafe(12))
        for name in ("run", "home", "dags"):
            (folder / name).mkdir()
        shutil.copy(Path(__file__).parent / "dags" / f"{DAG}.py", folder / "dags")
        (folder / "passwords.json").write_text(json.dumps({"admin": airflow.password}))
        ours = (
            "AIRFLOW_",
            "LUCID_",
            "PYTHONPATH",
        )  # of this process, whose tests have an Airflow of their own
        plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment = plain | _variables(airflow)
        migrate = [str(programs / "airflow"), "db", "migrate"]
        subprocess.run(migrate, env=environment, check=True, capture_output=True, cwd=folder)
        with _supervised(airflow, environment), airflow.client() as client:
            wait_until(lambda: "healthy" in client.health().get("scheduler", ""), "the scheduler is healthy")
            wait_until(lambda: DAG in client.dag_ids(), "the DAG is there")
            yield airflow
    finally:
        for server in servers:
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)


@contextmanager
def _supervised(airflow: ProductionAirflow, environment: dict[str, str]) -> Iterator[None]:
    program, run = str(airflow.programs / "airflow"), airflow.folder / "run"
    commands: dict[str, tuple[str, ...]] = {
        "api-server": ("api-server", "--host", "127.0.0.1", "--port", str(airflow.port), "--workers", "1"),
        "scheduler": ("scheduler", "--skip-serve-logs"),
        "dag-processor": ("dag-processor",),
    }
    for name in WORKERS:
        commands[name] = ("celery", "worker", "--celery-hostname", f"{name}@%h", "--skip-serve-logs")
    specs = [
        ProcessSpec(
            name=name,
            argv=(program, *words),
            log=str(run / f"{name}.log"),
            waits_for_port=None if name in ("api-server", "dag-processor") else airflow.port,
        )
        for name, words in commands.items()
    ]
    write_processes(run, specs)
    with (run / "supervisor.log").open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "local_stack.supervisor", str(run)],
            env=environment | {"PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        supervisor.terminate()
        supervisor.wait(timeout=120)


def _variables(airflow: ProductionAirflow) -> dict[str, str]:
    folder, address = airflow.folder, f"http://127.0.0.1:{airflow.port}"
    database = airflow.postgres.database("airflow").removeprefix("postgresql://")
    key = "for tests only " + "x" * 64
    return {
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "home" / "plugins"),
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+postgresql://{database}",
        "AIRFLOW__CELERY__BROKER_URL": f"redis://127.0.0.1:{airflow.redis.port}/0",
        "AIRFLOW__CELERY__WORKER_CONCURRENCY": "2",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__SECRET_KEY": key,
        "AIRFLOW__API_AUTH__JWT_SECRET": key,
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # A task that is not heard of for so long has died; production waits five minutes.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "GX_ANALYTICS_ENABLED": "false",
        "LUCID_LAKE_URI": str(airflow.lake),
        "LUCID_STATE_DIR": str(folder / "state"),
        "LUCID_TRACKING_URI": "http://127.0.0.1:1",
    }
