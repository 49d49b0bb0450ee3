"""The live scheduler's metrics, as Prometheus reads them."""

import json
import shutil
import subprocess
from dataclasses import asdict, replace

import pytest

from live_scheduler.cluster_state import EndedJob
from live_scheduler.hindsight.regret_job import HINDSIGHT_FILE, RegretReport, StartAgreement
from live_scheduler.hindsight.replayed_window import Hindsight, MeanTimes, Regret
from live_scheduler.service import schema
from tests.live_scheduler.live_answers import NOW_S, STATE, Live, metrics_of


def test_metrics_count_passes_and_tell_the_queue(live: Live) -> None:
    live.see(STATE)
    live.see(replace(STATE, at_s=NOW_S + 2.0))
    found = metrics_of(live)
    assert found["lucid_live_passes_total"] == 2
    assert found["lucid_live_decisions_total"] == 2
    assert found["lucid_live_decision_seconds_count"] == 2
    assert found['lucid_live_pass_seconds_count{part="decide"}'] == 2
    assert found['lucid_live_changes_asked_total{change="SetPriority"}'] == 4  # the second time nothing
    assert found['lucid_live_waiting_jobs{partition="vc1"}'] == 10
    assert found['lucid_live_waiting_gpus{partition="vc1"}'] == 26
    assert found['lucid_live_running_jobs{partition="vc1"}'] == 3
    assert found["lucid_live_release_version"] == 7
    assert found["lucid_live_in_charge"] == 1
    assert found["lucid_live_problem"] == 0


def test_metrics_compare_estimates_with_what_became_of_jobs(live: Live) -> None:
    live.see(STATE)
    decision = live.daemon.view.decision
    assert decision is not None
    estimate_s = decision.by_id["3"].estimated_duration_s
    assert estimate_s is not None
    gone = STATE.by_id["3"]
    start_s = NOW_S + 1.0
    live.cluster.report([EndedJob(gone, "COMPLETED", start_s, start_s + 10 * estimate_s, 10 * estimate_s)])
    live.see(
        replace(
            STATE,
            at_s=start_s + 10 * estimate_s + 1.0,
            jobs=tuple(job for job in STATE.jobs if job.job_id != "3"),
        )
    )
    found = metrics_of(live)
    assert found["lucid_live_estimate_log10_error_count"] == 1
    assert found["lucid_live_estimate_log10_error_sum"] == pytest.approx(1.0)
    assert found['lucid_live_estimate_error_ratio_bucket{le="5.0"}'] == 0
    assert found['lucid_live_estimate_error_ratio_bucket{le="30.0"}'] == 1


def test_a_look_back_is_told_once_there_is_one(live: Live) -> None:
    live.see(STATE)
    assert "lucid_live_regret" not in live.get("/metrics").text
    assert live.get("/v1/status").json()["hindsight"] is None
    figures = [MeanTimes(mean_jct_s, 1.0) for mean_jct_s in (100.0, 90.0, 60.0, 58.0)]
    found = Hindsight(
        NOW_S - 86_400.0, NOW_S, "lucid", 240, 3, {}, figures[0], figures[1], figures[2], figures[3],
        Regret(-30.0, -40.0, -20.0, -33.3, True), Regret(2.0, 1.0, 3.0, 3.4, True), 0.2, (),
    )  # fmt: skip
    kept = RegretReport(NOW_S, StartAgreement(10, 9, 1.0, 0), found)
    (live.folder / HINDSIGHT_FILE).write_text(json.dumps(asdict(kept)))
    told = metrics_of(live)
    assert told['lucid_live_regret_seconds{against="fifo_backfill"}'] == -30.0
    assert told['lucid_live_regret_seconds{against="true_durations"}'] == 2.0
    assert told['lucid_live_mean_jct_seconds{of="live_policy"}'] == 60.0
    status = schema.Status.model_validate_json(live.get("/v1/status").content)
    assert status.hindsight is not None
    assert (status.hindsight.jobs, status.hindsight.backfill_jct_s) == (240, 90.0)
    (live.folder / HINDSIGHT_FILE).write_text("{")
    assert live.get("/v1/status").json()["hindsight"] is None
    assert live.get("/metrics").status_code == 200


@pytest.mark.thorough("Prometheus")
def test_prometheus_own_checker_finds_nothing(standing: Live) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    text = standing.get("/metrics").content
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=300)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
