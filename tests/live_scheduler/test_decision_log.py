"""The decision log, and what follows from it: estimates at submission, agreement."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.cluster_state import ClusterState, LiveJob
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.hindsight.decision_log import (
    DECISIONS_FILE,
    DecisionLog,
    estimates_at_submission,
    read_lines,
)
from live_scheduler.hindsight.regret_job import start_agreement
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.memory.records import older_file
from live_scheduler.release import ClientStatus
from live_scheduler.service.job_account import first_sight_in_words

STATUS = ClientStatus("champion", "following", "release 3", 3, "approved", None, None, None, None, None)


def job(job_id: str, **changes: Any) -> LiveJob:
    facts = {"partition": "vc1", "virtual_cluster": "vc1", "gpus": 2, "submit_time_s": 100.0, "user": "ann"}
    return LiveJob(job_id, **{**facts, **changes})


def view(
    at_s: float, jobs: list[LiveJob], starts_now: tuple[str, ...] = (), decides: bool = True
) -> LiveView:
    waiting = [one for one in jobs if one.waiting]
    ranked = tuple(
        QueuePlace(one.job_id, "vc1", place, one.job_id in starts_now, 60.0 * one.gpus, (float(place),))
        for place, one in enumerate(waiting, start=1)
    )
    decision = Decision(at_s, "release 3", 3, "lucid", ranked, (), {}, 0.001)
    settings = LiveSettings("mini")
    cluster = ClusterState(at_s, tuple(jobs), ())
    return LiveView(at_s, 0.0, settings, STATUS, cluster, decision if decides else None)


def test_a_job_is_told_of_when_it_is_first_ranked_chosen_and_started(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    log.passed(view(110.0, [job("1"), job("2")], ("1",)))
    log.passed(view(112.0, [job("1"), job("2")], ("1",)))  # nothing new
    log.passed(view(114.0, [job("1", start_time_s=113.0), job("2"), job("3", submit_time_s=113.0)], ("2",)))
    first, second = read_lines(path)
    assert [seen.job_id for seen in first.new] == ["1", "2"]
    assert (first.chosen, first.started, first.queued) == (("1",), (), 2)
    assert ([seen.job_id for seen in second.new], second.chosen, second.started) == (["3"], ("2",), ("1",))
    seen = estimates_at_submission(path)["2", 100.0]
    assert (seen.estimated_duration_s, seen.place, seen.at_s, seen.release_version) == (120.0, 2, 110.0, 3)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_restart_and_a_torn_line_lose_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    DecisionLog(path).passed(view(110.0, [job("1")]))
    whole = path.read_text()
    path.write_text(whole + '{"at_s": 111.0, "rele')
    again = DecisionLog(path)
    again.passed(view(112.0, [job("1"), job("2")]))
    lines = list(read_lines(path))
    assert [[seen.job_id for seen in line.new] for line in lines] == [["1"], ["2"]]
    path.write_bytes(b"\xff\xfe nonsense\n" + b'{"at_s": NaN}\n[]\n' + path.read_bytes())
    assert list(read_lines(path)) == lines


def test_another_submission_of_an_id_is_another_job(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    log.passed(view(110.0, [job("1")]))
    log.passed(view(111.0, [job("1", start_time_s=110.5)]))
    log.passed(view(120.0, [job("1", submit_time_s=119.0)]))  # requeued
    log.passed(view(130.0, [job("1", submit_time_s=119.0, start_time_s=129.0)]))
    assert set(estimates_at_submission(path)) == {("1", 100.0), ("1", 119.0)}
    assert [line.started for line in read_lines(path)] == [(), ("1",), (), ("1",)]


def test_tasks_of_an_array_are_believed_to_be_like_the_array(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    log.passed(view(110.0, [job("7", tasks=3, name="sweep")], ("7",)))
    task = job("8", name="sweep", start_time_s=111.0)
    log.passed(view(112.0, [job("7", tasks=2, name="sweep"), task, job("9", name="x", start_time_s=111.0)]))
    seen = estimates_at_submission(path)
    assert seen["8", 100.0].estimated_duration_s == seen["7", 100.0].estimated_duration_s
    assert ("9", 100.0) not in seen, "it had no rank yet"
    found = start_agreement(path)
    assert (found.started, found.agreed) == (1, 1)


def test_a_standing_queue_of_thousands_writes_nothing_again(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    jobs = [job(str(number)) for number in range(2_000)]
    log.passed(view(110.0, jobs, ("0",)))
    size = path.stat().st_size
    for second in range(50):
        log.passed(view(112.0 + second, jobs, ("0",)))
    assert path.stat().st_size == size
    assert len(path.read_text().splitlines()) == 1


def test_a_large_log_begins_anew_and_both_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path, rotate_bytes=2_000)
    for number in range(40):
        log.passed(view(110.0 + number, [job(str(number))]))
    assert older_file(path).exists()
    assert path.stat().st_size <= 2_200
    told = [seen.job_id for line in read_lines(path) for seen in line.new]
    assert told == [str(number) for number in range(40 - len(told), 40)]
    assert list(DecisionLog(path)._told) == told


def test_without_a_decision_starts_are_told_of_and_nothing_is_believed(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    log.passed(view(109.0, [job("1")], decides=False))
    assert not path.exists()
    log.passed(view(110.0, [job("1")], ("1",)))
    log.passed(view(111.0, [job("1", start_time_s=110.0)], decides=False))
    log.passed(replace(view(112.0, []), cluster=None))
    last = list(read_lines(path))[-1]
    assert (last.started, last.release) == (("1",), "")


def test_agreement_counts_what_the_policy_would_have_started_by_then(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    a, b, c = job("a"), job("b"), job("c")
    log.passed(view(110.0, [a, b, c], ("b",)))
    log.passed(view(120.0, [replace(a, start_time_s=119.0), b, c], ("b", "c")))
    log.passed(view(150.0, [replace(a, start_time_s=119.0), replace(b, start_time_s=149.0), c], ("c",)))
    found = start_agreement(path)
    assert (found.started, found.agreed, found.share, found.passed_over) == (2, 1, 0.5, 1)
    assert found.mean_lead_s == pytest.approx(40.0)
    assert start_agreement(path, since_s=130.0).started == 1
    assert start_agreement(tmp_path / "none").share is None


def test_every_line_is_json_of_plain_numbers(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    DecisionLog(path).passed(view(110.0, [job("1")]))
    fields = json.loads(path.read_text())
    assert fields["new"] == [["1", 100.0, "vc1", 2, 120.0, "vc1", 1]]
    assert (fields["mode"], fields["policy"], fields["version"]) == ("observe", "lucid", 3)


def test_what_was_believed_first_is_remembered_while_a_job_is_there(tmp_path: Path) -> None:
    path = tmp_path / DECISIONS_FILE
    log = DecisionLog(path)
    log.passed(view(110.0, [job("1"), job("2")]))
    seen = log.first_sight("2")
    assert seen is not None
    assert seen == estimates_at_submission(path)["2", 100.0]
    assert DecisionLog(path).first_sight("2") == seen
    assert first_sight_in_words(seen) == (
        "First ranked at 1970-01-01 00:01:50 UTC, at place 2 in vc1, with an estimate of 2 min, by release 3."
    )
    log.passed(view(120.0, [job("1")]))
    assert log.first_sight("2") is None
