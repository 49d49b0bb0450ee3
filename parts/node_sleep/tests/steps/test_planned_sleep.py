"""What a plan says of sleeping nodes, and what of them cannot be planned."""

from pathlib import Path

import pytest

from foundation.errors import BadInputError, UnknownNameError
from pipeline.planning.log_request import LogRequest
from pipeline.planning.planner import plan_capacity
from tests.pipeline.planning.test_capacity_plan import asked, two_clusters, write_log


def test_sleep_costs_waiting_and_saves_energy(tmp_path: Path) -> None:
    request = write_log(tmp_path, two_clusters(), {"vc0": 20, "vc1": 12})
    sleeps = ({"buffer_nodes": 0, "boot_s": 600},)
    report = plan_capacity(request, asked(asked={"node_sleep": sleeps}), tmp_path / "out", name="two")
    (kept, *costs) = [each for each in report.plan.answers if each.variant.startswith("sleep")]
    assert kept.kind == "nodes"
    for each in costs:
        assert each.figures["saved_kwh"] > 0
        assert each.figures["added_wait"]["mean"]["added_s"] > 0
    awake, asleep = (
        {row["nodes"]: row for row in report.plan.rows if row["variant"].startswith(name)}
        for name in ("awake", "sleep")
    )
    assert all(asleep[size]["kwh"] < awake[size]["kwh"] for size in awake.keys() & asleep.keys())
    assert {row["variant"] for row in report.plan.front} == {"awake", "sleep boot_s=600 buffer_nodes=0"}


def test_a_limit_that_boots_alone_exceed_is_out_of_reach(tmp_path: Path) -> None:
    jobs = [("vc", 8, 100_000 * i, 3_000) for i in range(1, 20)]
    request = write_log(tmp_path, jobs, {"vc": 3})
    sleeps = ({"buffer_nodes": 0, "boot_s": 900},)
    report = plan_capacity(
        request, asked(limit_s=60, asked={"node_sleep": sleeps}), tmp_path / "out", name="one"
    )
    awake, asleep = [each for each in report.plan.answers if each.kind == "nodes"]
    assert awake.figures["nodes"] == 1
    assert asleep.figures["nodes"] is None
    assert asleep.answer.startswith("No number of nodes does.")


def test_what_cannot_be_planned_is_said(tmp_path: Path) -> None:
    request = write_log(tmp_path, [("vc", 1, 10 * i, 1_000) for i in range(50)], {"vc": 3})
    pool = LogRequest(request.jobs, "reference-csv", gpus=16)
    with pytest.raises(BadInputError, match="no nodes that could sleep"):
        plan_capacity(pool, asked(asked={"node_sleep": ({"buffer_nodes": 1},)}), tmp_path / "pool", name="x")
    with pytest.raises(UnknownNameError, match="setting of sleeping nodes"):
        plan_capacity(request, asked(asked={"node_sleep": ({"bufer": 1},)}), tmp_path / "sleep", name="x")
