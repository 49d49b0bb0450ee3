"""Texts beside jobs: what they say, when they change, and how few changes are asked for."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import Refusal
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.forecast.advice import TEXTS_PER_PASS, Advisor, advice, clock_time, still_right
from live_scheduler.forecast.completion_forecast import CompletionForecast, JobForecast, forecast
from live_scheduler.forecast.forecast_inputs import ForecastInputs, RunTime
from live_scheduler.forecast.forecast_process import ForecastProcess
from live_scheduler.forecast.forecaster import ESTIMATED_AT_ONCE, Forecaster
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.live_view import LiveView
from live_scheduler.memory.online_state import OnlineState
from live_scheduler.release import ClientStatus, FallbackRelease
from tests.live_scheduler.live_release import keep_release
from tests.waiting import PATIENCE_S

NOON = 1_900_065_600.0  # 2030-03-18, 12:00 UTC, a Monday
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
ADVISE = LiveSettings("mini", mode=Mode.ADVISE, policy="qssf")
NODE = LiveNode("n1", 4, 0, True, ("vc1",))


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def waits(number, **more):
    return LiveJob(str(number), "vc1", "vc1", 4, NOON - HOUR, **more)


def found(number, start_s=None, end_s=None, *, late=1.0, runs=False, why=""):
    """Times in seconds from noon; P90 is `late` times as far away."""
    values = [
        None if at_s is None else NOON + at_s * factor for at_s in (start_s, end_s) for factor in (1, late)
    ]
    return JobForecast(str(number), *values, runs=runs, why=why)


class Forecasts:
    latest = None

    def say(self, *jobs, at_s=NOON):
        self.latest = CompletionForecast(at_s, "r", 64, {job.job_id: job for job in jobs}, ())


class Shown:
    """A cluster that shows what it is told, as the next reading has it."""

    def __init__(self, *jobs):
        self.jobs = {job.job_id: job for job in jobs}
        self.at_s = NOON
        self.written = 0

    @property
    def state(self):
        return ClusterState(self.at_s, tuple(self.jobs.values()), (NODE,))

    def follow(self, advisor, decision=None):
        """A pass: the texts that were asked for are there afterwards."""
        changes = advisor.changes(decision, self.state)
        for change in changes:
            self.jobs[change.job_id] = replace(self.jobs[change.job_id], advice=change.text)
        self.written += len(changes)
        return {change.job_id: change.text for change in changes}


# -- what it says --------------------------------------------------------------------------------------------


def test_times_are_rounded_up_by_how_far_away_they_are_and_name_the_day_where_it_matters():
    said = {
        after_s: clock_time(NOON + after_s, NOON)
        for after_s in (0, 61, 50 * MINUTE, 2 * HOUR + 1, 11 * HOUR, 13 * HOUR + 1, 3 * DAY, 30 * DAY)
    }
    assert said == {
        0: "12:00",
        61: "12:05",
        50 * MINUTE: "12:50",
        2 * HOUR + 1: "14:15",
        11 * HOUR: "23:00",
        13 * HOUR + 1: "Tue 01:30",
        3 * DAY: "Thu 12:00",
        30 * DAY: "2030-04-17",
    }


def test_a_waiting_job_is_told_when_it_starts_and_ends_and_a_running_one_when_it_ends():
    assert advice(found(1, 10 * MINUTE, 20 * MINUTE, late=2), NOON) == (
        "starts about 12:10 (by 12:20), ends about 12:20"
    )
    assert advice(found(1, 60, 120), NOON) == "starts about 12:05, ends about 12:05"
    running = JobForecast("1", NOON - 50, NOON - 50, NOON + HOUR, NOON + DAY, runs=True)
    assert advice(running, NOON) == "ends about 13:00 (by Tue 12:00)"
    assert advice(found(1, why="it is held"), NOON) == ""


def test_hours_are_those_of_the_place(monkeypatch):
    monkeypatch.setenv("TZ", "XYZ-5:30")
    time.tzset()
    assert clock_time(NOON + 2 * DAY, NOON) == "Wed 18:00"  # 17:30 there, rounded up to a local hour
    assert clock_time(NOON + 61, NOON) == "17:35"


# -- when it changes -----------------------------------------------------------------------------------------


def test_a_text_is_written_once_and_again_only_when_it_has_become_wrong():
    shown, forecasts = Shown(waits(1)), Forecasts()
    advisor = Advisor(ADVISE, forecasts)
    assert shown.follow(advisor) == {}  # nothing is predicted yet
    forecasts.say(found(1, 2 * HOUR, 3 * HOUR))
    assert shown.follow(advisor) == {"1": "starts about 14:00, ends about 15:00"}
    assert shown.follow(advisor) == {}
    forecasts.say(found(1, 2.4 * HOUR, 3.4 * HOUR))
    assert shown.follow(advisor) == {}  # near enough
    forecasts.say(found(1, 4 * HOUR, 5 * HOUR))
    assert shown.follow(advisor) == {"1": "starts about 16:00, ends about 17:00"}


def test_nearer_times_are_told_more_precisely():
    assert still_right([NOON + 5 * HOUR], [NOON + 6 * HOUR], NOON)
    assert not still_right([NOON + 20 * MINUTE], [NOON + 40 * MINUTE], NOON)
    assert not still_right([NOON], [NOON, NOON], NOON)


def test_a_job_that_has_started_is_told_its_end_and_one_that_was_held_nothing():
    shown, forecasts = Shown(waits(1), waits(2)), Forecasts()
    advisor = Advisor(ADVISE, forecasts)
    forecasts.say(found(1, HOUR, 2 * HOUR), found(2, HOUR, 2 * HOUR))
    shown.follow(advisor)
    shown.jobs["1"] = replace(shown.jobs["1"], start_time_s=NOON)
    shown.jobs["2"] = replace(shown.jobs["2"], held=True)
    assert shown.follow(advisor) == {}
    forecasts.say(found(1, 0, HOUR, runs=True), found(2, why="it is held"))
    assert shown.follow(advisor) == {"1": "ends about 13:00", "2": ""}


def test_a_forecast_that_is_behind_the_job_says_nothing_of_it():
    shown, forecasts = Shown(replace(waits(1), start_time_s=NOON), waits(2)), Forecasts()
    forecasts.say(found(1, HOUR, 2 * HOUR))
    assert shown.follow(Advisor(ADVISE, forecasts)) == {}


def test_a_new_daemon_keeps_the_texts_that_are_there():
    shown, forecasts = Shown(waits(1)), Forecasts()
    forecasts.say(found(1, 2 * HOUR, 3 * HOUR))
    shown.follow(Advisor(ADVISE, forecasts))
    assert shown.follow(Advisor(ADVISE, forecasts)) == {}


def test_what_a_rate_limit_put_off_is_asked_for_again_and_what_was_refused_is_not():
    shown, forecasts = Shown(waits(1), waits(2)), Forecasts()
    advisor = Advisor(ADVISE, forecasts)
    forecasts.say(found(1, HOUR, 2 * HOUR), found(2, HOUR, 2 * HOUR))
    asked = advisor.changes(None, shown.state)
    assert [change.job_id for change in asked] == ["1", "2"]
    view = LiveView(NOON, NOON, ADVISE, STATUS, shown.state, refused=(Refusal(asked[0], "no permission"),))
    advisor.passed(view)
    assert [change.job_id for change in advisor.changes(None, shown.state)] == ["2"]
    forecasts.say(found(1, HOUR, 2 * HOUR))
    assert [change.job_id for change in advisor.changes(None, shown.state)] == ["1"]  # once a forecast


def test_a_long_queue_is_told_bit_by_bit_from_the_front():
    count = 2 * TEXTS_PER_PASS + 10
    shown, forecasts = Shown(*(waits(number) for number in range(count))), Forecasts()
    forecasts.say(*(found(number, HOUR, 2 * HOUR) for number in range(count)))
    ranked = tuple(
        QueuePlace(str(number), "vc1", count - number, False, None, None) for number in range(count)
    )
    decision = Decision(NOON, "r", 1, "qssf", ranked, (), {}, 0.0)
    advisor = Advisor(ADVISE, forecasts)
    first = shown.follow(advisor, decision)
    assert list(first) == [str(count - 1 - at) for at in range(TEXTS_PER_PASS)]
    for _ in range(3):
        shown.follow(advisor, decision)
    assert all(job.advice for job in shown.jobs.values())
    assert shown.written == count


def test_below_advise_nothing_is_written_and_only_ordered_partitions_are_told():
    forecasts = Forecasts()
    forecasts.say(found(1, HOUR, 2 * HOUR), found(2, HOUR, 2 * HOUR))
    there = Shown(waits(1), replace(waits(2), partition="vc2", virtual_cluster="vc2"))
    assert there.follow(Advisor(replace(ADVISE, mode=Mode.OBSERVE), forecasts)) == {}
    assert set(there.follow(Advisor(replace(ADVISE, partitions=("vc2",)), forecasts))) == {"2"}


@given(moves=st.lists(st.floats(-0.2, 0.2), max_size=50))
def test_forecasts_that_waver_flood_nobody(moves):
    """Expected times within a fifth of what was said change nothing, however often they are made."""
    shown, forecasts = Shown(waits(1)), Forecasts()
    advisor = Advisor(ADVISE, forecasts)
    forecasts.say(found(1, 10 * HOUR, 20 * HOUR))
    shown.follow(advisor)
    for move in moves:
        forecasts.say(found(1, 10 * HOUR * (1 + move), 20 * HOUR * (1 + move)))
        shown.follow(advisor)
    assert shown.written == 1


# -- the process ---------------------------------------------------------------------------------------------


def test_what_a_job_was_told_stands_first_and_stays_whatever_is_expected_later():
    forecasts, there = Forecasts(), Shown(waits(1), waits(2))
    told = {}
    advisor = Advisor(ADVISE, forecasts, lambda job: told.get(job.job_id))
    assert there.follow(advisor) == {}
    told["1"] = SimpleNamespace(text="told 2030-03-18 12:00:00: ends 2030-03-18 13:00:00")
    assert there.follow(advisor) == {"1": told["1"].text}  # at once, before there is a forecast
    assert there.follow(advisor) == {}
    forecasts.say(found(1, HOUR, 2 * HOUR), found(2, HOUR, 2 * HOUR))
    assert there.follow(advisor) == {
        "1": f"{told['1'].text}; starts about 13:00, ends about 14:00",
        "2": "starts about 13:00, ends about 14:00",
    }
    told["2"] = SimpleNamespace(text="told later")
    assert there.follow(advisor) == {"2": "told later; starts about 13:00, ends about 14:00"}
    forecasts.say(found(1, why="it is held"), found(2, 8 * HOUR, 9 * HOUR))
    assert there.follow(advisor) == {
        "1": told["1"].text,
        "2": "told later; starts about 20:00, ends about 21:00",
    }
    again = Advisor(ADVISE, forecasts, lambda job: told.get(job.job_id))  # after a crash
    assert there.follow(again) == {}


def inputs(jobs=3, **more):
    queue = tuple(waits(number) for number in range(1, jobs + 1))
    state = ClusterState(NOON, queue, (NODE,))
    beliefs = {job.job_id: RunTime(100.0, 900.0) for job in queue}
    return ForecastInputs(state, beliefs, ADVISE, "r", **more)


@pytest.fixture(scope="module")
def process():
    made = ForecastProcess()
    yield made
    made.close()


def gone(pid):
    """Wait until a process has ended, whatever its parent."""
    for _ in range(600):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_another_process_says_what_this_one_would(process):
    asked = inputs()
    assert process.forecast(asked) == forecast(asked)
    assert process.pid not in (None, os.getpid())


@pytest.mark.slow
def test_what_cannot_be_played_is_said_and_the_process_stays(process):
    process.forecast(inputs())
    before = process.pid
    with pytest.raises(ServiceUnavailableError, match="sjf"):
        process.forecast(replace(inputs(), settings=replace(ADVISE, policy="sjf")))
    assert process.forecast(inputs()).samples == 64
    assert process.pid == before


def test_a_process_that_was_killed_is_started_again(process):
    process.forecast(inputs())
    os.kill(process.pid, signal.SIGKILL)
    assert gone(process.pid)
    try:
        found_jobs = process.forecast(inputs()).jobs
    except ServiceUnavailableError:  # its end was noticed by asking
        found_jobs = process.forecast(inputs()).jobs
    assert len(found_jobs) == 3


def test_a_forecast_that_takes_too_long_is_given_up():
    process = ForecastProcess(limit_s=0.001)
    with pytest.raises(ServiceUnavailableError, match=r"0\.001 s"):
        process.forecast(inputs())
    assert process.pid is None
    process.close()


def test_closing_ends_a_forecast_that_is_being_made():
    process = ForecastProcess()
    failed = []

    def ask():
        try:
            process.forecast(replace(inputs(jobs=400), samples=10_000))
        except ServiceUnavailableError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while process.pid is None:
        time.sleep(0.01)
    pid = process.pid
    process.close()
    thread.join(PATIENCE_S)
    assert failed
    assert gone(pid)
    with pytest.raises(ServiceUnavailableError, match="ends"):
        process.forecast(inputs())


ORPHAN = """
import os, sys
sys.path.insert(0, {root!r})
from tests.live_scheduler.test_advice import inputs
from live_scheduler.forecast.forecast_process import ForecastProcess
from live_scheduler.forecast.forecaster import ESTIMATED_AT_ONCE, Forecaster
process = ForecastProcess()
process.forecast(inputs())
print(process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_nothing_outlives_a_parent_that_is_killed(pytestconfig):
    root = str(pytestconfig.rootpath)
    parent = subprocess.run(
        [sys.executable, "-c", ORPHAN.format(root=root)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    assert gone(int(parent.stdout))


# -- the daemon's forecasts ----------------------------------------------------------------------------------


class CountedProcess:
    """A forecast is what was asked for; counts them."""

    def __init__(self):
        self.asked = []

    def forecast(self, asked):
        self.asked.append(asked)
        jobs = {
            job.job_id: found(job.job_id, HOUR, 2 * HOUR, runs=not job.waiting) for job in asked.cluster.jobs
        }
        return CompletionForecast(asked.cluster.at_s, asked.release, 64, jobs, ())


class OneDaemon:
    """What a forecaster reads of a daemon."""

    def __init__(self, settings, release, online):
        self.settings, self.online, self.maker = settings, online, None
        self.lock = threading.RLock()
        self.releases = type("Releases", (), {"current": release})()


STATUS = ClientStatus("champion", "following", "r", 1, None, None, None, None, None, None)


@pytest.fixture
def forecaster(small_model_files, tmp_path):
    release = keep_release(tmp_path, small_model_files)
    online = OnlineState(release.scorers.duration)
    return Forecaster(OneDaemon(ADVISE, release, online), CountedProcess())


def view_of(*jobs, at_s=NOON, settings=ADVISE):
    return LiveView(at_s, NOON, settings, STATUS, ClusterState(at_s, jobs, (NODE,)))


def test_a_forecast_is_made_of_what_the_release_believes_of_every_job(forecaster):
    jobs = [waits(number, user=f"u{number % 3}") for number in range(ESTIMATED_AT_ONCE + 5)]
    made = forecaster.inputs(view_of(*jobs))
    assert set(made.run_times) == {job.job_id for job in jobs}
    online = forecaster.daemon.online
    p50_s, p90_s = online.quantiles([jobs[-1].facts()], NOON)
    assert made.run_times[jobs[-1].job_id] == RunTime(float(p50_s[0]), float(p90_s[0]))
    assert "version 7" in made.release


def test_who_asks_again_is_told_the_same_until_it_is_old_or_the_job_has_changed(forecaster):
    first = forecaster.fresh(view_of(waits(1)), "1")
    assert forecaster.fresh(view_of(waits(1), at_s=NOON + 60), "1") is first
    assert len(forecaster.process.asked) == 1
    started = replace(waits(1), start_time_s=NOON + 60)
    assert forecaster.fresh(view_of(started, at_s=NOON + 61), "1").of("1").runs
    assert forecaster.fresh(view_of(started, waits(2), at_s=NOON + 62), "2").of("2")
    forecaster.fresh(view_of(started, waits(2), at_s=NOON + 600), "2")
    assert len(forecaster.process.asked) == 4


def test_without_a_release_or_a_cluster_it_says_why(forecaster):
    with pytest.raises(ServiceUnavailableError, match="first pass"):
        forecaster.make(LiveView(NOON, NOON, ADVISE, STATUS))
    forecaster.daemon.releases.current = FallbackRelease("MLflow is away.")
    with pytest.raises(ServiceUnavailableError, match="MLflow is away"):
        forecaster.make(view_of(waits(1)))
    assert forecaster.latest is None


def test_forecasts_are_made_now_and_then_until_the_end(forecaster):
    daemon, stop = forecaster.daemon, threading.Event()
    daemon.settings = replace(ADVISE, advise_interval_s=0.01)
    daemon.view = LiveView(NOON, NOON, ADVISE, STATUS)  # no cluster yet: it goes on trying
    runner = threading.Thread(target=forecaster.run, args=(stop,))
    runner.start()
    daemon.view = view_of(waits(1))
    for _ in range(1_000):
        if len(forecaster.process.asked) >= 3:
            break
        time.sleep(0.01)
    stop.set()
    runner.join(PATIENCE_S)
    assert not runner.is_alive()
    assert len(forecaster.process.asked) >= 3
