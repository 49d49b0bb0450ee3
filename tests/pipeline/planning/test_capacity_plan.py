"""Plans of small logs against replays of every size, and what cannot be planned."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from pipeline.planning.capacity_plan import PlanSettings
from pipeline.planning.log_request import LogRequest
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.planner import plan_capacity
from pipeline.studies.wait_target import WaitTarget
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from tests.fixtures import small_jobs

COLUMNS = ("job_id", "virtual_cluster", "gpus", "submit_time", "duration_s")


def write_log(folder: Path, jobs: list[tuple[Any, ...]], nodes: dict[str, int]) -> LogRequest:
    """Jobs (virtual cluster, GPUs, submission, duration) and nodes, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "jobs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow((*COLUMNS, "estimated_duration_s"))
        rows.writerows((f"j{i}", *job, job[-1]) for i, job in enumerate(jobs))
    with (folder / "nodes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("virtual_cluster", "nodes"), *nodes.items()])
    return LogRequest(str(folder / "jobs.csv"), "reference-csv", str(folder / "nodes.csv"))


def two_clusters() -> list[tuple[Any, ...]]:
    frame = small_jobs(400)
    first = frame["submit_time"].min()
    return [
        (f"vc{i % 3 // 2}", gpus, (submit - first).total_seconds(), duration)
        for i, (gpus, submit, duration) in enumerate(
            zip(frame["gpus"], frame["submit_time"], frame["duration_s"], strict=True)
        )
    ]


def asked(policy: str = "fifo", *, limit_s: float = 600.0, metric: str = "p95", **more: Any) -> PlanSettings:
    return PlanSettings(PlannedRun(policy), WaitTarget(metric, limit_s), points=4, **more)


def test_a_plan_tells_how_far_a_replay_is_like_the_log(tmp_path: Path) -> None:
    request = write_log(tmp_path, [("vc0", 8, 60 * i, 600) for i in range(40)], {"vc0": 2})
    report = plan_capacity(request, asked(), tmp_path / "out", name="one")
    said = "Not graded: the log does not say when jobs started."
    assert report.to_dict()["grade"]["sentence"] == said
    page = (tmp_path / "out" / "index.html").read_text()
    assert said in page
    assert page.count("A wait under 1 min counts as 1 min") == 1


def test_answers_are_those_of_replays_of_every_size(tmp_path: Path) -> None:
    request = write_log(tmp_path, two_clusters(), {"vc0": 20, "vc1": 12})
    report = plan_capacity(request, asked(), tmp_path / "out", name="two")
    log = report.log

    def p95_s(nodes: dict[str, int], name: str | None = None) -> float:
        scenario = Scenario(log.scenario.workload, ClusterSpec(nodes, 8))
        jobs = simulate(scenario, "fifo").jobs
        mine = jobs if name is None else jobs[jobs["virtual_cluster"] == name]
        return float(mine["queuing_delay_s"].quantile(0.95))

    answers = {each.pool: each for each in report.plan.answers}
    for name in ("vc0", "vc1"):
        sizes = {size: p95_s({**log.present, name: size}, name) for size in range(1, 25)}
        least = min(size for size, wait_s in sizes.items() if wait_s <= 600)
        assert answers[name].figures["nodes"] == least
        assert answers[name].figures["p95_wait_s"] == pytest.approx(sizes[least])
        assert answers[name].fewer is None or answers[name].fewer["p95_wait_s"] == pytest.approx(
            sizes[least - 1]
        )
    cluster = answers["cluster"].figures
    rows = {row["nodes"]: row for row in report.plan.rows}
    assert rows[cluster["nodes"]]["p95_wait_s"] <= 600 < rows[cluster["nodes"] - 1]["p95_wait_s"]
    assert all(row["p95_wait_s"] == pytest.approx(p95_s(row["virtual_clusters"])) for row in rows.values())
    assert cluster["nodes_low"] <= cluster["nodes"] <= cluster["nodes_high"]
    assert answers["all virtual clusters"].figures["hold_together"]
    # All that was replayed lies there: the same questions again replay nothing.
    again = plan_capacity(request, asked(), tmp_path / "out", name="two")
    assert (again.replays, again.to_dict()["questions"]) == (0, report.to_dict()["questions"])


def test_jobs_larger_than_the_cluster_are_planned_for(tmp_path: Path) -> None:
    jobs = [("vc", 1, 10 * i, 1_000) for i in range(50)] + [("vc", 40, 600, 1_000)]
    request = write_log(tmp_path, jobs, {"vc": 3})
    report = plan_capacity(request, asked(limit_s=1e9), tmp_path / "out", name="one")
    (answer,) = report.plan.answers
    assert answer.figures["nodes"] == answer.figures["largest_job_needs"] == 5
    assert answer.fewer is None
    assert all(row["jobs"] == 51 for row in report.plan.rows)
    assert "at least: vc 5 nodes" in " ".join(report.plan.remarks)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    jobs=st.lists(st.tuples(st.integers(0, 500), st.integers(1, 400)), min_size=2, max_size=40),
    limit_s=st.integers(0, 300),
)
def test_single_gpu_jobs_in_order_never_wait_longer_on_more_nodes(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int]], limit_s: int
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    log = [("vc", 1, submit_s, duration_s) for submit_s, duration_s in sorted(jobs)]
    request = write_log(folder, log, {"vc": 2})
    plan = plan_capacity(request, asked(limit_s=limit_s, metric="mean"), folder / "out", name="one").plan
    assert plan.monotone
    assert plan.answers[0].figures["nodes"] is not None


def test_what_cannot_be_planned_is_said(tmp_path: Path) -> None:
    jobs = [("vc", 1, 10 * i, 1_000) for i in range(50)]
    request = write_log(tmp_path, jobs, {"vc": 3})
    log, nodes = request.jobs, request.nodes
    for refused, why in (
        (LogRequest(log, "reference-csv", gpus=100), "no whole number of nodes of 8 GPUs"),
        (LogRequest(log, "reference-csv", nodes, start="2030-01-01"), "No job was submitted"),
    ):
        with pytest.raises(BadInputError, match=why):
            plan_capacity(refused, asked(), tmp_path / "refused", name="x")
    for make, why in (
        (lambda: LogRequest(log, "reference-csv"), "size is not clear"),
        (lambda: LogRequest(), "no log to plan for"),
        (lambda: LogRequest(cluster="c", gpus=8), "comes from the lake"),
        (lambda: WaitTarget("p95", -1.0), "limit of waits"),
        (lambda: asked(metric="p42"), "metric of waits 'p42'"),
    ):
        with pytest.raises(BadInputError, match=why):
            make()


def test_another_log_in_the_same_folder_is_replayed_anew(tmp_path: Path) -> None:
    jobs = [("vc", 1, 10 * i, 1_000) for i in range(50)]
    first = plan_capacity(write_log(tmp_path, jobs, {"vc": 3}), asked(), tmp_path / "out", name="x")
    other = write_log(tmp_path / "other", jobs[:20], {"vc": 3})
    second = plan_capacity(other, asked(), tmp_path / "out", name="x")
    assert first.replays > 0
    assert second.replays > 0
    assert second.reused == 0
    assert {row["jobs"] for row in second.plan.rows} == {20}
