"""What the live scheduler tells: status, queue, why a job stands where it stands, when it will be done."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.live_settings import Mode
from live_scheduler.service import schema
from tests.live_scheduler.live_answers import NOW_S, STATE, Live, problem
from tests.live_scheduler.pushing import pushed_cluster


def test_before_the_first_pass_it_says_so(live: Live) -> None:
    assert live.get("/v1/status").json()["decided"] is False
    for path in ("/v1/queue", "/v1/jobs/2/explain", "/v1/jobs/2/when"):
        answer = live.get(path)
        assert answer.status_code == 503
        assert "first pass" in problem(answer).detail
    health = httpx.get(f"{live.url}/healthz", trust_env=False)
    assert health.status_code == 503
    assert live.get("/metrics").status_code == 200


def test_status_tells_release_queue_and_mode(standing: Live) -> None:
    status = schema.Status.model_validate_json(standing.get("/v1/status").content)
    assert (status.cluster, status.mode, status.policy) == ("small", "control", "lucid")
    assert status.in_charge
    assert status.decided
    assert (status.release.version, status.release.mode) == (7, "last known good")
    assert (status.ranked_jobs, status.left_alone_jobs) == (4, 2)
    (prof, vc1) = status.partitions
    assert (vc1.partition, vc1.waiting_jobs, vc1.waiting_gpus, vc1.running_jobs) == ("vc1", 10, 26, 3)
    assert (vc1.gpus, vc1.gpus_used, vc1.gpus_offered) == (12, 8, 8)
    assert (prof.partition, prof.gpus, prof.gpus_offered) == ("prof", 4, 0)
    assert status.asked == {"SetPriority": 4}
    health = httpx.get(f"{standing.url}/healthz", trust_env=False)
    assert (health.status_code, health.text) == (200, "ok\n")


def test_a_stale_release_is_said_wherever_it_orders(standing: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "stale" not in standing.get("/v1/queue").json()["note"]
    view = standing.daemon.view
    stale = replace(view, release=replace(view.release, mode="stale", last_contact=None))
    monkeypatch.setattr(standing.daemon, "_view", stale)
    assert standing.get("/v1/status").json()["release"]["mode"] == "stale"
    assert "stale: its server was last heard of never" in standing.get("/v1/queue").json()["note"]
    assert "lucid_live_release_stale 1.0" in standing.get("/metrics").text


def test_the_queue_is_that_of_the_decision(standing: Live) -> None:
    answer = schema.QueueAnswer.model_validate_json(standing.get("/v1/queue?pool=vc1").content)
    (queue,) = answer.queues
    decision = standing.daemon.view.decision
    assert decision is not None
    assert (
        [job.job_id for job in queue.jobs]
        == [each.job_id for each in decision.ranked if each.pool == "vc1"]
        == ["3", "7", "4", "2"]
    )
    assert [job.place for job in queue.jobs] == [1, 2, 3, 4]
    assert queue.left_alone == {"5": "it is held", "6": "it waits for Dependency"}
    assert answer.in_charge
    missing = standing.get("/v1/queue?pool=nowhere")
    assert missing.status_code == 404
    assert "vc1" in problem(missing).remedy


def test_explain_says_why_a_job_stands_where_it_stands(standing: Live) -> None:
    decision = standing.daemon.view.decision
    assert decision is not None
    told = standing.explain("4")
    estimates = {place.job_id: place.estimated_duration_s or 0.0 for place in decision.ranked}
    assert (told.pool, told.place, told.queue_length, told.jobs_ahead) == ("vc1", 3, 4, 2)
    assert told.first_ahead == ("3", "7")
    assert told.gpu_seconds_ahead == pytest.approx(2 * estimates["3"] + 5 * 2 * estimates["7"])
    assert told.estimated_duration_s == pytest.approx(estimates["4"])
    assert told.estimate_reason is not None
    assert "u2" in told.estimate_reason
    assert told.release_version == 7
    assert "version 7" in told.note
    assert (told.gpus_free, told.gpus_offered) == (0, 8)
    text = " ".join(told.sentences)
    for part in ("place 3 of 4", "2 jobs ahead", "0 of 8 GPUs", "4 GPUs x", "fewest GPU-seconds first"):
        assert part in text
    assert any("instead of 4" in each for each in told.would_move_it)
    assert any("longest_wait_s" in each for each in told.would_move_it)


def test_what_would_move_a_job_moves_it(standing: Live) -> None:
    (advice,) = (each for each in standing.explain("4").would_move_it if "instead of 4" in each)
    fewer = int(advice.split("With ")[1].split()[0])
    promised = int(advice.rsplit(" ", 1)[1].rstrip("."))
    state = replace(
        STATE, jobs=tuple(replace(job, gpus=fewer) if job.job_id == "4" else job for job in STATE.jobs)
    )
    # The same run time: only the product counts, so the estimate is given by hand.
    before = {place.job_id: place for place in standing.daemon.view.decision.ranked}  # type: ignore[union-attr]
    ranks = {
        job.job_id: before[job.job_id].rank[0] * (fewer / 4 if job.job_id == "4" else 1.0)
        for job in state.jobs
        if job.job_id in before
    }
    assert sorted(ranks, key=ranks.__getitem__).index("4") + 1 == promised


@pytest.mark.parametrize(
    ("asked", "found", "said"),
    [
        ("1", "1", "runs in vc1 since"),
        ("2", "2", "place 4 of 4"),
        ("2", "2", "For 2 min of its wait, until"),
        ("5", "5", "it is held"),
        ("6", "6", "it waits for Dependency"),
        ("7", "7", "5 tasks not started"),
        ("7_3", "7", "5 tasks not started"),
        ("8_2", "8_2", "runs in vc1"),
    ],
)
def test_every_kind_of_job_has_its_account(standing: Live, asked: str, found: str, said: str) -> None:
    told = standing.explain(asked)
    assert told.job_id == found
    assert said in " ".join(told.sentences)


@pytest.mark.parametrize("asked", ["99", "99_1", "nonsense", "1_x", "%20", "default/none", "8"])
def test_an_unknown_job_is_not_there(standing: Live, asked: str) -> None:
    answer = standing.get(f"/v1/jobs/{asked}/explain")
    assert answer.status_code == 404
    told = problem(answer)
    assert told.remedy
    if asked == "8":
        assert "8_1, 8_2" in told.remedy


def when(live: Live, job_id: str) -> schema.Expectation:
    answer = live.get(f"/v1/jobs/{job_id}/when")
    assert answer.status_code == 200, answer.text
    return schema.Expectation.model_validate_json(answer.content)


def test_when_says_start_and_end_by_playing_the_queue_forward(standing: Live) -> None:
    told = {job_id: when(standing, job_id) for job_id in ("3", "7", "2")}
    starts = [expected.start_p50_s or 0.0 for expected in told.values()]
    assert starts == sorted(starts), "served in the order of the queue"
    for expected in told.values():
        assert NOW_S <= (expected.start_p50_s or 0.0) <= (expected.start_p90_s or 0.0)
        assert (expected.start_p50_s or 0.0) < (expected.end_p50_s or 0.0) <= (expected.end_p90_s or 0.0)
        assert "starts about" in expected.sentence
        assert any("version 7" in each for each in expected.assumptions)
    runs = when(standing, "1")
    assert runs.start_p50_s == NOW_S - 300.0
    assert "runs, and ends about" in runs.sentence
    held = when(standing, "5")
    assert held.start_p50_s is None
    assert "cannot be predicted: it is held" in held.sentence
    assert standing.get("/v1/jobs/99/when").status_code == 404


def test_when_without_a_release_says_why_not(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with live:
        live.see(STATE)
        answer = live.get("/v1/jobs/3/when")
        assert answer.status_code == 503
        assert "release" in problem(answer).detail


def test_an_overdue_job_goes_first_and_says_why(live: Live) -> None:
    late = replace(STATE.by_id["2"], submit_time_s=NOW_S - 4 * 86_400.0)
    live.see(replace(STATE, jobs=(*(job for job in STATE.jobs if job.job_id != "2"), late)))
    told = live.explain("2")
    assert (told.place, told.overdue) == (1, True)
    assert "waited longer than 3 days" in " ".join(told.sentences)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_below_control_it_says_that_the_clusters_order_counts(
    tmp_path: Path, client: ReleaseClient, mode: Mode
) -> None:
    live = Live(tmp_path, client, mode)
    with live:
        live.see(STATE)
        assert live.get("/v1/status").json()["in_charge"] is False
        assert f"mode {mode}" in live.explain("4").note


def test_without_a_release_places_are_not_told_and_health_says_why(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with live:
        live.see(STATE)
        told = live.explain("4")
        assert told.place is None
        assert told.estimate_reason is None
        assert "No release" in told.note
        health = httpx.get(f"{live.url}/healthz", trust_env=False)
        assert health.status_code == 503
        assert "No release" in problem(health).detail
        answer = live.post("/v1/decide", pushed_cluster(STATE).model_dump_json())
        assert answer.status_code == 503
