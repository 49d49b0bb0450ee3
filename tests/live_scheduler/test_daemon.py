"""The daemon over a small cluster that serves the highest priority first, with real releases."""

import threading
from dataclasses import replace

import pytest

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import PriorityRange, Refusal, SetPriority
from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob, LiveNode
from live_scheduler.daemon import Daemon
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.memory.journal import Journal
from live_scheduler.release import ClientStatus, FallbackRelease
from live_scheduler.safety.heartbeat import Moment
from live_scheduler.safety.safety_net import SafetyNet
from live_scheduler.safety.touched import Touch, TouchedJobs, Way
from tests.live_scheduler.live_release import keep_release
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

EPOCH_S = 1_900_000_000.0
USERS = [f"u{number}" for number in range(6)]


class SmallCluster:
    """One partition of one node: jobs start by priority, and none passes one that waits."""

    name = "small"
    priorities = PriorityRange(1_000, 1_000_000)

    def __init__(self, gpus=4):
        self.gpus = gpus
        self.now_s = EPOCH_S
        self.jobs = {}
        self.durations_s = {}
        self.ends = {}
        self.asked = []
        self.down = self.accounting_down = False
        self.stuck = set()  # jobs that it refuses to change

    def submit(self, job_id, user="u0", gpus=1, duration_s=100.0, **facts):
        self.jobs[job_id] = LiveJob(
            job_id, "vc0", "vc0", gpus, self.now_s, user=user, name=f"train_{user}", priority=1, **facts
        )
        self.durations_s[job_id] = duration_s

    def used(self):
        return sum(job.gpus for job in self.jobs.values() if not job.waiting)

    def step(self, seconds=1.0):
        """Let time pass: jobs end, and the front of the queue starts."""
        self.now_s += seconds
        for job in [job for job in self.jobs.values() if not job.waiting]:
            if self.now_s - job.start_time_s >= self.durations_s[job.job_id]:
                del self.jobs[job.job_id]
                self.ends[job.job_id] = EndedJob(
                    job, "COMPLETED", job.start_time_s, self.now_s, self.now_s - job.start_time_s
                )
        for job in sorted(self.jobs.values(), key=lambda job: (-job.priority, job.submit_time_s)):
            if not job.waiting or job.held:
                continue
            if job.gpus > self.gpus - self.used():
                break
            self.jobs[job.job_id] = replace(
                job, start_time_s=self.now_s, gpus_on=(("n1", job.gpus),), priority=job.priority
            )

    def read(self):
        if self.down:
            raise ServiceUnavailableError("The cluster does not answer.")
        node = LiveNode("n1", self.gpus, self.used(), True, ("vc0",))
        return ClusterState(self.now_s, tuple(self.jobs.values()), (node,))

    def ended(self, job_ids, since_s):
        if self.accounting_down:
            raise ServiceUnavailableError("Accounting does not answer.")
        return [self.ends[job_id] for job_id in job_ids if job_id in self.ends]

    def ended_since(self, since_s):
        if self.accounting_down:
            raise ServiceUnavailableError("Accounting does not answer.")
        return sorted(
            (end for end in self.ends.values() if end.end_time_s >= since_s), key=lambda end: end.end_time_s
        )

    def apply(self, changes):
        refused = []
        for change in changes:
            job = self.jobs.get(change.job_id)
            self.asked.append(change)
            if job is None or not job.waiting or not isinstance(change, SetPriority):
                refused.append(Refusal(change, "no such job waits"))
            elif job.job_id in self.stuck:
                refused.append(Refusal(change, "not now"))
            else:
                self.jobs[job.job_id] = replace(job, priority=change.priority)
        return refused


@pytest.fixture
def cluster():
    return SmallCluster()


@pytest.fixture(scope="module")
def releases(small_model_files, tmp_path_factory):
    """Two releases as a client holds them."""
    return [
        keep_release(
            tmp_path_factory.mktemp("releases"),
            {kind: [files[number]] for kind, files in small_model_files.items()},
            version=number + 1,
        )
        for number in (0, 1)
    ]


class Releases:
    """A source of releases that a test sets."""

    def __init__(self, current):
        self.current = current

    def poll(self):
        return self.current

    def status(self):
        return ClientStatus(
            "champion", "following", self.current.describe(), getattr(self.current, "version", None),
            None, None, None, None, None, None,
        )  # fmt: skip


def daemon_of(cluster, releases, folder, mode=Mode.CONTROL, **settings):
    source = releases if isinstance(releases, Releases) else Releases(releases[0])
    chosen = LiveSettings("small", mode=mode, policy="lucid", **settings)
    return Daemon(cluster, source, chosen, folder, clock=lambda: cluster.now_s)


def estimates(daemon):
    return {place.job_id: place.estimated_duration_s for place in daemon.view.decision.ranked}


def learn(cluster, daemon=None, runs=4):
    """A newcomer's jobs end after three seconds, one after another."""
    for number in range(runs):
        cluster.submit(f"short{number}", user="newcomer", gpus=4, duration_s=3.0)
        for _ in range(5):
            cluster.step()
            if daemon is not None:
                daemon.pass_once()


def test_the_queue_is_put_into_the_order_of_the_release_and_nothing_is_asked_twice(
    cluster, releases, tmp_path
):
    cluster.submit("running", gpus=4)
    cluster.step()
    for number, user in enumerate(reversed(USERS)):
        cluster.submit(str(number), user=user, gpus=1 + number % 2)
        cluster.now_s += 1.0
    daemon = daemon_of(cluster, releases, tmp_path)
    view = daemon.pass_once()
    assert view.problem is None
    order = [place.job_id for place in view.decision.ranked]
    by_service = sorted(order, key=lambda job_id: cluster.jobs[job_id].gpus * estimates(daemon)[job_id])
    assert order == by_service
    assert order != sorted(order), "a test that cannot tell the release's order from that of submission"
    assert sorted(cluster.jobs, key=lambda job_id: -cluster.jobs[job_id].priority)[:6] == order
    asked = len(cluster.asked)
    assert daemon.pass_once().asked == ()
    assert len(cluster.asked) == asked
    cluster.submit("late", user="u1")
    changed = {change.job_id for change in daemon.pass_once().asked}
    assert "late" in changed
    assert len(changed) <= 2  # and the one with which another of the same user changes places


def test_each_job_is_on_record_before_the_cluster_is_asked_the_front_first(
    cluster, releases, tmp_path, monkeypatch
):
    monkeypatch.setattr("live_scheduler.safety.control_lease.start_switch", lambda folder: None)
    cluster.submit("running", gpus=4)
    cluster.step()
    for number, user in enumerate(reversed(USERS)):
        cluster.submit(str(number), user=user, gpus=1 + number % 2)
    daemon = daemon_of(cluster, releases, tmp_path)
    clock = lambda: Moment(cluster.now_s, cluster.now_s, "boot")  # noqa: E731
    daemon.safety = SafetyNet(cluster, daemon.settings, tmp_path, clock=clock)
    asked, apply = [], cluster.apply

    def apply_as_recorded(changes):
        record = TouchedJobs(tmp_path)
        for change in changes:
            touch = record.of(change.job_id)
            assert touch == Touch(frozenset({Way.ORDERED}), 1, (change.priority,)), "with both numbers"
        asked.extend(change.job_id for change in changes)
        return apply(changes)

    cluster.apply = apply_as_recorded
    view = daemon.pass_once()
    assert view.problem is None
    assert asked == [place.job_id for place in view.decision.ranked]
    assert len(asked) == len(USERS)
    # Where it cannot be written down, nothing is asked.
    monkeypatch.setattr("live_scheduler.memory.records.append_lines", full_disk)
    cluster.submit("late", user="u1")
    assert "No space left" in daemon.pass_once().problem
    assert len(asked) == len(USERS)


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_other_modes_say_what_they_would_do_and_do_nothing(cluster, releases, tmp_path, mode):
    cluster.submit("running", gpus=4)
    cluster.step()
    cluster.submit("a")
    cluster.submit("b", user="u3")
    view = daemon_of(cluster, releases, tmp_path, mode).pass_once()
    assert {change.job_id for change in view.asked} == {"a", "b"}
    assert cluster.asked == []


def test_without_a_release_nothing_is_asked(cluster, tmp_path):
    cluster.submit("a")
    view = daemon_of(cluster, Releases(FallbackRelease("none was published.")), tmp_path).pass_once()
    assert view.decision is None
    assert "No release" in view.problem
    assert cluster.asked == []


def test_jobs_that_end_move_the_estimates_at_once_and_a_restart_forgets_nothing(cluster, releases, tmp_path):
    daemon = daemon_of(cluster, releases, tmp_path)
    cluster.submit("before", user="newcomer", held=True)
    cluster.submit("now", user="newcomer", gpus=4)
    daemon.pass_once()
    before = estimates(daemon)["now"]
    del cluster.jobs["now"]
    learn(cluster, daemon)
    cluster.submit("then", user="newcomer", gpus=4)
    daemon.pass_once()
    assert estimates(daemon)["then"] < 0.7 * before
    again = daemon_of(cluster, releases, tmp_path)
    again.pass_once()
    assert estimates(again) == pytest.approx(estimates(daemon), rel=1e-9)


def test_what_ended_while_no_daemon_ran_is_learnt_at_the_next_start(cluster, releases, tmp_path):
    watching = daemon_of(cluster, releases, tmp_path / "always")
    watching.pass_once()
    daemon_of(cluster, releases, tmp_path / "late").pass_once()
    learn(cluster, watching)
    cluster.submit("then", user="newcomer")
    watching.pass_once()
    late = daemon_of(cluster, releases, tmp_path / "late")
    late.pass_once()
    assert late.view.counts["caught_up"] == 4
    # The waiting job was seen before those that ended, which so were in its crowd and count less.
    assert estimates(late) == pytest.approx(estimates(watching), rel=0.15)


def test_jobs_that_no_reading_showed_are_learnt_from_accounting_and_counted_once(cluster, releases, tmp_path):
    daemon = daemon_of(cluster, releases, tmp_path)
    daemon.pass_once()
    learn(cluster)  # no client looks
    for _ in range(3):
        cluster.step(400.0)
        daemon.pass_once()
    assert daemon.view.counts["caught_up"] == 4
    ends = [event for event in Journal(tmp_path / "journal.jsonl").read() if event.kind == "ended"]
    assert sorted(event.job_id for event in ends) == ["short0", "short1", "short2", "short3"]


def test_ends_that_accounting_cannot_tell_yet_are_asked_for_again(cluster, releases, tmp_path):
    daemon = daemon_of(cluster, releases, tmp_path)
    daemon.pass_once()
    cluster.submit("a", gpus=4, duration_s=2.0)
    cluster.step()
    daemon.pass_once()
    cluster.accounting_down = True
    cluster.step(5.0)
    assert daemon.pass_once().ended == ()
    cluster.accounting_down = False
    assert [end.job.job_id for end in daemon.pass_once().ended] == ["a"]
    assert daemon.pass_once().ended == ()


def test_a_cluster_that_does_not_answer_is_a_problem_that_passes(cluster, releases, tmp_path):
    daemon = daemon_of(cluster, releases, tmp_path)
    cluster.submit("a")
    cluster.down = True
    assert "does not answer" in daemon.pass_once().problem
    cluster.down = False
    assert daemon.pass_once().problem is None


def test_a_publication_and_a_rollback_keep_what_was_learnt(cluster, releases, tmp_path):
    source = Releases(releases[0])
    daemon = daemon_of(cluster, source, tmp_path)
    learn(cluster, daemon)
    cluster.submit("then", user="newcomer", gpus=4)
    daemon.pass_once()
    learnt = estimates(daemon)
    source.current = releases[1]
    assert daemon.pass_once().decision.release_version == releases[1].version
    assert daemon.view.counts["releases_followed"] == 2
    ignorant = daemon_of(cluster, Releases(releases[1]), tmp_path / "ignorant")
    ignorant.adapter = SmallCluster()
    ignorant.adapter.submit("then", user="newcomer", gpus=4)
    ignorant.pass_once()
    # What the newcomer did is known to the new release too.
    assert estimates(daemon)["then"] < estimates(ignorant)["then"]
    source.current = releases[0]
    daemon.pass_once()
    assert estimates(daemon) == pytest.approx(learnt, rel=1e-9)


def test_a_decision_that_fails_changes_nothing_and_the_next_may_succeed(
    cluster, releases, tmp_path, monkeypatch
):
    daemon = daemon_of(cluster, releases, tmp_path)
    cluster.submit("running", gpus=4)
    cluster.step()
    daemon.pass_once()
    cluster.submit("a")

    def broken(snapshot):
        raise RuntimeError("no idea")

    monkeypatch.setattr(daemon.maker.policy, "decide", broken)
    view = daemon.pass_once()
    assert "no idea" in view.problem
    assert cluster.asked == []
    assert daemon.pass_once().problem is None
    assert {change.job_id for change in cluster.asked} == {"a"}


def test_no_more_changes_than_allowed_are_asked_in_a_pass_and_the_front_comes_first(
    cluster, releases, tmp_path
):
    cluster.submit("running", gpus=4)
    cluster.step()
    for number in range(30):
        cluster.submit(str(number), user=USERS[number % 6])
    daemon = daemon_of(cluster, releases, tmp_path, changes_per_pass=7)
    view = daemon.pass_once()
    assert [change.job_id for change in view.asked] == [place.job_id for place in view.decision.ranked[:7]]
    assert view.deferred == 23
    for _ in range(6):
        daemon.pass_once()
    order = [place.job_id for place in daemon.view.decision.ranked]
    assert sorted(order, key=lambda job_id: -cluster.jobs[job_id].priority) == order


def test_jobs_that_cannot_be_changed_do_not_use_up_the_changes_of_a_pass(cluster, releases, tmp_path, caplog):
    cluster.submit("running", gpus=4)
    cluster.step()
    for number in range(30):
        cluster.submit(str(number), user=USERS[number % 6])
    daemon = daemon_of(cluster, releases, tmp_path, changes_per_pass=7)
    cluster.stuck = {place.job_id for place in daemon.pass_once().decision.ranked[7:16]}
    for _ in range(6):
        daemon.pass_once()
    ranked = {job.job_id for job in cluster.jobs.values() if job.priority > 1}
    assert ranked >= set(cluster.jobs) - cluster.stuck - {"running"}
    said = [record.message for record in caplog.records if record.message.startswith("refused")]
    assert [text.rpartition(": ")[2] for text in said] == ["not now"] * len(said)
    assert len(said) == 2, "seven, then two more; nothing twice"
    cluster.stuck = set()
    for _ in range(3):
        daemon.pass_once()
    order = [place.job_id for place in daemon.view.decision.ranked]
    assert sorted(order, key=lambda job_id: -cluster.jobs[job_id].priority) == order


def test_it_runs_until_it_is_told_to_end(cluster, releases, tmp_path):
    daemon = daemon_of(cluster, releases, tmp_path, pass_interval_s=0.01, release_interval_s=0.01)
    stop, enough = threading.Event(), threading.Event()

    class Counting:
        def passed(self, view):
            if view.counts["passes"] >= 3:
                enough.set()
            raise RuntimeError("a watcher that fails ends nothing")

    daemon.watchers.append(Counting())
    thread = threading.Thread(target=daemon.run, args=(stop,))
    thread.start()
    assert enough.wait(PATIENCE_S)
    stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert daemon.view.problem is None


def test_a_torn_journal_loses_its_last_line_only(cluster, releases, tmp_path):
    daemon = daemon_of(cluster, releases, tmp_path)
    for job_id in "abc":
        cluster.submit(job_id)
    daemon.pass_once()
    path = tmp_path / "journal.jsonl"
    events = len(list(Journal(path).read()))
    path.write_bytes(path.read_bytes()[:-10])
    journal = Journal(path)
    assert len(list(journal.read())) == events - 1
    assert journal.unreadable == 1
    again = daemon_of(cluster, releases, tmp_path)
    cluster.submit("d")
    again.pass_once()
    assert {event.job_id for event in Journal(path).read()} == set("abcd")
    assert path.stat().st_mode & 0o077 == 0
