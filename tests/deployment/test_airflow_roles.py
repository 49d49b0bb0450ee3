"""The production configuration's roles on a real Airflow with Flask-AppBuilder, and four eyes on a real run.

Airflow is installed from the image's lock; each role's person asks its REST API for everything.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lucid_airflow.access.acts import ROLES, Act, dags_of
from lucid_airflow.dag_defaults import dag_ids
from tests.deployment.locked_environments import ROOT, install_image
from tests.fixtures import free_port
from tests.wheels import build_image_wheels

pytestmark = pytest.mark.thorough("installs Airflow as the image has it, and runs it")

FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
START_LIMIT_S = 300.0
PEOPLE = {role.removeprefix("Lucid ").lower(): role for role in ROLES} | {"carla": "Lucid Approver"}
# In place of the DAG that publishes: its question alone, started by the approver.
ASKING_DAG = """
from airflow.sdk import DAG
from lucid_airflow.dag_defaults import DEFAULT_ARGS
from lucid_airflow.operators.approval import RequestApprovalOperator, reason_field

defaults = {**DEFAULT_ARGS, "retries": 20, "retry_exponential_backoff": False}
with DAG(dag_id="publish_release", schedule=None, is_paused_upon_creation=False, default_args=defaults):
    RequestApprovalOperator(
        task_id="request_approval", subject="Publish?", body="It is better.", approval_required=True,
        cluster="venus", version=3, started_by=["approver"], params=reason_field(),
    )
"""


class FabAirflow:
    """Airflow's processes on a folder of their own."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        self.url = f"http://127.0.0.1:{free_port()}"
        self.processes: list[subprocess.Popen[bytes]] = []
        dags = folder / "dags"
        dags.mkdir()
        for file in (ROOT / "dags").glob("*.py"):
            (dags / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        (dags / "publish_release.py").write_text(ASKING_DAG)
        self.environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(folder),
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__AUTH_MANAGER": FAB,
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__SECRET_KEY": "y" * 64,
            "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "LUCID_STATE_DIR": str(folder / "state"),
            "LUCID_LAKE_URI": str(folder / "lake"),
            "LUCID_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
            "LUCID_FOUR_EYES": "true",
        }

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [self.programs / command[0], *command[1:]],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=START_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        return done.stdout

    def serve(self, *command: str) -> None:
        with (self.folder / f"{command[1]}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [self.programs / command[0], *command[1:]],
                    env=self.environment,
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def stop(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=20)

    def person(self, name: str) -> httpx.Client:
        login = {"username": name, "password": "pw"}
        answer = httpx.post(f"{self.url}/auth/token", json=login, trust_env=False, timeout=60)
        token = answer.raise_for_status().json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=f"{self.url}/api/v2", headers=headers, trust_env=False, timeout=60)


def wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            if found := what():
                return found
        except httpx.TransportError:
            pass
        time.sleep(1)
    raise AssertionError("it did not happen in time")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabAirflow]:
    folder = tmp_path_factory.mktemp("fab")
    wheels = build_image_wheels(tmp_path_factory.mktemp("wheels"))
    programs = install_image(wheels, tmp_path_factory.mktemp("image") / "environment", "airflow")
    started = FabAirflow(folder, programs)
    started.run("airflow", "db", "migrate")
    assert "Lucid Viewer: made" in started.run("python", "-m", "lucid_airflow.access.fab_roles")
    assert "0 changes" in started.run("python", "-m", "lucid_airflow.access.fab_roles")
    for name, role in PEOPLE.items():
        words = ("--username", name, "--password", "pw", "--role", role, "--email", f"{name}@x")
        started.run("airflow", "users", "create", *words, "--firstname", "a", "--lastname", "b")
    started.run("airflow", "dag-processor", "--num-runs", "1")
    started.run("airflow", "dags", "pause", "--treat-dag-id-as-regex", "--yes", "^(?!publish_release$).*")
    try:
        port = started.url.rpartition(":")[2]
        started.serve("airflow", "api-server", "--workers", "1", "--host", "127.0.0.1", "--port", port)
        wait_for(lambda: httpx.get(f"{started.url}/api/v2/version", trust_env=False).is_success)
        yield started
    finally:
        started.stop()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_does_its_acts_over_rest_and_nothing_else(airflow: FabAirflow, role: str) -> None:
    person, acts = airflow.person(role.removeprefix("Lucid ").lower()), ROLES[role]
    run = {"logical_date": None, "conf": {"cluster": "venus", "reason": "it is better"}}
    allowed = {}
    for act in Act:
        for dag_id in dags_of(act):
            if act is Act.APPROVE:  # no such run: an account that may answer is told so
                path = f"/dags/{dag_id}/dagRuns/none/taskInstances/ask/-1/hitlDetails"
                answer = person.patch(path, json={"chosen_options": ["Approve"], "params_input": {}})
            else:
                answer = person.post(f"/dags/{dag_id}/dagRuns", json=run)
            allowed[act, dag_id] = answer.status_code != 403
    assert allowed == {(act, dag_id): act in acts for act, dag_id in allowed}
    others = {
        "make an event": person.post("/assets/events", json={"asset_id": 1, "extra": {}}),
        "read secrets": person.get("/connections"),
        "read variables": person.get("/variables"),
        "write a variable": person.post("/variables", json={"key": "lucid_lake_uri", "value": "x"}),
        "rewrite what a task left": person.post(
            "/dags/publish_release/dagRuns/none/taskInstances/request_approval/xcomEntries",
            json={"key": "return_value", "value": {"responded_by_user": {"name": "carla"}}},
        ),
        "delete runs": person.delete("/dags/publish_release/dagRuns/none"),
    }
    assert {what: answer.status_code for what, answer in others.items()} == dict.fromkeys(others, 403)
    marked = person.patch(
        "/dags/publish_release/dagRuns/none/taskInstances/request_approval", json={"new_state": "success"}
    )
    assert (marked.status_code == 403) == (role != "Lucid Admin")
    assert person.get("/plugins").status_code == 200, "else the UI does not show the pages"
    assert person.get("/dags").json()["total_entries"] == len(dag_ids())


def test_an_answer_of_who_started_it_is_asked_again(airflow: FabAirflow) -> None:
    airflow.serve("airflow", "scheduler", "--skip-serve-logs")
    publisher = airflow.person("publisher")
    run = publisher.post("/dags/publish_release/dagRuns", json={"logical_date": None, "conf": {}})
    run_id = run.raise_for_status().json()["dag_run_id"]
    path = f"/dags/publish_release/dagRuns/{run_id}/taskInstances/request_approval"
    yes = {"chosen_options": ["Approve"], "params_input": {"reason": "it is better"}}

    def asked() -> str:
        detail = publisher.get(f"{path}/-1/hitlDetails")
        waits = publisher.get(path).json()["state"] == "awaiting_input"
        open_now = waits and detail.is_success and not detail.json()["response_received"]
        return detail.json()["body"] if open_now else ""

    def told() -> str:
        left = publisher.get(f"{path}/xcomEntries/step_result", params={"stringify": False})
        return str(left.json()["value"]["sentence"]) if left.is_success else ""

    def answer(name: str, heard: str) -> bool:
        """Answer whenever asked: Airflow 3.3 may fail a try that is answered at once, and tries again."""
        if asked():
            airflow.person(name).patch(f"{path}/-1/hitlDetails", json=yes)
        return heard in told()

    assert "Started by approver: another person must approve it." in wait_for(asked)
    wait_for(lambda: answer("approver", "another must approve it (LUCID_FOUR_EYES)"))
    wait_for(lambda: answer("carla", "Approved by carla: it is better"))
    wait_for(lambda: publisher.get(path).json()["state"] == "success")
