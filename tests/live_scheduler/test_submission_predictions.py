"""What jobs are told at their submission: once, in order, for good; and how well such words held."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import ServiceUnavailableError
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode
from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.deciding.decision import Decision
from live_scheduler.deciding.live_policies import live_policy, live_policy_names
from live_scheduler.forecast.completion_forecast import (
    CompletionForecast,
    JobForecast,
    Prediction,
    forecast,
    predict,
)
from live_scheduler.forecast.forecast_inputs import ForecastInputs, RunTime
from live_scheduler.forecast.forecast_process import ForecastProcess
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    JudgedPrediction,
    SubmissionPrediction,
    SubmissionPredictions,
    judged_predictions,
    read_submission_predictions,
    summarise_errors,
)
from live_scheduler.forecast.submission_predictor import AGAIN_S, SubmissionPredictor
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import JobEvent, JobEventKind, Journal
from live_scheduler.release import ClientStatus
from live_scheduler.service.expectation import ExpectedTimes
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

NOW = 1_700_000_000.0
NODE = LiveNode("n1", 4, 0, True, ("vc1",))
CONTROL = LiveSettings("mini", mode=Mode.CONTROL, policy="qssf")
STATUS = ClientStatus("champion", "following", "r", 3, None, None, None, None, None, None)
POLICIES = [name for name in live_policy_names() if name in ("fifo", "qssf", "lucid", "pcs")]


def waits(number, gpus=4, ago_s=100.0, **more):
    return LiveJob(str(number), "vc1", "vc1", gpus, NOW - ago_s, **more)


def inputs(jobs, run_times, setting=CONTROL, nodes=(NODE,), **more):
    beliefs = {str(job): RunTime(time, time) for job, time in run_times.items()}
    return ForecastInputs(ClusterState(NOW, tuple(jobs), nodes), beliefs, setting, "release 3", **more)


# -- what is predicted ---------------------------------------------------------------------------------------


def test_each_new_job_is_told_what_it_would_be_told_if_nobody_came_after_it():
    queue = [waits(1, ago_s=9), waits(2, ago_s=3), waits(3, ago_s=2), waits(4, ago_s=1)]
    asked = inputs(queue, {1: 100.0, 2: 50.0, 3: 500.0, 4: 10.0})
    found = predict(asked, ["4", "2", "3"])
    # The shortest goes first: later ones that overtake are not foreseen.
    assert [(job, each.start_s - NOW, each.end_s - NOW) for job, each in found.items()] == [
        ("2", 0.0, 50.0),
        ("3", 150.0, 650.0),
        ("4", 0.0, 10.0),
    ]
    assert all(each.end_p90_s >= each.end_s for each in found.values())
    assert found["3"].end_p90_s - NOW == 660.0  # there all of them are
    everybody = forecast(asked)
    assert everybody.of("2").predicted_end_s - NOW == 60.0
    assert everybody.of("1").predicted_start_s - NOW == 60.0


def test_who_cannot_be_predicted_is_told_nothing():
    queue = [waits(1), waits(2, held=True), waits(3, gpus=9), waits(4, waits_for="another")]
    assert set(predict(inputs(queue, dict.fromkeys(range(1, 5), 10.0)), ["1", "2", "3", "4", "9"])) == {"1"}
    assert predict(inputs(queue, {}), ["1"]) == {}
    assert predict(inputs([], {}), ["1"]) == {}


def test_what_runs_is_told_its_median_end_and_holds_its_gpus():
    runs = waits(1, ago_s=60, start_time_s=NOW - 60, gpus_on=(("n1", 4),))
    asked = inputs([runs, waits(2)], {1: 200.0, 2: 30.0}, nodes=(replace(NODE, gpus_used=4),))
    found = predict(asked, ["1", "2"])
    assert found["1"].start_s == NOW - 60
    assert found["1"].end_s - NOW == 140
    assert (found["2"].start_s - NOW, found["2"].end_s - NOW) == (140, 170)


def test_a_burst_is_told_in_a_bounded_number_of_plays_and_all_of_it(monkeypatch):
    monkeypatch.setattr("live_scheduler.forecast.completion_forecast.MOST_PREDICTED", 100)
    queue = [waits(number, gpus=1, ago_s=100 - number) for number in range(1, 31)]
    found = predict(inputs(queue, dict.fromkeys(range(1, 31), 10.0)), [job.job_id for job in queue])
    assert list(found) == [job.job_id for job in queue]
    assert found["30"].end_s - NOW == 80.0


stream = st.lists(
    st.tuples(st.sampled_from([1, 1, 2, 3, 4]), st.integers(0, 60), st.integers(1, 80)),
    min_size=1,
    max_size=9,
)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15, deadline=None)
@given(rows=stream, new=st.integers(0, 9))
def test_it_is_the_end_that_the_simulator_plays_under_the_live_policy(policy, rows, new):
    """With sure estimates and no jobs to come: the end of a naive run without later jobs."""
    setting = replace(CONTROL, policy=policy)
    rows = sorted(rows, key=lambda row: -row[1])
    queue = [waits(number, gpus, ago) for number, (gpus, ago, _) in enumerate(rows)]
    told = [str(number) for number in range(len(rows))][-new:] if new else []
    found = predict(inputs(queue, {n: float(row[2]) for n, row in enumerate(rows)}, setting), told)
    assert list(found) == told
    for job_id in told:
        there = rows[: int(job_id) + 1]
        jobs = [
            Job(str(n), "vc1", None, gpus, 0.0, float(s), float(s), n) for n, (gpus, _, s) in enumerate(there)
        ]
        naive = Simulation(
            Scenario(Workload(tuple(jobs), {}), ClusterSpec({"vc1": 1}, 4)), live_policy(setting)
        )
        naive.run()
        end_s = next(view.end_time_s for view in naive.jobs if view.job.job_id == job_id)
        assert found[job_id].end_s - NOW == pytest.approx(end_s, abs=1e-6)


def test_another_process_predicts_what_this_one_would():
    process = ForecastProcess()
    asked = inputs([waits(1), waits(2, time_limit_s=5.0)], {1: 100.0, 2: 50.0})
    try:
        assert process.predict(asked, ["2", "1"]) == predict(asked, ["2", "1"])
        assert process.forecast(asked) == forecast(asked)
    finally:
        process.close()


# -- the book ------------------------------------------------------------------------------------------------


def prediction(number=1, end_s=100.0, **more):
    told = SubmissionPrediction(
        str(number), NOW, NOW, NOW, NOW + end_s, NOW + 2 * end_s, "vc1", 4, "r", 3, "pcs", "control", "t"
    )
    return replace(told, **more)


def test_a_prediction_outlives_the_process_and_a_line_that_was_cut_off(tmp_path):
    book = SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE)
    book.add([prediction(1), prediction(2)])
    with (tmp_path / SUBMISSION_PREDICTIONS_FILE).open("a") as file:
        file.write('{"job_id": "3", "submit_time_s": 17')
    again = SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE)
    assert again.of(waits(1, ago_s=0)) == prediction(1)
    assert again.of(waits(3, ago_s=0)) is None
    again.add([prediction(3)])
    assert [each.job_id for each in read_submission_predictions(tmp_path / SUBMISSION_PREDICTIONS_FILE)] == [
        "1",
        "2",
        "3",
    ]


def test_an_id_that_comes_again_is_another_job_but_a_requeued_one_keeps_its_word(tmp_path):
    book = SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE)
    book.add([prediction(1)])
    assert book.of(waits(1, ago_s=-50)) is None
    assert book.of(waits(1, ago_s=-50, restarts=1)) == prediction(1)
    assert book.settle(waits(1, ago_s=0)) == prediction(1)
    assert book.of(waits(1, ago_s=0)) is None


def test_a_book_that_has_grown_large_keeps_what_living_jobs_were_told(tmp_path):
    book = SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE, rotate_bytes=1_000)
    book.add([prediction(1)])
    for number in range(2, 40):
        book.add([prediction(number)])
        book.settle(waits(number, ago_s=0))
    again = SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE)
    assert again.of(waits(1, ago_s=0)) == prediction(1)
    assert (tmp_path / SUBMISSION_PREDICTIONS_FILE).stat().st_size < 1_600


def test_a_disk_that_is_full_makes_no_prediction(tmp_path, monkeypatch):
    book = SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("live_scheduler.memory.records.append_lines", full)
    with pytest.raises(OSError, match="No space"):
        book.add([prediction(1)])
    assert book.of(waits(1, ago_s=0)) is None


# -- who makes them ------------------------------------------------------------------------------------------


class Predictor:
    """Every new job ends `after_s` from now; remembers which jobs were asked about."""

    def __init__(self, folder, after_s=100.0):
        self.daemon = SimpleNamespace(state_dir=folder, view=view(), lock=threading.RLock())
        self.after_s, self.asked, self.away, self.unknown = after_s, [], False, set()

    def predict(self, seen, new):
        if self.away:
            raise ServiceUnavailableError("away")
        self.asked.append(list(new))
        end_s = seen.at_s + self.after_s
        return {
            job: Prediction(job, seen.at_s, end_s, end_s + 50.0) for job in new if job not in self.unknown
        }

    def fresh(self, seen, job_id):
        jobs = {
            job: JobForecast(job, NOW, NOW, NOW + 9, NOW + 9, predicted_end_s=NOW + 130.0) for job in [job_id]
        }
        return CompletionForecast(seen.at_s, "r", 64, jobs, ())


def view(*jobs, at_s=NOW, ended=(), alone=(), mode=Mode.CONTROL):
    cluster = ClusterState(at_s, jobs, (NODE,))
    decision = Decision(at_s, "release 3", 3, "pcs", (), (), dict.fromkeys(alone, "it is held"), 0.0)
    chosen = replace(CONTROL, policy="pcs", mode=mode)
    return LiveView(at_s, NOW, chosen, STATUS, cluster, decision, ended=tuple(ended))


def one_pass(submission_predictor, seen):
    submission_predictor.passed(seen)
    return [each.job_id for each in submission_predictor.make(seen)]


def test_a_job_is_told_at_the_first_pass_that_sees_it_and_never_again(tmp_path):
    source = Predictor(tmp_path)
    submission_predictor = SubmissionPredictor(source)
    assert one_pass(submission_predictor, view(waits(1, ago_s=1))) == ["1"]
    first = submission_predictor.predictions.of(waits(1, ago_s=1))
    assert (first.end_s, first.at_s, first.policy, first.version) == (NOW + 100, NOW, "pcs", 3)
    assert first.text.startswith("told 20")
    source.after_s = 900.0
    assert one_pass(submission_predictor, view(waits(1, ago_s=1), waits(2, ago_s=0), at_s=NOW + 2)) == ["2"]
    assert source.asked == [["1"], ["2"]]
    again = SubmissionPredictor(source)  # after a crash
    assert one_pass(again, view(waits(1, ago_s=1), at_s=NOW + 4)) == []
    assert again.predictions.of(waits(1, ago_s=1)) == first
    assert submission_predictor.predictions.of(waits(2, ago_s=0)).end_s == NOW + 902


def test_the_clusters_own_order_is_said_to_be_that(tmp_path):
    submission_predictor = SubmissionPredictor(Predictor(tmp_path))
    one_pass(submission_predictor, view(waits(1), mode=Mode.ADVISE))
    told = submission_predictor.predictions.of(waits(1))
    assert (told.policy, told.mode) == ("cluster", "advise")


def test_who_is_left_alone_is_told_when_it_is_released_and_that_counts_as_late(tmp_path):
    source = Predictor(tmp_path)
    submission_predictor = SubmissionPredictor(source)
    assert one_pass(submission_predictor, view(waits(1, held=True), alone=["1"])) == []
    assert source.asked == []
    assert one_pass(submission_predictor, view(waits(1))) == ["1"]
    assert submission_predictor.predictions.of(waits(1)).late


def test_who_could_not_be_predicted_is_not_asked_about_at_every_pass(tmp_path):
    source = Predictor(tmp_path)
    source.unknown = {"1"}
    submission_predictor = SubmissionPredictor(source)
    job = waits(1, gpus=9)
    assert one_pass(submission_predictor, view(job)) == []
    assert one_pass(submission_predictor, view(job, at_s=NOW + 2)) == []
    assert len(source.asked) == 1
    one_pass(submission_predictor, view(replace(job, gpus=2), at_s=NOW + 4))  # its user has changed it
    one_pass(submission_predictor, view(replace(job, gpus=2), at_s=NOW + 5 + AGAIN_S))
    assert len(source.asked) == 3


def test_a_thread_makes_them_and_tries_again_when_nothing_could_be_predicted(tmp_path):
    source = Predictor(tmp_path)
    source.away = True
    submission_predictor = SubmissionPredictor(source)
    stop = threading.Event()
    submission_predictor.start(stop)
    job, made = waits(1), threading.Event()
    add = submission_predictor.predictions.add
    submission_predictor.predictions.add = lambda predictions: (add(predictions), made.set())
    submission_predictor.passed(view(job))
    source.away = False
    for _ in range(200):
        submission_predictor.passed(view(job))
        if made.wait(0.05):
            break
    stop.set()
    assert submission_predictor.predictions.of(job) is not None


def ended(job, end_s, duration_s=50.0):
    return EndedJob(job, "COMPLETED", NOW, NOW + end_s, duration_s)


def test_how_words_held_is_known_at_once_and_after_a_restart(tmp_path):
    source = Predictor(tmp_path)
    submission_predictor = SubmissionPredictor(source)
    jobs = [waits(number, ago_s=0) for number in range(1, 5)]
    late = waits(5, ago_s=500)
    one_pass(submission_predictor, view(*jobs, late))
    ends = [ended(jobs[0], 100), ended(jobs[1], 80), ended(jobs[2], 140), ended(late, 100)]
    withdrawn = EndedJob(jobs[3], "CANCELLED", None, NOW + 9, None)
    events = [
        JobEvent(each.end_time_s, JobEventKind.ENDED, each.job.job_id, each.job.facts(), each.duration_s)
        for each in ends
    ]
    Journal(tmp_path / JOURNAL_FILE).append(events)
    submission_predictor.passed(view(at_s=NOW + 200, ended=[*ends, withdrawn]))
    found = summarise_errors(submission_predictor.recent)
    assert (found.jobs, found.late) == (3, 1)
    assert found.mean_pct == pytest.approx(20.0)  # 0, 20 and 40 % of 100 s
    assert found.median_pct == pytest.approx(20.0)
    assert found.p99_pct == pytest.approx(39.6)
    assert (found.by_promise, found.by_p90) == (pytest.approx(2 / 3), 1.0)
    assert sorted(each.error_pct for each in SubmissionPredictor(source).recent) == sorted(
        each.error_pct for each in submission_predictor.recent
    )
    told = ExpectedTimes(source, submission_predictor)(view(waits(6)), "6")
    assert told.told_end_s is None
    assert told.held.jobs == 3
    one_pass(submission_predictor, view(waits(6)))
    told = ExpectedTimes(source, submission_predictor)(view(waits(6)), "6")
    assert (told.told_end_s, told.predicted_end_s) == (NOW + 100, NOW + 130)
    assert any("now 30 s later" in said for said in told.remarks)
    assert any("within 20.0 %" in said for said in told.remarks)


def test_a_prediction_counts_for_the_life_that_it_was_made_to(tmp_path):
    """Ids come again; a requeued job ends with its last run; the window takes ends only."""
    first, second = prediction(1), prediction(1, submit_time_s=NOW + 500, at_s=NOW + 500, end_s=700.0)
    SubmissionPredictions(tmp_path / SUBMISSION_PREDICTIONS_FILE).add([first, second])

    def event(at_s, happening, number=1):
        return JobEvent(
            NOW + at_s, happening, str(number), {}, 5.0 if happening is JobEventKind.ENDED else None
        )

    events = [
        event(50, JobEventKind.REQUEUED),
        event(120, JobEventKind.ENDED),
        event(650, JobEventKind.ENDED),
    ]
    events.append(event(700, JobEventKind.ENDED, 2))
    found = judged_predictions(tmp_path / SUBMISSION_PREDICTIONS_FILE, events)
    assert found == [JudgedPrediction(first, NOW + 120), JudgedPrediction(second, NOW + 650)]
    assert judged_predictions(tmp_path / SUBMISSION_PREDICTIONS_FILE, events, NOW + 600) == found[1:]
