"""The live scheduler decides as the simulator does: the same policies, on the same state."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy, live_policy_names, settings_in_force
from live_scheduler.live_settings import LiveSettings
from lucid_models.releases.manifest import Provenance, ReleaseManifest, Training
from simulator.actions import Colocate, Start
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState
from simulator.policies.registry import load_policy
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload
from tests.policies import installed_policies

EPOCH_S = 1_700_000_000.0
GPUS = 4
CLUSTER = ClusterSpec({"vc1": 3, "vc2": 1}, GPUS)


# Four GPUs are most of a small cluster: the first class has no more than its largest jobs.
PCS = {
    "thresholds_s": [60.0, 150.0, "inf"],
    "weights": [0.5, 0.3, 0.2],
    "efficiency_min": 0.0,
    "efficiency_step": 1.0,
}
# Settings of a policy, and what a live cluster adds to them.
CHOSEN = {"pcs": PCS}
OFFLINE = {
    "lucid": {"profiling_nodes": 0, "sharing": "none"},
    "pcs": {**PCS, "sizes": "estimated", "resizes": False},
}


class Told:
    """Estimates that a test gives, by job."""

    def __init__(self, by_job):
        self.by_job = by_job
        self.waiting = []

    def join(self, jobs):
        self.waiting += [job["job_id"] for job in jobs]

    def leave(self, job_ids):
        self.waiting = [job_id for job_id in self.waiting if job_id not in set(job_ids)]

    def estimates(self, at_s):
        return np.array([self.by_job[job_id] for job_id in self.waiting], dtype=float)

    def estimate_now(self, jobs, at_s):
        return [self.by_job[job["job_id"]] for job in jobs]


def maker(policy, estimator, **settings):
    chosen = LiveSettings("test", policy=policy, policy_settings=CHOSEN.get(policy, {}), **settings)
    return DecisionMaker(live_policy(chosen), estimator, chosen, release="r")


def reading(pools, now_s, views):
    """A cluster as an adapter would read it, from the simulator's own snapshot."""
    nodes = [
        LiveNode(f"{pool.name}-{at}", GPUS, GPUS - pool.free.on_node(at), True, (pool.name,))
        for pool in pools.values()
        for at in range(pool.free.nodes)
    ]
    jobs = [
        LiveJob(
            view.job.job_id,
            view.job.virtual_cluster,
            view.job.virtual_cluster,
            view.job.gpus,
            EPOCH_S + view.submit_time_s,
            user=view.job.user,
            start_time_s=EPOCH_S + view.start_time_s if view.state is RunState.RUNNING else None,
            gpus_on=tuple((f"{view.pool}-{at}", gpus) for at, gpus in view.placement or ()),
        )
        for view in views
        if view.state in (RunState.PENDING, RunState.RUNNING)
    ]
    return ClusterState(EPOCH_S + now_s, tuple(jobs), tuple(nodes))


def moments(policy_name, workload):
    """Play a workload; return each decision of the simulator's policy with the state that it was made on."""
    seen = []
    policy = load_policy(policy_name, OFFLINE.get(policy_name, {}))
    simulation = Simulation(Scenario(workload, CLUSTER), policy, name=policy_name)
    decide = policy.decide

    def spying(snapshot):
        state = reading(snapshot.pools, snapshot.now_s, simulation.jobs)
        names = {pool.name for pool in snapshot.changed}
        actions = list(decide(snapshot))
        seen.append((state, names, [action for action in actions if isinstance(action, Start | Colocate)]))
        return actions

    policy.decide = spying
    simulation.run()
    return seen


jobs = st.lists(
    st.tuples(
        st.sampled_from(["vc1", "vc1", "vc2"]),
        st.sampled_from([1, 1, 2, 3, 4, 4]),
        st.integers(0, 60),
        st.integers(1, 80),
        st.integers(1, 80),
    ),
    min_size=1,
    max_size=14,
)


def workload_of(rows):
    rows = sorted(rows, key=lambda row: row[2])
    made = [
        Job(str(number), vc, f"u{number % 3}", gpus, float(submit), float(duration), float(estimate), number)
        for number, (vc, gpus, submit, duration, estimate) in enumerate(rows)
    ]
    return Workload(tuple(made), {})


@pytest.mark.parametrize("policy", installed_policies("fifo", "qssf", "lucid", "clarity", "pcs"))
@given(rows=jobs)
@hypothesis_settings(max_examples=25, deadline=None)
def test_starts_are_those_of_the_simulator(policy, rows):
    workload = workload_of(rows)
    told = Told({job.job_id: job.estimated_duration_s for job in workload.jobs})
    live = maker(policy, told)
    for state, changed, actions in moments(policy, workload):
        live.follow(state)
        decision = live.decide()
        for pool in changed:
            expected = [action.job.job.job_id for action in actions if action.job.pool == pool]
            assert [
                place.job_id for place in decision.ranked if place.pool == pool and place.starts_now
            ] == expected
            # They come first, so a cluster that serves the front of its queue does as the policy does.
            assert [each.job_id for each in decision.ranked if each.pool == pool][: len(expected)] == expected


def job(number, gpus=1, partition="vc1", **more):
    facts = {"submit_time_s": EPOCH_S + number, "user": "ada", **more}
    return LiveJob(str(number), partition, facts.pop("virtual_cluster", partition), gpus, **facts)


def node(name, used=0, partition="vc1", gpus=GPUS, available=True):
    return LiveNode(name, gpus, used, available, (partition,))


def decide(jobs, nodes, estimates, at_s=EPOCH_S + 1_000.0, policy="lucid", **settings):
    live = maker(policy, Told({key: float(value) for key, value in estimates.items()}), **settings)
    live.follow(ClusterState(at_s, tuple(jobs), tuple(nodes)))
    return live.decide()


def test_what_fits_comes_before_what_would_block_it():
    waiting = [job(1, gpus=4), job(2, gpus=1)]
    decision = decide(waiting, [node("a", used=2)], {"1": 10, "2": 1_000})
    assert [(place.job_id, place.starts_now) for place in decision.ranked] == [("2", True), ("1", False)]


def test_jobs_that_people_hold_or_that_wait_for_others_are_left_alone_with_the_reason():
    waiting = [job(1, held=True), job(2, waits_for="a dependency"), job(3), job(4, partition="cpu")]
    decision = decide(waiting, [node("a")], {"3": 10})
    assert [place.job_id for place in decision.ranked] == ["3"]
    assert decision.left_alone == {
        "1": "it is held",
        "2": "it waits for a dependency",
        "4": "its partition 'cpu' is not ordered",
    }


def test_who_has_waited_too_long_goes_first_whatever_its_size():
    waiting = [job(1, gpus=4), job(900), job(901, gpus=0)]
    decision = decide(waiting, [node("a", used=4)], {"1": 1e6, "900": 1, "901": 1}, longest_wait_s=500.0)
    assert [(place.job_id, place.overdue) for place in decision.ranked] == [
        ("1", True),
        ("901", False),
        ("900", False),
    ]


def test_nodes_of_two_sizes_drained_nodes_and_foreign_use_are_no_gpus_to_start_on():
    waiting = [job(1, gpus=4), job(2, gpus=2), job(3, gpus=2)]
    nodes = [node("small", gpus=2), node("drained", available=False), node("busy", used=3)]
    decision = decide(waiting, nodes, {"1": 1, "2": 2, "3": 3})
    assert [(place.job_id, place.starts_now) for place in decision.ranked] == [
        ("2", True),
        ("1", False),
        ("3", False),
    ]


def test_small_new_jobs_go_to_the_profiling_partition_when_their_own_is_full():
    waiting = [job(1), job(2, requeueable=False), job(3, gpus=4), job(4, tasks=3), job(5, restarts=1)]
    nodes = [node("a", used=4), node("p", partition="prof", gpus=2)]
    live = maker("lucid", Told(dict.fromkeys("12345", 10.0)), profiling_partition="prof")
    live.follow(ClusterState(EPOCH_S + 1_000.0, (), tuple(nodes)))
    live.decide()  # the policy has to have seen that there is no room
    live.follow(ClusterState(EPOCH_S + 1_002.0, tuple(waiting), tuple(nodes)))
    decision = live.decide()
    assert {place.job_id: place.pool for place in decision.ranked} == {
        "1": "prof", "2": "vc1", "3": "vc1", "4": "vc1", "5": "vc1",
    }  # fmt: skip
    assert decision.by_id["1"].starts_now
    assert decision.by_id["1"].limit_s is not None


class NoMemory:
    """A profiling stage that has lost its intents."""

    def takes(self, job, cluster):
        return True

    def limit_s(self, job_id):
        return None


@pytest.mark.parametrize("limit_s", [60.0, 300.0])
def test_a_run_on_the_profiler_whose_limit_is_not_known_has_the_policys(limit_s):
    chosen = LiveSettings(
        "test",
        policy="lucid",
        policy_settings={"profiling_limit_s": limit_s},
        profiling_partition="prof",
    )
    live = DecisionMaker(live_policy(chosen), Told({"1": 1_000.0}), chosen, release="r", profiling=NoMemory())
    guest = job(1, partition="prof", start_time_s=EPOCH_S + 1_000.0, gpus_on=(("p", 1),))
    live.follow(ClusterState(EPOCH_S + 1_001.0, (guest,), (node("a"), node("p", partition="prof", used=1))))
    assert live.decide().profiling_limit_s == limit_s
    assert live.pools.views["1"].run_limit_s == limit_s


def test_a_job_of_several_partitions_is_served_in_the_first_that_is_ordered():
    decision = decide([job(1, partition="other,vc1")], [node("a")], {"1": 1})
    assert [each.job_id for each in decision.ranked if each.pool == "vc1"] == ["1"]


def test_an_array_of_jobs_keeps_its_record_as_one():
    decision = decide([job(1, tasks=5)], [node("a")], {"1": 1})
    assert [place.job_id for place in decision.ranked] == ["1"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0, -3.0])
def test_estimates_that_are_no_run_times_decide_nothing(bad):
    from live_scheduler.memory.online_state import OnlineState

    class Broken(OnlineState):
        def __init__(self):
            self._queue = type("Queue", (), {"job_ids": ["1"], "estimate": lambda _, at_s: np.array([bad])})()
            self._calibration = type("Calibration", (), {"catch_up": lambda _: None})()

    with pytest.raises(BadInputError, match="job 1"):
        Broken().estimates(0.0)


def test_policies_that_no_live_cluster_can_follow_are_refused_with_those_that_it_can():
    for name in ("sjf", "srtf", "tiresias"):
        with pytest.raises(BadInputError, match="fifo"):
            live_policy(LiveSettings("test", policy=name))
    with pytest.raises(UnknownNameError):
        live_policy(LiveSettings("test", policy="magic"))
    assert {"fifo", "qssf", "lucid", "clarity"} <= set(live_policy_names())


LUCID = {"order": "gpus", "allow_simulated_profiles": True}


def manifest(policy, settings):
    return ReleaseManifest(
        "lucid-release-test",
        "",
        "test",
        {},
        settings,
        Training(None, {}),
        Provenance(False, False),
        policy=policy,
    )


def test_settings_that_the_release_pins_are_those_of_the_live_policy():
    live = live_policy(settings_in_force(LiveSettings("test"), manifest("lucid", LUCID)))
    assert live.settings.order == "gpus"
    assert live.settings.sharing == "none"  # no partition is declared shared
    assert live.settings.profiling_nodes == 0


def test_the_release_names_the_policy_unless_the_operator_does():
    plain = LiveSettings("test")
    other = manifest("tiresias", {"round_s": 60.0, "allow_simulated_profiles": True})
    assert settings_in_force(plain).policy == "lucid"
    assert settings_in_force(plain, manifest("lucid", LUCID)).policy_settings == {"order": "gpus"}
    found = settings_in_force(plain, other)
    assert (found.policy, found.policy_settings) == ("tiresias", {"round_s": 60.0})
    own = LiveSettings("test", policy="tiresias", policy_settings={"round_s": 30.0})
    assert settings_in_force(own, other).policy_settings == {"round_s": 30.0}
    assert settings_in_force(own, manifest("lucid", LUCID)) == own, "nothing of another policy's"
    assert settings_in_force(LiveSettings("test", policy="qssf"), other).policy_settings == {}
    with pytest.raises(UnknownNameError, match="magic"):
        settings_in_force(plain, manifest("magic", {}))
    with pytest.raises(BadInputError, match="no policy"):
        LiveSettings("test", policy_settings={"round_s": 30.0})


@pytest.mark.parametrize("settings", [{}, {"order": "gpus"}, {"order": "submission"}, {"ageing_s": 90.0}])
@given(rows=jobs)
@hypothesis_settings(max_examples=30, deadline=None)
def test_whole_columns_are_ranked_as_jobs_one_by_one(settings, rows):
    policy = load_policy("lucid", settings)
    views = [JobView(job, number) for number, job in enumerate(workload_of(rows).jobs)]
    rank = policy.rank_by_columns("vc1")
    columns = rank(
        *(np.array(c) for c in zip(*((v.gpus, v.estimate_s, v.submit_time_s) for v in views), strict=True))
    )
    order = np.lexsort((range(len(views)), *reversed(columns))).tolist()
    assert [views[at] for at in order] == sorted(views, key=policy.priority)


happenings = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "start", "end", "leave", "believe", "change"]),
        st.integers(0, 30),
        st.sampled_from([1, 1, 2, 4]),
        st.sampled_from([1.0, 2.0, 2.0, 8.0, 100.0]),
        st.sampled_from(["vc1", "vc2"]),
    ),
    max_size=40,
)


@pytest.mark.parametrize("policy", ["fifo", "qssf", "lucid"])
@given(steps=happenings)
@hypothesis_settings(max_examples=40, deadline=None)
def test_each_decision_of_a_row_is_as_if_made_from_scratch(policy, steps):
    """What is kept from one decision to the next (order, places, parts of queues) is never out of date."""
    told = Told({})
    live = maker(policy, told)
    waiting, running, used = {}, {}, {"vc1": 0, "vc2": 0}
    for number, (what, which, gpus, estimate_s, partition) in enumerate(steps):
        chosen = list(running if what == "end" else waiting)
        key = chosen[which % len(chosen)] if chosen else None
        if what == "submit":
            waiting[str(number)] = job(number, gpus, partition)
            told.by_job[str(number)] = estimate_s
        elif key is None:
            continue
        elif what == "start" and used[waiting[key].partition] + waiting[key].gpus <= GPUS:
            began = waiting.pop(key)
            at = {"start_time_s": EPOCH_S + number, "gpus_on": ((began.partition, began.gpus),)}
            running[key] = replace(began, **at)
            used[began.partition] += began.gpus
        elif what == "end":
            ended = running.pop(key)
            used[ended.partition] -= ended.gpus
        elif what == "leave":
            del waiting[key]
        elif what == "believe":
            told.by_job[key] = estimate_s
        elif what == "change":
            waiting[key] = replace(waiting[key], gpus=gpus)
        nodes = tuple(node(name, used=taken, partition=name) for name, taken in used.items())
        state = ClusterState(EPOCH_S + 100 + number, (*waiting.values(), *running.values()), nodes)
        live.follow(state)
        anew = maker(policy, Told(told.by_job))
        anew.follow(state)
        assert live.decide().ranked == anew.decide().ranked
