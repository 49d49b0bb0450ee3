"""The compiled replay makes the schedule of `Simulation`, to the last bit, or leaves it to that."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.actions import PolicyError
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.compiled import machine_code
from simulator.compiled.replay import worth_it
from simulator.policies.fifo import Fifo
from simulator.recorder import Recorder
from simulator.replay import simulate
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

pytest.importorskip("numba")

COSTS = {
    "preemption_s": 1.3,
    "preemption_multi_node_s": 2.0,
    "preemption_single_gpu_s": 0.1,
    "completion_s": 0.4,
}
POLICIES = [
    ("fifo", {}),
    ("sjf", {}),
    ("qssf", {}),
    ("easy", {}),
    ("tsafrir_easy", {}),
    ("tsafrir_easy", {"capped": False}),
    ("srtf", {"preemption_s": 0.0}),
    ("srtf", COSTS),
    ("tiresias", {"threshold_gpu_s": 5.0, "round_s": 7.0, "preemption_s": 1.0}),
    ("tiresias", {"threshold_gpu_s": 3.5, "round_s": None, **COSTS}),
]
TIMED = {"cpu_s", "jobs_per_cpu_s", "engine"}


@st.composite
def scenarios(draw):
    """Small clusters of one or more virtual clusters, and jobs with ties, gangs, withdrawals and changes."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    size = draw(st.sampled_from([1, 2, 4, 8, 70]))
    nodes = {name: draw(st.integers(1, 4)) for name in names}
    if draw(st.booleans()):
        nodes["a"] += 70
    cluster = ClusterSpec(nodes, size, cpu_cores_per_node=draw(st.sampled_from([0, 0, 3])))
    times = st.integers(0, 30) | st.floats(0, 30, width=32)
    rows = draw(
        st.lists(
            st.tuples(
                times,
                st.sampled_from(names),
                st.sampled_from([0, 1, 1, 2, 3, size, size + 1, 2 * size, 3 * size + 1]),
                st.sampled_from([0, 0, 1, 5]) | times,  # duration
                st.sampled_from([0, 1, 3, 5, 20]) | times,  # estimate
                st.none() | st.integers(1, 40),  # time limit
                st.sampled_from([None, "u", "v", "w"]),
                st.sampled_from([None] * 6 + [0.0, 3.0, float("inf")]),  # withdrawn after
            ),
            max_size=40,
        )
    )
    rows.sort(key=lambda row: row[0])
    jobs = tuple(
        Job(
            f"j{i}",
            name,
            user,
            gpus,
            float(submit),
            float(duration),
            float(estimate),
            i,
            cpus=0 if gpus else 1 + i % 4,
            time_limit_s=None if limit is None else float(limit),
            withdrawn=after is not None,
            cancel_time_s=None if after is None else submit + after,
        )
        for i, (submit, name, gpus, duration, estimate, limit, user, after) in enumerate(rows)
    )
    changes = draw(
        st.lists(
            st.builds(SizeChange, st.integers(-1, 40), st.sampled_from(names), st.integers(0, 5)), max_size=4
        )
    )
    return Scenario(
        Workload(jobs, {}),
        cluster,
        changes=changes,
        rules=Rules("either", remainder=draw(st.sampled_from(["fullest", "freest"]))),
        counted_from_s=draw(st.sampled_from([None, None, 0.0, 5.0, 50.0])),
    )


def replayed(scenario, policy, **options):
    try:
        return simulate(scenario, policy, **options)
    except (PolicyError, BadInputError) as error:
        return str(error)


@pytest.mark.parametrize(("policy", "options"), POLICIES)
@settings(max_examples=50, deadline=None)
@given(scenario=scenarios())
def test_both_engines_make_the_same_schedule(policy, options, scenario):
    expected = replayed(scenario, policy, settings=options, engine="python")
    found = replayed(scenario, policy, settings=options, engine="compiled")
    if isinstance(expected, str):
        assert found == expected
        return
    assert found.summary["engine"] == "compiled"
    assert found.jobs.equals(expected.jobs)
    assert {key: value for key, value in found.summary.items() if key not in TIMED} == {
        key: value for key, value in expected.summary.items() if key not in TIMED
    }
    assert found.origin == expected.origin
    assert found.warm_up_jobs == expected.warm_up_jobs


def loaded(count=3_000, seed=3):
    """Many jobs that queue on some nodes, with estimates that are wrong."""
    draws = np.random.default_rng(seed)
    submit_s = np.sort(draws.integers(0, 40_000, count)).astype(float)
    gpus = draws.choice([1, 2, 4, 8, 16, 24], count, p=[0.5, 0.15, 0.15, 0.14, 0.05, 0.01])
    duration_s = np.round(draws.lognormal(5, 2, count))
    estimate_s = np.round(duration_s * draws.lognormal(0, 1, count))
    users = draws.choice(["u", "v", "w"], count)
    jobs = tuple(
        Job(f"j{i}", "ab"[i % 2], str(users[i]), int(gpus[i]), submit_s[i], duration_s[i], estimate_s[i], i)
        for i in range(count)
    )
    return Scenario(Workload(jobs, {}), ClusterSpec({"a": 9, "b": 7}, 8))


@pytest.mark.parametrize("policy", ["fifo", "sjf", "qssf", "easy", "tsafrir_easy", "srtf", "tiresias"])
def test_a_long_queue_is_served_alike(policy):
    scenario = loaded()
    expected, found = (simulate(scenario, policy, engine=engine) for engine in ("python", "compiled"))
    assert found.summary["engine"] == "compiled"
    assert expected.summary["engine"] == "python"
    assert found.jobs.equals(expected.jobs)
    assert found.summary["decisions"] == expected.summary["decisions"]


def test_progress_is_told_to_the_end(monkeypatch):
    monkeypatch.setattr("simulator.compiled.replay.MOMENTS_AT_ONCE", 500)
    told = []
    simulate(loaded(), "fifo", engine="compiled", progress=lambda *said: told.append(said))
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1] == (3_000, 3_000, "fifo")


def test_an_interrupt_ends_a_long_replay(monkeypatch):
    monkeypatch.setattr("simulator.compiled.replay.MOMENTS_AT_ONCE", 500)

    def interrupt(done, total, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(loaded(), "fifo", engine="compiled", progress=interrupt)


class Lifo(Fifo):
    """Derived from a policy that is an order of columns, and another one."""

    def priority(self, job):
        return -job.submit_time_s


def engine_of(scenario, policy, **options):
    return simulate(scenario, policy, engine="compiled", **options).summary["engine"]


def test_what_only_python_can_do_is_left_to_it():
    scenario = loaded(200)
    assert engine_of(scenario, Fifo()) == "compiled"
    assert engine_of(scenario, Lifo()) == "python"
    assert engine_of(scenario, "fifo", recorder=Recorder()) == "python"
    assert engine_of(scenario, "fifo", predict=True) == "python"
    assert engine_of(scenario, "qssf", settings={"overtaking_bound_s": 60.0}) == "python"
    assert engine_of(scenario, "srtf", settings={"selection": "quota"}) == "python"
    failing = Scenario(scenario.workload, scenario.cluster, changes=[NodeFailure(5.0, "a", 0, 60.0)])
    assert engine_of(failing, "fifo") == "python"


def test_the_variable_says_it_too(monkeypatch):
    monkeypatch.setenv("LUCID_ENGINE", "compiled")
    assert simulate(loaded(50), "fifo").summary["engine"] == "compiled"
    monkeypatch.setenv("LUCID_ENGINE", "rocket")
    with pytest.raises(BadInputError, match="rocket"):
        simulate(loaded(50), "fifo")


def test_without_numba_python_replays_and_compiled_cannot_be_asked_for(monkeypatch):
    monkeypatch.delenv("LUCID_ENGINE", raising=False)
    monkeypatch.setattr(machine_code, "available", lambda: False)
    assert simulate(loaded(50), "fifo").summary["engine"] == "python"
    with pytest.raises(BadInputError, match=r"\[fast\]"):
        simulate(loaded(50), "fifo", engine="compiled")


def test_code_is_kept_whole_or_compiled_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("LUCID_CACHE_DIR", str(tmp_path / "new" / "cache"))
    monkeypatch.setattr(machine_code, "_compile", lambda: b"name\0code")
    monkeypatch.setattr(machine_code, "_load", lambda code: code)
    monkeypatch.setattr(machine_code, "loop", machine_code.loop.__wrapped__)
    assert not machine_code.is_kept()
    assert machine_code.can_be_kept()
    assert machine_code.loop() == b"name\0code"
    assert machine_code.is_kept()
    kept = machine_code.kept_file()
    kept.write_bytes(kept.read_bytes()[:-1])  # a disk that was full
    assert not machine_code.is_kept()
    assert machine_code.loop() == b"name\0code"
    assert machine_code.is_kept()
    kept.chmod(0o666)  # others may have written it
    assert not machine_code.is_kept()


def test_where_nothing_can_be_compiled_python_replays_with_a_warning(monkeypatch, tmp_path):
    def refused():
        raise ImportError("Numba needs NumPy 2.4 or less. Got NumPy 2.5.")

    monkeypatch.setenv("LUCID_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine_code, "_compile", refused)
    monkeypatch.setattr(machine_code, "loop", machine_code.loop.__wrapped__)
    with pytest.warns(UserWarning, match="Numba needs NumPy"):
        assert simulate(loaded(50), "fifo", engine="compiled").summary["engine"] == "python"


def test_an_llvmlite_that_cannot_be_loaded_leaves_replays_to_python(monkeypatch):
    def broken():
        raise OSError("libllvmlite.so: cannot open shared object file")

    monkeypatch.delenv("LUCID_ENGINE", raising=False)
    monkeypatch.setattr(machine_code, "_identity", broken)
    monkeypatch.setattr(machine_code, "is_loaded", lambda: False)
    assert not worth_it(100_000)
    monkeypatch.setattr(machine_code, "_compile", broken)
    monkeypatch.setattr(machine_code, "loop", machine_code.loop.__wrapped__)
    with pytest.warns(UserWarning, match="libllvmlite"):
        assert simulate(loaded(50), "fifo", engine="compiled").summary["engine"] == "python"


def test_code_that_cannot_be_kept_leaves_no_file_behind(monkeypatch, tmp_path):
    monkeypatch.setenv("LUCID_CACHE_DIR", str(tmp_path))
    machine_code.kept_file().mkdir()
    machine_code._write(machine_code.kept_file(), b"name\0code")
    assert list(tmp_path.iterdir()) == [machine_code.kept_file()]


def test_an_account_without_a_home_compiles_only_when_asked(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for variable in ("LUCID_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("simulator.compiled.machine_code.Path.home", no_home)
    assert not machine_code.can_be_kept()
    assert not machine_code.is_kept()
    monkeypatch.setattr(machine_code, "is_loaded", lambda: False)
    assert not worth_it(10_000_000)
