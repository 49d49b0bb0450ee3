"""Who says when a job starts, the wait model or playing forward, by how far each was off; limit advice."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.live_settings import Mode
from live_scheduler.service import schema
from parts.waits.tests.queue_logs import save_wait_model
from tests.live_scheduler.live_answers import NOW_S, STATE, Live, job
from tests.live_scheduler.live_release import AWAY, keep_release

SETTINGS = {"least_jobs": 3, "recent_jobs": 50}
HOUR_S = 3_600.0


@pytest.fixture(scope="module")
def waits_client(
    tmp_path_factory: pytest.TempPathFactory, small_model_files: dict[str, list[Path]]
) -> Iterator[ReleaseClient]:
    folder = tmp_path_factory.mktemp("releases")
    keep_release(folder, {**small_model_files, "waits": [save_wait_model(folder)]}, waits=SETTINGS)
    client = ReleaseClient(AWAY, "champion", folder, cluster="small")
    yield client
    client.close()


def when(live: Live, job_id: str) -> schema.Expectation:
    answer = live.get(f"/v1/jobs/{job_id}/when")
    assert answer.status_code == 200, answer.text
    return schema.Expectation.model_validate_json(answer.content)


def seen_at(jobs: tuple[LiveJob, ...], at_s: float) -> ClusterState:
    return replace(STATE, jobs=jobs, at_s=at_s)


def judge_some(live: Live, late_by_s: float) -> None:
    """Have both speak of three jobs, and let these start so long after the wait model says."""
    live.see(STATE)
    live.predictor.make(live.daemon.view)
    told = {job_id: live.predictor.other_starts.of(live.daemon.view)[job_id] for job_id in ("2", "3", "4")}
    begun = tuple(
        replace(one, start_time_s=NOW_S + told[one.job_id].p50_s + late_by_s) if one.job_id in told else one
        for one in STATE.jobs
    )
    live.see(seen_at(begun, max(one.start_time_s or 0.0 for one in begun) + 1.0))


def test_before_enough_jobs_the_play_speaks_where_the_policy_is_ours(
    tmp_path: Path, waits_client: ReleaseClient
) -> None:
    with Live(tmp_path, waits_client) as live:
        live.see(STATE)
        told = when(live, "2")
        assert told.said_by == "play_forward"
        assert told.start_p50_s == told.played_start_p50_s
        assert told.learned_start_p50_s is not None
        assert NOW_S <= told.learned_start_p50_s <= (told.learned_start_p90_s or 0.0)
        assert "its policy is known" in told.remarks[0]
        assert "(0 so far)" in told.remarks[0]


def test_before_enough_jobs_the_wait_model_speaks_where_a_sites_policy_counts(
    tmp_path: Path, waits_client: ReleaseClient
) -> None:
    with Live(tmp_path, waits_client, Mode.OBSERVE) as live:
        live.see(STATE)
        told = when(live, "2")
        assert told.said_by == "wait_model"
        assert (told.start_p50_s, told.start_p90_s) == (told.learned_start_p50_s, told.learned_start_p90_s)
        assert (told.start_p50_s or 0.0) < (told.end_p50_s or 0.0) <= (told.end_p90_s or 0.0)
        assert "as nine in ten such jobs do" in told.sentence
        assert any("not from a policy" in each for each in told.assumptions)
        for other in ("1", "5", "6"):  # who runs, is held or waits for another is not asked about
            assert when(live, other).said_by == ""


def test_the_one_that_was_off_by_less_speaks_and_says_on_how_many_jobs(
    tmp_path: Path, waits_client: ReleaseClient
) -> None:
    with Live(tmp_path, waits_client) as live:
        judge_some(live, late_by_s=0.0)
        told = when(live, "7")
        assert told.said_by == "wait_model"
        assert "of the last 3 jobs that started" in told.said_by_why
        assert "off by a factor of 1 on average" in told.said_by_why
    again = Live(tmp_path, waits_client)  # a daemon that was started anew knows it from its files
    with again:
        assert again.predictor.other_starts.start_errors.means(
            "lucid", 50
        ) == live.predictor.other_starts.start_errors.means("lucid", 50)


def test_what_was_judged_under_another_order_does_not_count(
    tmp_path: Path, waits_client: ReleaseClient
) -> None:
    with Live(tmp_path, waits_client, Mode.OBSERVE) as live:
        judge_some(live, late_by_s=0.0)
        assert live.predictor.other_starts.start_errors.means("cluster", 50).jobs == 3
        assert live.predictor.other_starts.start_errors.means("lucid", 50).jobs == 0


def test_a_user_reads_who_spoke_and_why(lucid: Any, tmp_path: Path, waits_client: ReleaseClient) -> None:
    with Live(tmp_path / ".lucid" / "live" / "small", waits_client, Mode.OBSERVE) as live:
        live.see(STATE)
        said = lucid("live", "when", "2")
        assert said.code == 0, said.err
        words = " ".join(said.out.split())
        assert "half of such jobs by" in words
        assert "Said by the learned wait model, since the cluster's own policy is not known" in words
        document = lucid("live", "when", "2", "--json").json
        assert document["said_by"] == "wait_model"
        assert document["start_p50_s"] == document["learned_start_p50_s"]


def test_without_a_wait_model_nobody_is_named(standing: Live) -> None:
    told = when(standing, "3")
    assert (told.said_by, told.learned_start_p50_s) == ("", None)


def test_a_user_is_told_which_limit_would_do_and_the_risk_of_the_one_asked_for(live: Live) -> None:
    asks = job("9", "u9", 1, time_limit_s=24 * HOUR_S)
    live.see(seen_at((*STATE.jobs, asks), NOW_S))
    assert "too few jobs like it have ended" in when(live, "9").limit_advice
    past = [
        EndedJob(
            replace(asks, job_id=f"p{number}", submit_time_s=NOW_S - (230 - number) * HOUR_S),
            "COMPLETED",
            NOW_S - (230 - number) * HOUR_S,
            NOW_S - (230 - number) * HOUR_S + 1_800.0 + number,
            1_800.0 + number,
        )
        for number in range(210)
    ]
    live.daemon.learn(past)
    told = when(live, "9")
    assert told.advised_limit_s == 0.75 * HOUR_S
    assert "45 min would do for 99 in 100" in told.limit_advice
    assert told.limit_risk is not None
    assert told.limit_risk < 0.05
    assert told.limit_advice in told.remarks
    live.daemon.learn(past)  # heard of twice, it counts once
    assert when(live, "9").limit_risk == told.limit_risk
    assert when(live, "3").limit_advice == ""  # it asks for no limit
