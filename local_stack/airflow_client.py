"""Airflow over its REST API: trigger a DAG, follow its runs and their tasks."""

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

import httpx

from foundation.bounded_http import AnswerLimits, BoundedClient, json_of, refuse_readable_secret
from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError

PAGE = 100
HEALTH_LIMITS = AnswerLimits(1024 * 1024, 5.0)
MOST_BYTES = 64 * 1024 * 1024  # a task's whole log, at most
BUSY_TRIES, BUSY_PAUSE_S = 10, 2.0


class AirflowClient:
    """A client of one Airflow; logs in when it must.

    Raises ServiceUnavailableError when Airflow does not answer, NotFoundError for an unknown DAG or run, and
    BadInputError when Airflow refuses a request (a wrong parameter, a wrong password).
    """

    def __init__(self, base_url: str, *, username: str, password: str, timeout_s: float = 60.0) -> None:
        self._base_url = base_url
        self._login = {"username": username, "password": password}
        refuse_readable_secret(base_url, "Airflow's address", secret=True)
        self._http = BoundedClient(base_url, limits=AnswerLimits(MOST_BYTES, timeout_s))
        self._token: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def health(self) -> dict[str, str]:
        """Return each component's status, e.g. {"scheduler": "healthy"}; empty when nothing answers."""
        try:
            answer = self._http.get("/api/v2/monitor/health", limits=HEALTH_LIMITS)
            document = json_of(answer)
        except ServiceUnavailableError:
            return {}
        if answer.is_error or not isinstance(document, dict):
            return {}
        return {
            name: str((part or {}).get("status"))
            for name, part in document.items()
            if part is None or isinstance(part, dict)
        }

    def dag_ids(self) -> set[str]:
        """Return the DAGs that Airflow has parsed."""
        return {dag["dag_id"] for dag in self._get("/dags", limit=PAGE)["dags"]}

    def import_errors(self) -> dict[str, str]:
        """Return file -> error of the DAG files that could not be parsed."""
        return {
            error["filename"]: error["stack_trace"]
            for error in self._get("/importErrors", limit=PAGE)["import_errors"]
        }

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run of a DAG with these parameters; return its run id."""
        # Named here, so that asking again after an error can be told from asking for a second run.
        run_id = f"manual__{uuid.uuid4()}"
        wanted = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}

        def start() -> None:
            with contextlib.suppress(NotFoundError):
                self.run(dag_id, run_id)
                return
            self._request("POST", f"/dags/{dag_id}/dagRuns", json=wanted)

        try:
            self._request("POST", f"/dags/{dag_id}/dagRuns", json=wanted)
        except ServiceUnavailableError:
            _until_not_busy(start)
        return run_id

    def set_pool(self, name: str, slots: int, description: str) -> None:
        """Create a pool of task slots, or give the one that is there so many slots."""
        pool = {"slots": slots, "description": description, "include_deferred": False}
        _until_not_busy(lambda: self._set_pool(name, pool))

    def _set_pool(self, name: str, pool: dict[str, Any]) -> None:
        try:
            there = self._get(f"/pools/{name}")
        except NotFoundError:
            self._request("POST", "/pools", json={"name": name, **pool})
            return
        if any(there.get(setting) != value for setting, value in pool.items()):
            self._request("PATCH", f"/pools/{name}", json={"pool": name, **pool})

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the newest runs of a DAG, newest first."""
        runs: list[dict[str, Any]] = self._get(f"/dags/{dag_id}/dagRuns", limit=PAGE, order_by="-run_after")[
            "dag_runs"
        ]
        return runs

    def runs_under_way(self) -> list[dict[str, Any]]:
        """Return the runs of all DAGs that are queued or running, oldest first."""
        query = {"state": ["queued", "running"], "limit": PAGE, "order_by": "run_after"}
        runs: list[dict[str, Any]] = self._get("/dags/~/dagRuns", **query)["dag_runs"]
        return runs

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return one run."""
        run: dict[str, Any] = self._get(f"/dags/{dag_id}/dagRuns/{run_id}")
        return run

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        tasks: list[dict[str, Any]] = self._get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", limit=PAGE)[
            "task_instances"
        ]
        return tasks

    def causes(self, dag_id: str, run_id: str) -> set[tuple[str, str]]:
        """Return (dag id, run id) of the runs that started this one by their asset events."""
        return {
            (event["source_dag_id"], event["source_run_id"])
            for event in self.asset_events(dag_id, run_id)
            if event.get("source_run_id")
        }

    def asset_events(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the asset events that started a run; `extra` of each is what was announced."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/upstreamAssetEvents"
        events: list[dict[str, Any]] = self._get(path)["asset_events"]
        return events

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return a value that a task handed over, or None when it left none."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        try:
            return self._get(path, deserialize=False)["value"]
        except NotFoundError:
            return None

    def questions(self, dag_id: str) -> list[dict[str, Any]]:
        """Return what a DAG's runs ask of a person and is not answered, oldest first."""
        query = {"response_received": False, "limit": PAGE, "order_by": "created_at"}
        asked: list[dict[str, Any]] = self._get(f"/dags/{dag_id}/dagRuns/~/hitlDetails", **query)[
            "hitl_details"
        ]
        return asked

    def answers(self, dag_id: str, run_id: str, task_id: str) -> list[str]:
        """Return what a task that waits for a person offers to answer."""
        options: list[str] = self._get(_question(dag_id, run_id, task_id))["options"]
        return options

    def answer(self, dag_id: str, run_id: str, task_id: str, chosen: str) -> None:
        """Answer a task that waits for a person (Airflow's *Required Actions*)."""
        body = {"chosen_options": [chosen], "params_input": {}}
        self._request("PATCH", _question(dag_id, run_id, task_id), json=body)

    def log_tail(self, dag_id: str, run_id: str, task_id: str, try_number: int, lines: int = 30) -> list[str]:
        """Return the last lines of a task's log."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        content = self._get(path, full_content=True).get("content", [])
        if isinstance(content, str):
            return content.splitlines()[-lines:]
        return [_log_line(entry) for entry in content][-lines:]

    def _get(self, path: str, **query: Any) -> Any:
        return self._request("GET", path, params=query)

    def _request(self, method: str, path: str, **parts: Any) -> Any:
        for attempt in range(3):
            token = self._token = self._token or self._log_in()
            headers = {"Authorization": f"Bearer {token}"}
            try:
                response = self._http.request(method, f"/api/v2{path}", headers=headers, **parts)
            except ServiceUnavailableError as error:
                # A restarting server may drop a read; a write might have happened, so it is not repeated.
                if method != "GET" or attempt == 2:
                    raise self._unavailable(error) from error
                time.sleep(1.0)
                continue
            if response.is_server_error and method == "GET" and attempt < 2:
                time.sleep(1.0)  # e.g. a run that the scheduler is just writing
                continue
            if response.status_code == httpx.codes.UNAUTHORIZED and attempt == 0:
                self._token = None
                continue
            return self._document(response, f"{method} {path}")
        raise AssertionError("unreachable")

    def _document(self, response: httpx.Response, what: str) -> Any:
        if response.status_code == httpx.codes.NOT_FOUND:
            raise NotFoundError(
                f"Airflow knows nothing at {what}.", remedy="Is the DAG parsed, the run id right?"
            )
        if response.is_server_error:
            raise ServiceUnavailableError(
                f"Airflow answered {response.status_code} to {what}: {response.text[:300]}."
            )
        if response.is_error:
            raise BadInputError(f"Airflow refused {what} ({response.status_code}): {response.text[:500]}")
        return json_of(response)

    def _log_in(self) -> str:
        try:
            response = self._http.request("POST", "/auth/token", json=self._login)
        except ServiceUnavailableError as error:
            raise self._unavailable(error) from error
        return str(self._document(response, "POST /auth/token")["access_token"])

    def _unavailable(self, error: Exception) -> ServiceUnavailableError:
        return ServiceUnavailableError(
            f"Airflow at {self._base_url} did not answer ({error}).", remedy="Is it up? `make up` starts it."
        )


def _until_not_busy(write: Callable[[], None]) -> None:
    """Make a write that does no harm when it is made twice, again while Airflow fails or answers too late.

    Its SQLite is locked by other writers now and then.
    """
    for left in reversed(range(BUSY_TRIES)):
        try:
            write()
            return
        except ServiceUnavailableError:
            if not left:
                raise
            time.sleep(BUSY_PAUSE_S)


def _question(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"


def _log_line(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    details = entry.get("error_detail") or []
    causes = [
        f"{detail.get('exc_type')}: {detail.get('exc_value')}"
        for detail in details
        if isinstance(detail, dict)
    ]
    return " | ".join([str(entry.get("event", "")), *causes])
