"""The daemon over Kueue's objects, end to end: a real release orders workloads that a small Kueue admits."""

from copy import deepcopy
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from live_scheduler.adapter import ReturnToDefault
from live_scheduler.client import ReleaseClient
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings, Mode
from parts.kueue.opening import KueueSettings, open_kueue
from parts.kueue.tests.kueue_server import TOKEN, WORKLOADS, KueueServer, recorded, serve
from simulator.cluster.placement import FreeGpus
from tests.live_scheduler.live_release import AWAY, keep_release

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
USER_LABEL = "example.org/user"


def stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SmallKueue:
    """One ClusterQueue with a quota: admits the highest priority first, then the oldest."""

    def __init__(self, server: KueueServer, quota: int) -> None:
        self.server, self.quota = server, quota
        self.admitted: list[str] = []
        self._pattern = server.workload("vision/job-resnet-sweep-1-0a91e")
        for collection in (WORKLOADS, "/api/v1/pods"):
            for key in list(server.lists[collection]):
                server.delete(collection, key)
        server.change(QUEUES, "vision", self._give_quota)
        self._note_usage()

    def _give_quota(self, queue: Any) -> None:
        for resource in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
            if resource["name"] == "nvidia.com/gpu":
                resource["nominalQuota"] = str(self.quota)

    def submit(self, name: str, user: str, gpus: int) -> str:
        item = deepcopy(self._pattern)
        item["metadata"] |= {
            "name": name,
            "creationTimestamp": stamp(self.server.clock_s),
            "ownerReferences": [{"kind": "Job", "name": f"train_{user}", "uid": name, "controller": True}],
            "labels": {},
        }
        item["spec"]["priority"] = 0
        template = item["spec"]["podSets"][0]["template"]
        template["metadata"]["labels"] = {USER_LABEL: user}
        resources = template["spec"]["containers"][0]["resources"]
        resources["limits"]["nvidia.com/gpu"] = resources["requests"]["nvidia.com/gpu"] = str(gpus)
        self.server.put(WORKLOADS, item)
        return f"vision/{name}"

    def step(self) -> None:
        """Admit what the quota allows, in Kueue's order; BestEffortFIFO passes over what does not fit."""
        waiting = [
            item
            for item in self.server.lists[WORKLOADS].values()
            if "admission" not in (item.get("status") or {}) and item["spec"].get("active") is not False
        ]
        waiting.sort(key=lambda item: (-item["spec"]["priority"], item["metadata"]["creationTimestamp"]))
        for item in waiting:
            gpus = self._gpus(item)
            if gpus <= self.quota - self._used():
                self._admit(f"vision/{item['metadata']['name']}", gpus)

    def finish(self, key: str) -> None:
        self.server.clock_s += 60
        self.server.change(WORKLOADS, key, lambda item: self._add(item, "Finished", "Succeeded"))
        self._note_usage()

    def _admit(self, key: str, gpus: int) -> None:
        usage = {"name": "main", "count": 1, "resourceUsage": {"nvidia.com/gpu": str(gpus)}}

        def admit(item: Any) -> None:
            item["status"] = {
                "admission": {"clusterQueue": "vision", "podSetAssignments": [usage]},
                "conditions": [],
            }
            self._add(item, "QuotaReserved", "QuotaReserved")
            self._add(item, "Admitted", "Admitted")

        self.server.change(WORKLOADS, key, admit)
        self.admitted.append(key)
        self._note_usage()

    def _add(self, item: Any, kind: str, reason: str) -> None:
        item["status"]["conditions"].append(
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": "",
                "lastTransitionTime": stamp(self.server.clock_s),
            }
        )

    def _gpus(self, item: Any) -> int:
        resources = item["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]
        return int(resources["limits"]["nvidia.com/gpu"])

    def _used(self) -> int:
        return sum(
            self._gpus(item)
            for item in self.server.lists[WORKLOADS].values()
            if "admission" in (item.get("status") or {})
            and not any(each["type"] == "Finished" for each in item["status"]["conditions"])
        )

    def _note_usage(self) -> None:
        used = [{"name": "nvidia.com/gpu", "total": str(self._used()), "borrowed": "0"}]
        self.server.change(
            QUEUES,
            "vision",
            lambda queue: queue["status"].update(flavorsReservation=[{"name": "a100", "resources": used}]),
        )


def kubeconfig(server: KueueServer, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(f"{TOKEN}\n")
    path = folder / "config"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: lucid}}}}]
clusters: [{{name: lab, cluster: {{server: "{server.address}"}}}}]
users: [{{name: lucid, user: {{tokenFile: token}}}}]
"""
    )
    return path


def daemon_of(server: KueueServer, models: Any, folder: Path, mode: Mode = Mode.CONTROL) -> Daemon:
    reached = KueueSettings(kubeconfig=str(kubeconfig(server, folder)), user_labels=(USER_LABEL,))
    chosen = LiveSettings("lab", mode=mode, adapter="kueue", adapter_settings=asdict(reached))
    keep_release(folder / "releases", models)
    client = ReleaseClient(AWAY, "champion", folder / "releases", cluster="small")
    return Daemon(open_kueue("lab", reached), client, chosen, folder, clock=lambda: server.clock_s)


def test_workloads_are_admitted_in_the_order_of_the_release(small_model_files: Any, tmp_path: Path) -> None:
    objects = recorded()
    with serve(objects) as server:
        kueue = SmallKueue(server, quota=4)
        blocker = kueue.submit("blocker", "u0", 4)
        kueue.step()
        server.clock_s += 10
        keys = []
        for number in range(12):
            keys.append(kueue.submit(f"w{number:02}", f"u{number % 6}", 4))
            server.clock_s += 10
        held = kueue.submit("held", "u0", 4)
        server.change(WORKLOADS, held, lambda item: item["spec"].update(active=False))

        daemon = daemon_of(server, small_model_files, tmp_path)
        view = daemon.pass_once()
        assert view.problem is None
        assert view.decision is not None
        wanted = [each.job_id for each in view.decision.ranked if each.pool == "vision"]
        assert sorted(wanted) == sorted(keys)
        assert wanted != keys, "a test that cannot tell the release's order from that of submission"
        assert view.refused == ()
        assert held in view.decision.left_alone
        assert server.workload(held)["spec"]["priority"] == 0
        assert daemon.pass_once().asked == ()  # nothing is asked twice

        running = blocker
        while len(kueue.admitted) < 13:
            kueue.finish(running)
            kueue.step()
            running = kueue.admitted[-1]
        assert kueue.admitted[1:] == wanted

        # The ends were learnt, and what was admitted keeps what it was given.
        later = daemon.pass_once()
        assert {end.job.job_id for end in later.ended} == {blocker, *wanted[:-1]}
        assert all(end.state == "COMPLETED" for end in later.ended)


def test_below_the_mode_control_nothing_is_written(small_model_files: Any, tmp_path: Path) -> None:
    with serve() as server:
        before = deepcopy(server.lists)
        view = daemon_of(server, small_model_files, tmp_path, Mode.OBSERVE).pass_once()
        assert view.problem is None
        assert view.asked
        assert server.lists == before
        assert {method for method, _ in server.requests} == {"GET"}


def test_every_workload_is_ranked_left_alone_running_or_over(small_model_files: Any, tmp_path: Path) -> None:
    with serve() as server:
        view = daemon_of(server, small_model_files, tmp_path).pass_once()
        assert view.cluster is not None
        assert view.decision is not None
        ranked = {place.job_id for place in view.decision.ranked}
        alone = set(view.decision.left_alone)
        running = {job.job_id for job in view.cluster.jobs if not job.waiting}
        over = {"vision/job-lenet-0b7c9", "vision/job-diverged-aa104"}
        parts = (ranked, alone, running, over)
        assert set().union(*parts) == set(server.lists[WORKLOADS])
        assert sum(map(len, parts)) == len(server.lists[WORKLOADS])
        changed = {
            key
            for key, item in server.lists[WORKLOADS].items()
            if item["metadata"].get("annotations", {}).keys() - {"kueue.x-k8s.io/admission-gated-by"}
        }
        assert changed <= ranked


def test_the_daemon_outlives_an_api_server_that_is_away(small_model_files: Any, tmp_path: Path) -> None:
    with serve() as server:
        daemon = daemon_of(server, small_model_files, tmp_path)
        assert daemon.pass_once().problem is None
        server.away = True
        view = daemon.pass_once()
        assert "did not answer" in (view.problem or "")
        assert view.asked == ()
        server.away = False
        assert daemon.pass_once().problem is None


def test_the_way_back_after_a_kill_needs_no_memory(small_model_files: Any, tmp_path: Path) -> None:
    with serve() as server:
        before = {key: item["spec"]["priority"] for key, item in server.lists[WORKLOADS].items()}
        assert daemon_of(server, small_model_files, tmp_path).pass_once().asked
        reached = KueueSettings(kubeconfig=str(kubeconfig(server, tmp_path / "other")))
        adapter = open_kueue("lab", reached)
        jobs = adapter.read().jobs
        assert adapter.apply([ReturnToDefault(job.job_id) for job in jobs if job.eligible]) == []
        after = {key: item["spec"]["priority"] for key, item in server.lists[WORKLOADS].items()}
        assert after == before


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    free=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    jobs=st.lists(st.integers(1, 16), max_size=10),
    left=st.integers(0, 40),
)
def test_no_more_is_started_than_a_quota_leaves(free: list[int], jobs: list[int], left: int) -> None:
    class Alike:
        def __init__(self) -> None:
            self.waiting: list[str] = []

        def join(self, found: Any) -> None:
            self.waiting += [job["job_id"] for job in found]

        def leave(self, job_ids: Any) -> None:
            assert not list(job_ids)

        def estimates(self, at_s: float) -> Any:
            return np.full(len(self.waiting), 60.0)

    chosen = LiveSettings("lab", policy="fifo")
    nodes = tuple(LiveNode(f"n{at}", 8, 8 - gpus, True, ("q",)) for at, gpus in enumerate(free))
    waiting = tuple(LiveJob(str(at), "q", "q", gpus, float(at)) for at, gpus in enumerate(jobs))
    maker = DecisionMaker(live_policy(chosen), Alike(), chosen, release="r")
    maker.follow(ClusterState(100.0, waiting, nodes, gpus_left={"q": left}))
    started = sum(jobs[int(place.job_id)] for place in maker.decide().ranked if place.starts_now)
    assert started <= min(left, sum(free))
    pool_free: FreeGpus = maker.pools.pools["q"].free
    assert sum(pool_free.per_node()) == min(left, sum(free))
