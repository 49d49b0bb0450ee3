"""What the adapter reads of a real Slurm and changes there, with its default order (priority/basic)."""

import time

import pytest

from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import (
    Advise,
    MoveTo,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)
from live_scheduler.cluster_state import ClusterState
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.control import PRIORITIES
from tests.evidence import Evidence
from tests.slurm.adapter_jobs import FULL, ODD, runs, submit, until_reads
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture
def adapter(slurm: PrivateSlurm) -> SlurmAdapter:
    return SlurmAdapter(profiling_partition="prof")


@pytest.fixture
def full(slurm: PrivateSlurm, adapter: SlurmAdapter) -> str:
    """A job that holds both nodes of vc1; all that a test submits there waits."""
    job_id = submit(slurm, "--nodes=2", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, job_id), "the cluster is full")
    return job_id


def queue(state: ClusterState) -> list[str]:
    """The waiting jobs in Slurm's order."""
    waiting = [job for job in state.jobs if job.waiting]
    return [job.job_id for job in sorted(waiting, key=lambda job: (-(job.priority or 0), int(job.job_id)))]


# Reading


def test_an_empty_cluster(slurm: PrivateSlurm, adapter: SlurmAdapter) -> None:
    before = time.time()
    state = adapter.read()
    assert state.jobs == ()
    assert before - 1.0 <= state.at_s <= time.time() + 1.0
    assert {
        node.name: (node.gpus, node.gpus_used, node.available, node.partitions) for node in state.nodes
    } == {
        "n1": (4, 0, True, ("vc1",)),
        "n2": (4, 0, True, ("vc1",)),
        "p1": (2, 0, True, ("prof",)),
        "p2": (2, 0, True, ("prof",)),
    }
    assert state.longest_run_s == {"prof": 3600.0}
    assert adapter.apply([]) == []


@pytest.mark.parametrize(
    ("options", "gpus", "cpus", "nodes"),
    [
        (["--gres=gpu:2"], 2, 1, 1),
        (["--gpus=3", "--ntasks=3", "--nodes=1"], 3, 3, 1),
        (["--gpus=6", "--nodes=2", "--ntasks=2"], 6, 2, 2),
        (["--gpus-per-node=2", "--nodes=2"], 4, 2, 2),
        (["--gpus-per-task=1", "--ntasks=4", "--cpus-per-task=2", "--nodes=1"], 4, 8, 1),
        (["--ntasks=5"], 0, 5, 1),
        (["--exclusive", "--gres=gpu:1"], 4, 64, 1),
    ],
)
def test_what_a_job_asks_for_is_what_it_gets(
    slurm: PrivateSlurm, adapter: SlurmAdapter, options: list[str], gpus: int, cpus: int, nodes: int
) -> None:
    job_id = submit(slurm, "--hold", *options)
    waiting = adapter.read().by_id[job_id]
    slurm.run("scontrol", "release", job_id)
    running = until_reads(slurm, adapter, lambda state: runs(state, job_id), "it runs").by_id[job_id]
    for job in (waiting, running):
        assert (job.gpus, job.cpus, job.nodes) == (gpus, cpus, nodes)
    assert sum(count for _, count in running.gpus_on) == gpus


def test_where_runs_are_and_what_is_left(slurm: PrivateSlurm, adapter: SlurmAdapter) -> None:
    wide = submit(slurm, "--gpus=5", "--nodes=2", "--ntasks=2")
    narrow = submit(slurm, "--gres=gpu:1", "--nodelist=p2", "--partition=prof", "--time=7")
    state = until_reads(slurm, adapter, lambda state: runs(state, wide, narrow), "both run")
    assert sorted(node for node, _ in state.by_id[wide].gpus_on) == ["n1", "n2"]
    used = {node.name: node.gpus_used for node in state.nodes}
    assert dict(state.by_id[wide].gpus_on) == {name: used[name] for name in ("n1", "n2")}
    assert (state.by_id[narrow].gpus_on, used["p1"], used["p2"]) == ((("p2", 1),), 0, 1)
    assert state.by_id[narrow].time_limit_s == 420.0
    assert abs((state.by_id[narrow].start_time_s or 0) - state.at_s) < 60


@pytest.mark.evidence(table="faults", rows=("20",))
def test_names_and_comments_may_hold_anything(
    slurm: PrivateSlurm, adapter: SlurmAdapter, evidence: Evidence
) -> None:
    ids = {text: submit(slurm, "--hold", f"--job-name={text}", f"--comment={text}") for text in ODD}
    jobs = adapter.read().by_id
    assert len(jobs) == len(ODD)
    for text, job_id in ids.items():
        assert (jobs[job_id].name, jobs[job_id].comment) == (text.replace('"', "`"), text)
    evidence("faults", "20", "A real Slurm's jobs keep their names and comments, whatever is in them.")


def test_what_jobs_wait_for(slurm: PrivateSlurm, adapter: SlurmAdapter, full: str) -> None:
    plain = submit(slurm, FULL)
    after = submit(slurm, f"--dependency=afterok:{full}")
    later = submit(slurm, "--begin=now+1hour")
    held = submit(slurm, "--hold")
    held_later = submit(slurm)
    slurm.run("scontrol", "hold", held_later)
    reserved = (
        "ReservationName=kept StartTime=now+1hour Duration=10 Nodes=p1 Users=" + slurm.run("whoami").strip()
    )
    slurm.run("scontrol", "create", *reserved.split())
    in_reservation = submit(slurm, "--partition=prof", "--reservation=kept")
    try:
        jobs = until_reads(
            slurm, adapter, lambda state: state.by_id[in_reservation].waits_for, "Slurm looked at all of them"
        ).by_id
    finally:
        slurm.run("scancel", in_reservation)
        slurm.run("scontrol", "delete", "ReservationName=kept")
    assert jobs[plain].eligible
    assert jobs[after].waits_for == "Dependency"
    assert jobs[later].waits_for == "BeginTime"
    assert abs((jobs[later].begin_time_s or 0) - time.time() - 3600) < 120
    assert jobs[in_reservation].waits_for == "Reservation"
    assert [jobs[job_id].held for job_id in (plain, after, later, held, held_later)] == [False] * 3 + [
        True
    ] * 2
    assert jobs[full].requeueable
    assert not any(jobs[job_id].eligible for job_id in (after, later, held, held_later, in_reservation))


def test_partitions_that_are_closed_and_nodes_that_are_drained(
    slurm: PrivateSlurm, adapter: SlurmAdapter
) -> None:
    try:
        for state in ("DOWN", "DRAIN", "INACTIVE"):
            slurm.run("scontrol", "update", "PartitionName=prof", f"State={state}")
            assert adapter.read().closed_partitions == {"prof"}
    finally:
        slurm.run("scontrol", "update", "PartitionName=prof", "State=UP")
    try:
        slurm.run("scontrol", "update", "NodeName=p1", "State=DRAIN", "Reason=test")
        assert {node.name for node in adapter.read().nodes if not node.available} == {"p1"}
    finally:
        slurm.run("scontrol", "update", "NodeName=p1", "State=RESUME")
    assert adapter.read().closed_partitions == frozenset()
    until_reads(
        slurm, adapter, lambda state: all(node.available for node in state.nodes), "it is there again"
    )


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "UTC"])
def test_times_do_not_depend_on_where_one_looks_from(
    slurm: PrivateSlurm, adapter: SlurmAdapter, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted_s = time.time()
    job_id = submit(slurm, "--hold")
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    time.tzset()
    try:
        state = adapter.read()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert abs(state.by_id[job_id].submit_time_s - submitted_s) < 30
    assert abs(state.at_s - submitted_s) < 30


def test_squeue_is_not_steered_by_variables_of_the_daemons_user(
    slurm: PrivateSlurm, adapter: SlurmAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(slurm, "--hold")
    for name, value in {
        "SQUEUE_STATES": "RUNNING",
        "SQUEUE_USERS": "nobody",
        "SQUEUE_PARTITION": "prof",
        "SLURM_BITSTR_LEN": "3",
    }.items():
        monkeypatch.setenv(name, value)
    assert job_id in adapter.read().by_id


# Arrays and heterogeneous jobs


def test_an_array_is_changed_as_a_whole_and_not_split(
    slurm: PrivateSlurm, adapter: SlurmAdapter, full: str
) -> None:
    array = submit(slurm, "--array=1,4-9%2", FULL)
    job = adapter.read().by_id[array]
    assert (job.tasks, job.gpus, job.requeueable) == (7, 4, False)
    slurm.run("scontrol", "update", f"JobId={array}", "ArrayTaskThrottle=0")
    assert adapter.apply([SetPriority(array, PRIORITIES.least + 5), Advise(array, "in an hour")]) == []
    records = slurm.run("scontrol", "--oneliner", "show", "job", array).splitlines()
    assert len(records) == 1
    assert f"Priority={PRIORITIES.least + 5} " in records[0]
    # Two tasks start: jobs of their own, and the record goes on.
    slurm.run("scancel", full)
    state = until_reads(
        slurm, adapter, lambda state: runs(state, f"{array}_1", f"{array}_4"), "two tasks run"
    )
    assert state.by_id[array].tasks == 5
    assert adapter.apply([SetPriority(array, PRIORITIES.least + 6)]) == []
    assert adapter.read().by_id[array].priority == PRIORITIES.least + 6
    # One that is requeued, and one that its user holds, are jobs of their own too.
    slurm.run("scontrol", "hold", f"{array}_7")
    slurm.run("scontrol", "requeue", f"{array}_4")
    state = until_reads(slurm, adapter, lambda state: not runs(state, f"{array}_4"), "one is requeued")
    state = until_reads(slurm, adapter, lambda state: f"{array}_7" in state.by_id, "the tasks are told apart")
    assert state.by_id[f"{array}_7"].held
    assert not state.by_id[array].held
    together = [job for job in state.jobs if job.job_id.startswith(array)]
    assert sum(job.tasks for job in together) == 7
    refusals = adapter.apply([SetPriority(array, PRIORITIES.least + 7)])
    assert refusals == []
    state = adapter.read()
    assert state.by_id[array].priority == PRIORITIES.least + 7
    assert state.by_id[f"{array}_7"].held


@pytest.mark.evidence(table="faults", rows=("26",))
def test_components_of_a_heterogeneous_job(
    slurm: PrivateSlurm, adapter: SlurmAdapter, full: str, evidence: Evidence
) -> None:
    leader = submit(slurm, "--gres=gpu:1", ":", "--gres=gpu:2", "--partition=vc1")
    jobs = adapter.read().by_id
    assert [jobs[f"{leader}+{at}"].gpus for at in (0, 1)] == [1, 2]
    changes = [SetPriority(f"{leader}+{at}", PRIORITIES.least + at) for at in (1, 0)]
    assert adapter.apply(changes) == []
    jobs = adapter.read().by_id
    assert [jobs[f"{leader}+{at}"].priority for at in (0, 1)] == [PRIORITIES.least, PRIORITIES.least + 1]
    assert adapter.apply([ReturnToDefault(f"{leader}+0"), ReturnToDefault(f"{leader}+1")]) == []
    slurm.run("scancel", full)
    until_reads(
        slurm, adapter, lambda state: runs(state, f"{leader}+0", f"{leader}+1"), "both start together"
    )
    evidence("faults", "26", "Components of a heterogeneous job are seen and changed one by one.")


# Changing


def test_what_is_refused_is_told_line_by_line(slurm: PrivateSlurm, adapter: SlurmAdapter, full: str) -> None:
    free, by_user, by_admin, gone, requeued = (submit(slurm, FULL) for _ in range(5))
    for job_id, how in ((by_user, "uhold"), (by_admin, "hold")):
        slurm.run("scontrol", how, job_id)
    ran = submit(slurm, "--gres=gpu:1", "--partition=prof")  # elsewhere: none starts in its place
    until_reads(slurm, adapter, lambda state: runs(state, ran), "it runs")
    slurm.run("scancel", gone)
    slurm.run("scontrol", "requeuehold", ran)
    most = PRIORITIES.most
    changes = [
        SetPriority(by_user, most),
        SetPriority(free, most - 1),
        SetPriority(by_admin, most),
        SetPriority(gone, most),
        SetPriority("123456", most),
        SetPriority(requeued, most - 2),
        SetPriority(ran, most),
        MoveTo(free, "nowhere", "vc1"),
        RestrictToNode(free, "no-such-node"),
        RestrictToNode(free, "n1\nupdate JobId=1 Priority=0"),
        SetPriority(free, 0),
        Advise(gone, "soon"),
        StartAfter(requeued, 3600),
    ]
    refused = adapter.apply(changes)
    assert [refusal.change for refusal in refused] == [
        change for at, change in enumerate(changes) if at not in (1, 5, 12)
    ]
    words = [refusal.why for refusal in refused]
    assert "held state" in words[0]
    assert "Invalid partition name" in next(each.why for each in refused if isinstance(each.change, MoveTo))
    slurm.wait_for(lambda: adapter.read().by_id[ran].waiting, "what is left of its run is cleared up")
    jobs = adapter.read().by_id
    assert (jobs[free].priority, jobs[requeued].priority) == (most - 1, most - 2)
    assert jobs[requeued].waits_for == "BeginTime"
    assert all(jobs[job_id].held for job_id in (by_user, by_admin, ran))


def test_a_job_that_a_person_holds_meanwhile_stays_held(
    slurm: PrivateSlurm, adapter: SlurmAdapter, full: str
) -> None:
    ids = [submit(slurm, FULL) for _ in range(3)]
    before = adapter.read().by_id
    for job_id in ids:
        slurm.run("scontrol", "uhold", job_id)
    changes = [
        SetPriority(ids[0], PRIORITIES.most),
        ReturnToDefault(ids[1]),
        ReturnToDefault(ids[2], before[ids[2]].priority),
    ]
    assert [refusal.change for refusal in adapter.apply(changes)] == changes
    assert all(adapter.read().by_id[job_id].held for job_id in ids)


@pytest.mark.parametrize("words", [*ODD, "", " leading", "trailing ", "=", "x" * 900])
def test_advice_stands_beside_the_words_of_the_user(
    slurm: PrivateSlurm, adapter: SlurmAdapter, words: str
) -> None:
    job_id = submit(slurm, "--hold", f"--comment={words}")
    untouched = adapter.read().by_id[job_id].comment

    def shown() -> str:
        return slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%k").removesuffix("\n")

    before = shown()
    for text in ("starts 14:05 to 14:20", "starts\n=\"15:00' \x15", "starts\n=\"15:00' \x15"):
        adapter.read()
        assert adapter.apply([Advise(job_id, text)]) == []
        assert " ".join(text.split()) in shown().replace("\u00a0", " ")
        assert shown().count("starts") == 1
        assert adapter.read().by_id[job_id].comment == untouched
    assert adapter.apply([Advise(job_id, "")]) == []
    assert shown().replace("(null)", "") == before.replace("(null)", "")


def test_new_jobs_queue_behind_those_that_have_a_place(
    slurm: PrivateSlurm, adapter: SlurmAdapter, full: str
) -> None:
    first, second, third = (submit(slurm, FULL) for _ in range(3))
    adapter.read()
    wanted = [third, first, second]
    changes = [SetPriority(job_id, PRIORITIES.most - at) for at, job_id in enumerate(wanted)]
    assert adapter.apply(changes) == []
    late = submit(slurm, FULL)
    assert queue(adapter.read()) == [*wanted, late]
    # After a restart slurmctld counts on from the lowest that is saved: still behind.
    slurm.stop_controller()
    slurm.start_controller()
    later = submit(slurm, FULL)
    assert queue(adapter.read()) == [*wanted, late, later]


def test_the_way_back_to_the_order_of_submission(
    slurm: PrivateSlurm, adapter: SlurmAdapter, full: str
) -> None:
    ids = [submit(slurm, FULL) for _ in range(5)]
    before = adapter.read().by_id
    shuffled = [ids[at] for at in (3, 0, 4, 1)]
    assert (
        adapter.apply([SetPriority(job_id, PRIORITIES.most - at) for at, job_id in enumerate(shuffled)]) == []
    )
    assert queue(adapter.read()) == [*shuffled, ids[2]]
    # With the numbers that Slurm had given: as before, beside one that was never touched.
    assert adapter.apply([ReturnToDefault(job_id, before[job_id].priority) for job_id in shuffled]) == []
    assert queue(adapter.read()) == ids
    # Without: behind all others, in the order in which they are returned.
    assert (
        adapter.apply([SetPriority(job_id, PRIORITIES.most - at) for at, job_id in enumerate(shuffled)]) == []
    )
    assert adapter.apply([ReturnToDefault(job_id) for job_id in sorted(shuffled)]) == []
    assert queue(adapter.read()) == [ids[2], ids[0], ids[1], ids[3], ids[4]]


def test_a_job_moves_and_comes_home(slurm: PrivateSlurm, adapter: SlurmAdapter, full: str) -> None:
    job_id = submit(slurm, "--gres=gpu:1", "--comment=my words")
    submitted_s = adapter.read().by_id[job_id].submit_time_s
    assert adapter.apply([MoveTo(job_id, "prof", "vc1")]) == []
    state = until_reads(slurm, adapter, lambda state: runs(state, job_id), "it runs where it was moved")
    assert (state.by_id[job_id].partition, state.by_id[job_id].virtual_cluster) == ("prof", "vc1")
    assert "home=vc1" in state.by_id[job_id].mark
    slurm.wait_for(lambda: time.time() > submitted_s + 1.5, "a requeue gets another second")
    assert adapter.apply([SendHome(job_id, "vc1", PRIORITIES.least)]) == []
    state = until_reads(slurm, adapter, lambda state: state.by_id[job_id].waiting, "it waits again")
    job = state.by_id[job_id]
    assert (job.partition, job.virtual_cluster, job.priority) == ("vc1", "vc1", PRIORITIES.least)
    assert (job.submit_time_s, job.restarts, job.comment) == (submitted_s, 1, "my words")
    assert not job.held


def test_a_job_starts_only_on_the_node_that_it_is_restricted_to(
    slurm: PrivateSlurm, adapter: SlurmAdapter
) -> None:
    first, second = (submit(slurm, "--hold", "--gres=gpu:1") for _ in range(2))
    adapter.read()
    assert adapter.apply([RestrictToNode(job_id, "n2") for job_id in (first, second)]) == []
    assert adapter.apply([RestrictToNode(second, None)]) == []
    blocker = submit(slurm, "--nodelist=n2", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, blocker), "its node is full")
    slurm.run("scontrol", "release", first, second)
    state = until_reads(slurm, adapter, lambda state: runs(state, second), "the free one runs")
    assert state.by_id[second].gpus_on == (("n1", 1),)
    assert state.by_id[first].waiting
    slurm.run("scancel", blocker)
    state = until_reads(slurm, adapter, lambda state: runs(state, first), "the restricted one runs")
    assert state.by_id[first].gpus_on == (("n2", 1),)


# Ends, without accounting


def test_ends_while_slurmctld_remembers_them(slurm: PrivateSlurm, adapter: SlurmAdapter) -> None:
    began = time.time() - 2
    fine = submit(slurm, "--gres=gpu:2", "--time=5", script="sleep 1")
    bad = submit(slurm, script="exit 3")
    withdrawn = submit(slurm, "--hold", "--gres=gpu:1")
    lives = submit(slurm)
    slurm.run("scancel", withdrawn)
    until_reads(slurm, adapter, lambda state: not {fine, bad} & set(state.by_id), "two have ended")
    ended = {each.job.job_id: each for each in adapter.ended([fine, bad, withdrawn, lives, "99999"], began)}
    assert {job_id: each.state for job_id, each in ended.items()} == {
        fine: "COMPLETED",
        bad: "FAILED",
        withdrawn: "CANCELLED",
    }
    assert (ended[withdrawn].start_time_s, ended[withdrawn].duration_s) == (None, None)
    duration_s = ended[fine].duration_s
    assert duration_s is not None
    assert 1 <= duration_s < 60
    assert (ended[fine].job.gpus, ended[fine].job.time_limit_s) == (2, 300.0)
    since = adapter.ended_since(began)
    assert {fine, bad, withdrawn} <= {each.job.job_id for each in since}
    assert [each.end_time_s for each in since] == sorted(each.end_time_s for each in since)
    assert adapter.ended_since(time.time() + 60) == []


def test_the_record_of_an_array_is_gone_when_all_its_tasks_have_started(
    slurm: PrivateSlurm, adapter: SlurmAdapter
) -> None:
    began = time.time() - 2
    array = submit(slurm, "--array=1-2", "--gres=gpu:1")
    until_reads(slurm, adapter, lambda state: runs(state, f"{array}_1", f"{array}_2"), "both tasks run")
    (record,) = adapter.ended([array, f"{array}_1"], began)
    assert (record.job.job_id, record.state, record.duration_s) == (array, "CANCELLED", None)
    half = submit(slurm, "--array=1-2%1", "--gres=gpu:1")
    until_reads(slurm, adapter, lambda state: runs(state, f"{half}_1"), "one task runs")
    assert adapter.ended([half], began) == []
    slurm.run("scancel", half)
    until_reads(slurm, adapter, lambda state: half not in state.by_id, "what waited is gone")
    (cancelled,) = adapter.ended([half], began)
    assert (cancelled.state, cancelled.duration_s, cancelled.job.gpus) == ("CANCELLED", None, 1)
    assert all(each.job.job_id.replace("_", "").isdigit() for each in adapter.ended_since(began))


# Trouble


def test_a_controller_that_is_down(slurm: PrivateSlurm, adapter: SlurmAdapter, full: str) -> None:
    ids = [submit(slurm, FULL) for _ in range(10)]
    adapter.read()
    changes = [SetPriority(job_id, PRIORITIES.most) for job_id in ids]
    slurm.stop_controller()
    try:
        for ask in (adapter.read, lambda: adapter.apply(changes), lambda: adapter.ended(ids, 0.0)):
            with pytest.raises(ServiceUnavailableError):
                ask()
    finally:
        slurm.start_controller()
    state = adapter.read()
    assert queue(state) == ids
    assert adapter.apply([SetPriority(job_id, PRIORITIES.most) for job_id in ids]) == []
