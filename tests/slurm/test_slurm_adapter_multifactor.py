"""The adapter where Slurm computes priorities (priority/multifactor): above all of them, and back again."""

import shutil
from collections.abc import Iterator

import pytest

from live_scheduler.adapter import ReturnToDefault, SetPriority
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.control import PRIORITIES
from tests.slurm.adapter_jobs import FULL, runs, submit, until_reads
from tests.slurm.conftest import commands_talk_to, skip_without_slurm
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def computing() -> Iterator[PrivateSlurm]:
    """A node in two partitions; large jobs come first, and a nice job last."""
    skip_without_slurm()
    folder = short_folder()
    cluster = PrivateSlurm(
        folder,
        nodes=(Node("n1"), Node("n2")),
        partitions=(
            Partition("vc1", ("n1", "n2")),
            Partition("vc2", ("n2",), options="PriorityJobFactor=10"),
        ),
        settings={
            "PriorityType": "priority/multifactor",
            "PriorityWeightJobSize": "100000",
            "PriorityWeightPartition": "4000000000",
            "PriorityCalcPeriod": "1",
        },
    )
    try:
        with cluster:
            yield cluster
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def slurm(computing: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    yield from commands_talk_to(computing, monkeypatch)


def test_ours_lie_above_all_and_go_back_to_what_slurm_computes(slurm: PrivateSlurm) -> None:
    adapter = SlurmAdapter()
    full = submit(slurm, "--nodes=2", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, full), "the cluster is full")
    wide = submit(slurm, "--nodes=2", "--ntasks=64", FULL)
    narrow = submit(slurm, FULL)
    nice = submit(slurm, "--nice=1000", FULL)
    both = submit(slurm, "--partition=vc1,vc2", FULL)
    preferred = submit(slurm, "--partition=vc2", FULL)
    held = submit(slurm, "--hold", FULL)
    ids = [wide, narrow, nice, both, preferred]
    before = {job_id: adapter.read().by_id[job_id].priority for job_id in ids}
    assert all(priority is not None and priority < PRIORITIES.least for priority in before.values())
    changes = [SetPriority(job_id, PRIORITIES.least + at) for at, job_id in enumerate(ids)]
    assert adapter.apply(changes) == []
    late = submit(slurm, "--partition=vc2", FULL)
    jobs = adapter.read().by_id
    assert [jobs[job_id].priority for job_id in ids] == [change.priority for change in changes]
    assert (jobs[late].priority or 0) < PRIORITIES.least
    # They keep their places whatever Slurm computes meanwhile, and over a restart.
    slurm.stop_controller()
    slurm.start_controller()
    slurm.run("scontrol", "reconfigure")
    jobs = adapter.read().by_id
    assert [jobs[job_id].priority for job_id in ids] == [change.priority for change in changes]
    # What is given back gets what Slurm computes now, whatever it had before.
    back = [ReturnToDefault(job_id, 17 if at % 2 else None) for at, job_id in enumerate(ids)]
    assert adapter.apply(back) == []
    assert [refusal.change for refusal in adapter.apply([ReturnToDefault(held)])] == [ReturnToDefault(held)]
    state = adapter.read()
    assert {job_id: state.by_id[job_id].priority for job_id in ids} == before
    assert state.by_id[held].held


def test_tasks_of_an_array_that_were_changed_alone_are_jobs_of_their_own_and_keep_their_nice_values(
    slurm: PrivateSlurm,
) -> None:
    adapter = SlurmAdapter()
    full = submit(slurm, "--nodes=2", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, full), "the cluster is full")
    array = submit(slurm, "--array=1-10", "--gres=gpu:1", "--nice=7")
    third, fifth, seventh, ninth = (f"{array}_{task}" for task in (3, 5, 7, 9))
    for task, change in ((third, "Nice=50"), (fifth, "TimeLimit=17"), (seventh, "Gres=gpu:2")):
        slurm.run("scontrol", "update", f"JobId={task}", change)

    def nice_values() -> dict[str, str]:
        lines = slurm.run("squeue", "--noheader", "--array", f"--jobs={array}", "--format=%i %y").splitlines()
        return dict(line.split() for line in lines)

    jobs = adapter.read().by_id
    assert {job_id: job.tasks for job_id, job in jobs.items() if job_id != full} == {
        array: 7,
        third: 1,
        fifth: 1,
        seventh: 1,
    }
    assert (jobs[array].time_limit_s, jobs[fifth].time_limit_s) == (None, 1020.0)
    assert (jobs[array].gpus, jobs[seventh].gpus) == (1, 2)
    before = nice_values()
    assert [before[task] for task in (f"{array}_1", third, fifth)] == ["7", "50", "7"]
    changes = [SetPriority(job_id, PRIORITIES.least + at) for at, job_id in enumerate((array, third, fifth))]
    assert adapter.apply(changes) == []
    ranked = adapter.read().by_id
    assert [ranked[change.job_id].priority for change in changes] == [change.priority for change in changes]
    assert ranked[seventh].priority == jobs[seventh].priority
    # A task that leaves its array takes the given priority along, and not the nice value that it replaced.
    slurm.run("scontrol", "update", f"JobId={ninth}", "TimeLimit=18")
    left = adapter.read().by_id
    assert left[ninth].priority == changes[0].priority
    assert adapter.apply([ReturnToDefault(job_id) for job_id in (array, third, fifth, ninth)]) == []
    assert nice_values() == before
    returned = adapter.read().by_id
    assert all(returned[job_id].priority == jobs[job_id].priority for job_id in (array, third, fifth))
