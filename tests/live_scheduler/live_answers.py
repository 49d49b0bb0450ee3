"""A daemon over a cluster that tests push, with its services: what its clients are tested against."""

from pathlib import Path
from typing import Any, Self

import httpx

from live_scheduler.client import ReleaseClient
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.daemon import Daemon
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.submission_predictor import SubmissionPredictor, other_starts_of
from live_scheduler.limit_memory import LimitMemory
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.service import schema
from live_scheduler.service.expectation import ExpectedTimes
from live_scheduler.service.hosting import LiveService
from live_scheduler.service.operations import Operations
from live_scheduler.service.pushed_cluster import PushedCluster
from live_scheduler.service.state_files import TOKEN_FILE
from tests.live_scheduler.live_release import AWAY
from tests.waiting import PATIENCE_S

NOW_S = 1_900_000_000.0
NODES = (
    LiveNode("n1", 8, 8, True, ("vc1",)),
    LiveNode("n2", 4, 0, False, ("vc1", "prof")),
)


def job(job_id: str, user: str, gpus: int = 1, **facts: Any) -> LiveJob:
    return LiveJob(job_id, "vc1", "vc1", gpus, NOW_S - 600.0, user=user, name=f"train_{user}", **facts)


STATE = ClusterState(
    NOW_S,
    (
        job("1", "u0", 8, start_time_s=NOW_S - 300.0, gpus_on=(("n1", 8),)),
        job("2", "u5", 8, begin_time_s=NOW_S - 480.0),
        job("3", "u0", 2),
        job("4", "u2", 4),
        job("5", "u1", 1, held=True),
        job("6", "u1", 1, waits_for="Dependency", reason="Dependency"),
        job("7", "u3", 2, tasks=5),
        job("8_1", "u3", 1, start_time_s=NOW_S - 300.0, gpus_on=()),
        job("8_2", "u3", 1, start_time_s=NOW_S - 300.0, gpus_on=()),
    ),
    NODES,
)


class Live:
    """A daemon over a cluster that tests push, and its services."""

    def __init__(self, folder: Path, client: ReleaseClient | None = None, mode: Mode = Mode.CONTROL) -> None:
        self.folder = folder
        self.settings = LiveSettings("small", mode=mode)
        self.client = client or ReleaseClient(AWAY, "champion", folder / "releases", cluster="small")
        self.cluster = PushedCluster("small")
        self.daemon = Daemon(self.cluster, self.client, self.settings, folder, clock=lambda: NOW_S)
        self.forecaster = Forecaster(self.daemon)
        self.predictor = SubmissionPredictor(self.forecaster, other_starts_of(self.daemon))
        expected = ExpectedTimes(self.forecaster, self.predictor, LimitMemory(self.daemon))
        self.operations = Operations(self.daemon, expected)
        self.service = LiveService(self.operations, self.settings, folder)
        self.daemon.watchers += [self.service.metrics, self.predictor]

    def __enter__(self) -> Self:
        self.service.__enter__()
        return self

    def __exit__(self, *trace: Any) -> None:
        self.service.__exit__(*trace)
        self.forecaster.close()

    def see(self, state: ClusterState) -> None:
        self.cluster.push(state)
        self.daemon.pass_once()

    @property
    def url(self) -> str:
        assert self.service.web is not None
        return self.service.web.url

    @property
    def token(self) -> str:
        return (self.folder / TOKEN_FILE).read_text().strip()

    def get(self, path: str, *, method: str = "GET", **request: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"} | request.pop("headers", {})
        return httpx.request(
            method, self.url + path, headers=headers, timeout=PATIENCE_S, trust_env=False, **request
        )

    def post(self, path: str, content: str | bytes) -> httpx.Response:
        return self.get(path, method="POST", content=content, headers={"Content-Type": "application/json"})

    def explain(self, job_id: str) -> schema.Explanation:
        return schema.Explanation.model_validate_json(self.get(f"/v1/jobs/{job_id}/explain").content)


def problem(answer: httpx.Response) -> schema.Problem:
    """What went wrong, as the service tells it."""
    assert answer.headers["content-type"] == "application/problem+json"
    return schema.Problem.model_validate_json(answer.content)


def metrics_of(live: Live) -> dict[str, float]:
    """The metrics by their lines' names."""
    lines = live.get("/metrics").text.splitlines()
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")
    }
