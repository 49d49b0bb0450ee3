"""Whatever becomes of Slurm, and whatever its users and admins set, the live scheduler does no harm.

Faults of the live scheduler itself are in test_live_faults.py.
"""

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from live_scheduler.slurm.control import PRIORITIES
from tests.evidence import Evidence
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import NAMES, LiveCluster, queue_up
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow

BURST, PER_PASS = 1_000, 250


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1"), Node("n2", gpus=2), Node("p1", gpus=2)),
        partitions=(
            Partition("vc1", ("n1",), 60),
            Partition("vc2", ("n2",)),
            Partition("prof", ("p1",), 60),
        ),
        accounting=True,
        AuthInfo="cred_expire=8",  # a requeued job waits for the life of a credential
    ) as slurm:
        yield slurm


@pytest.fixture
def cluster(cluster: LiveCluster) -> LiveCluster:
    cluster.keep_release()
    return cluster


@pytest.mark.evidence(table="faults", rows=("24",))
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_slurmctld_is_restarted(cluster: LiveCluster, number: signal.Signals, evidence: Evidence) -> None:
    block, jobs = queue_up(cluster)
    running = cluster.submit("train_u1", "--partition=vc2", seconds=1)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    cluster.wait(lambda: cluster.starts()[running], "one runs")
    # What slurmctld has not saved when it is killed, it never knew.
    _wait_reported(cluster, [*jobs, running])
    cluster.slurm.wait_saved(block)
    cluster.slurm.stop_controller(number)
    # So long that the switch wants to return the order, and cannot.
    cluster.wait(lambda: not cluster.beats(), "no pass goes well")
    cluster.slurm.start_controller()
    cluster.wait_ranked(jobs[::-1])
    assert daemon.process.poll() is None
    late = cluster.submit("train_u0")
    cluster.wait(lambda: late in cluster.ranked(), "it goes on")
    cluster.free(block)
    cluster.assert_each_ran_once()
    evidence(
        "faults",
        "24",
        "Stopped or killed, it finds the queue in the release's order again within some passes; "
        "each job runs once.",
    )


@pytest.mark.evidence(table="faults", rows=("24",))
def test_the_daemon_dies_while_slurmctld_is_away(cluster: LiveCluster, evidence: Evidence) -> None:
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    _wait_reported(cluster, jobs)
    cluster.slurm.wait_saved(block)
    cluster.slurm.stop_controller(signal.SIGKILL)
    daemon.kill()
    log = cluster.state / "watch.log"
    cluster.wait(lambda: "trouble" in log.read_text(), "the switch has tried")
    cluster.slurm.start_controller()
    cluster.wait_returned(jobs)
    cluster.free(block)
    cluster.assert_each_ran_once()
    evidence(
        "faults",
        "24",
        "If the daemon dies meanwhile, the dead man's switch returns Slurm's own order as soon as it can.",
    )


@pytest.mark.evidence(table="faults", rows=("52",))
def test_a_node_vanishes_and_comes_back(cluster: LiveCluster, evidence: Evidence) -> None:
    def state_of(node: str) -> str:
        return cluster.slurm.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T")

    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    cluster.slurm.crash_node("n2")
    cluster.slurm.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=vanished")
    try:
        stranded = cluster.submit("train_u3", "--partition=vc2")
        late = cluster.submit("train_u0")
        cluster.wait(lambda: late in cluster.ranked(), "the others are ranked")
        assert daemon.process.poll() is None
        assert cluster.beats(daemon)
    finally:
        cluster.slurm.start_node("n2")  # it is no longer down once it registers: ReturnToService=2
        cluster.slurm.wait_for(lambda: "down" not in state_of("n2"), "the node is back")
    cluster.wait_ended([stranded])
    cluster.free(block)
    cluster.assert_each_ran_once()
    evidence(
        "faults",
        "52",
        "Jobs of other nodes are ranked on; what waits for the node runs when it is back, each job once.",
    )


@pytest.mark.evidence(table="faults", rows=("25",))
def test_slurmdbd_goes_and_comes_back(cluster: LiveCluster, evidence: Evidence) -> None:
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    cluster.slurm.stop_accounting(signal.SIGKILL)
    try:
        late = cluster.submit("train_u0")
        cluster.wait(lambda: late in cluster.ranked(), "it goes on")
        cluster.free(block)
        cluster.wait_ended()
        block = cluster.block()
        more = [cluster.submit(name) for name in NAMES]
        cluster.wait_ranked(more[::-1])
    finally:
        cluster.slurm.start_accounting()
    cluster.free(block)
    cluster.assert_each_ran_once()
    # What ended meanwhile is learnt when accounting knows it.
    journal = cluster.state / "journal.jsonl"
    cluster.wait(
        lambda: journal.read_text().count('"ended"') >= len(cluster.submitted), "the journal has all ends"
    )
    assert daemon.process.poll() is None
    evidence("faults", "25", "Ranking goes on; ends are learnt when accounting knows them.")


@pytest.mark.evidence(table="faults", rows=("25",))
@pytest.mark.parametrize("killed", [False, True])
def test_slurmdbd_hangs(cluster: LiveCluster, killed: bool, evidence: Evidence) -> None:
    """slurmctld changes no job that it is about to report; killed meanwhile, it never changes it again."""
    block, jobs = queue_up(cluster)
    _wait_reported(cluster, jobs)
    with cluster.slurm.frozen_accounting():
        fresh = [cluster.submit("train_u0") for _ in range(3)]
        cluster.wait(lambda: not _changes(cluster, fresh[0]), "slurmctld reports them")
        daemon = cluster.started()
        cluster.wait(lambda: "refused" in daemon.said(), "some cannot be ranked")
        cluster.wait(lambda: cluster.ranked() >= set(jobs), "the others are")
        assert "slurmdbd has not answered yet" in daemon.said(), "and no pass waits for it"
        cluster.wait(cluster.beats, "it lives")
        if killed:
            cluster.slurm.wait_saved(block)
            cluster.slurm.stop_controller(signal.SIGKILL)
    if killed:
        cluster.slurm.start_controller()
        cluster.wait(lambda: cluster.ranked() >= set(jobs), "those that can be ranked are")
    else:
        cluster.wait(lambda: cluster.ranked() >= {*jobs, *fresh}, "all are ranked")
    late = cluster.submit("train_u0")
    cluster.wait(lambda: late in cluster.ranked(), "it goes on")
    assert daemon.process.poll() is None
    daemon.kill()
    cluster.wait(lambda: not cluster.ranked(), "every job that can be given back is")
    cluster.free(block)
    cluster.wait_ended()
    assert cluster.starts() == dict.fromkeys([*jobs, *fresh, late], 1)
    evidence(
        "faults",
        "25",
        "Hanging, it stops no pass: `slurmdbd has not answered yet`; jobs that Slurm will not "
        "change are refused, the others are ranked.",
    )


@pytest.mark.evidence(table="faults", rows=("26",))
def test_an_array_is_ranked_as_one_and_runs_task_by_task(cluster: LiveCluster, evidence: Evidence) -> None:
    block, jobs = queue_up(cluster)
    array = cluster.submit("train_u1", "--array=0-19%3")
    cluster.started()
    cluster.wait(lambda: f"{array}_[0-19%3]" in cluster.ranked(), "the array is ranked, and whole")
    throttle = cluster.facts(array)["ArrayTaskThrottle"]
    assert throttle == "3"
    cluster.free(block)
    cluster.wait_ended([*jobs, array])
    starts = cluster.starts()
    wanted = [*jobs, *(f"{array}_{task}" for task in range(20))]
    assert starts == dict.fromkeys(wanted, 1)
    words = ["sacct", "-a", "-X", "-D", "-P", "-n", f"--jobs={array}", "-o", "JobID,State"]
    cluster.wait(
        lambda: (
            sorted(cluster.slurm.run(*words).split())
            == sorted(f"{array}_{task}|COMPLETED" for task in range(20))
        ),
        "accounting has each task once",
    )
    evidence("faults", "26", "An array is ranked as a whole, keeps its throttle, and each task runs once.")


def test_an_array_that_runs_when_the_daemon_dies(cluster: LiveCluster) -> None:
    block = cluster.block()
    array = cluster.submit("train_u1", "--array=0-23", seconds=2)
    last = cluster.submit("train_u5", gpus=4)
    daemon = cluster.started()
    cluster.free(block)
    cluster.wait(lambda: any(name.startswith(f"{array}_") for name in cluster.starts()), "it runs")
    daemon.kill()
    cluster.wait_ended([array, last])
    starts = {name: count for name, count in cluster.starts().items() if name != block}
    assert starts == dict.fromkeys([last, *(f"{array}_{task}" for task in range(24))], 1)


@pytest.mark.evidence(table="faults", rows=("26",))
def test_what_users_and_admins_have_set_stays(cluster: LiveCluster, evidence: Evidence) -> None:
    slurm = cluster.slurm
    block, jobs = queue_up(cluster)
    slurm.run(
        *("scontrol", "create", "reservation", "ReservationName=later", "StartTime=now+1days"),
        *("Duration=10", "Nodes=n1", f"Users={_user()}"),
    )
    try:
        special = {
            "held by its user": cluster.submit("train_u0", "--hold"),
            "held by an admin": cluster.submit("train_u0"),
            "depends on another": cluster.submit("train_u0", f"--dependency=afterany:{block}"),
            "begins later": cluster.submit("train_u0", "--begin=now+1hour"),
            "in a reservation": cluster.submit("train_u0", "--reservation=later"),
            "beyond a limit": cluster.submit("train_u0", "--time=600"),
            "named its node": cluster.submit("train_u0", "--nodelist=n1", "--comment=mine", "--time=7"),
            "held when it was ranked": cluster.submit("train_u0"),
        }
        slurm.run("scontrol", "hold", special["held by an admin"])
        before = {what: cluster.facts(job) for what, job in special.items()}
        daemon = cluster.started()
        cluster.wait(lambda: {*jobs, special["named its node"]} <= cluster.ranked(), "the others are ranked")
        hold = special["held when it was ranked"]
        cluster.wait(lambda: hold in cluster.ranked(), "it is ranked")
        slurm.run("scontrol", "uhold", hold)
        cluster.wait(lambda: cluster.priorities()[hold] == 0, "its user holds it")
        late = cluster.submit("train_u3")
        cluster.wait(lambda: late in cluster.ranked(), "passes go by")
        assert {what: cluster.facts(job) for what, job in special.items()} == before
        held = [special[what] for what in ("held by its user", "held by an admin", "held when it was ranked")]
        assert {cluster.priorities()[job] for job in held} == {0}
        # Neither the way back releases them.
        daemon.kill()
        cluster.wait(lambda: not cluster.ranked(), "the order is Slurm's")
        assert {what: cluster.facts(job) for what, job in special.items()} == before
        assert {cluster.priorities()[job] for job in held} == {0}
        assert cluster.queue("%i %k")[special["named its node"]] == "mine"
        (begins,) = cluster.slurm.run("squeue", "-h", "-o%V %S", f"-j{special['begins later']}").splitlines()
        submitted, start = (datetime.fromisoformat(each) for each in begins.split())
        assert start - submitted >= timedelta(minutes=59)
        reasons = cluster.queue("%i %r")
        assert reasons[held[0]] == "JobHeldUser"
        assert reasons[held[2]] == "JobHeldUser"
        # The block ends, and every job that may start does, and no other.
        cluster.free(block)
        free = [*jobs, late, special["depends on another"], special["named its node"]]
        cluster.wait_ended(free)
        assert cluster.starts() == dict.fromkeys(free, 1)
        slurm.run("scontrol", "release", *held)
        cluster.wait_ended(held)
        assert cluster.starts() == dict.fromkeys([*free, *held], 1)
    finally:
        cluster.slurm.run("scancel", *special.values())
        cluster.wait(lambda: _no_reservation(cluster), "the reservation is gone")
    evidence(
        "faults",
        "26",
        "Holds, dependencies, begin times, reservations, limits and node lists stay as they were, "
        "also after a kill.",
    )


def _wait_reported(cluster: LiveCluster, jobs: list[str]) -> None:
    cluster.wait(lambda: cluster.accounted(jobs).keys() >= set(jobs), "slurmdbd knows them")


def _changes(cluster: LiveCluster, job: str) -> bool:
    """Whether Slurm changes a job."""
    try:
        cluster.slurm.run("scontrol", "update", f"JobId={job}", "Comment=seen")
    except subprocess.CalledProcessError:
        return False
    return True


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _no_reservation(cluster: LiveCluster) -> bool:
    if "later" not in cluster.slurm.run("scontrol", "--oneliner", "show", "reservation"):
        return True
    cluster.slurm.run("scontrol", "delete", "ReservationName=later")
    return False


def test_a_burst_of_unranked_jobs_is_ordered_over_passes_while_the_queue_moves(cluster: LiveCluster) -> None:
    (cluster.folder / "live.toml").write_text(
        f"pass_interval_s = 0.25\ndead_after_s = 20.0\nhttp_port = -1\nchanges_per_pass = {PER_PASS}\n"
    )
    block, jobs = queue_up(cluster)
    daemon = cluster.started()
    cluster.wait_ranked(jobs[::-1])
    burst = f"""#!/bin/sh
i=0
while [ $i -lt {BURST // 2} ]; do
    sbatch --parsable --output=/dev/null --job-name=train_u$((i % 6)) --gres=gpu:1 "$1"
    i=$((i + 1))
done
"""
    job_script = cluster.folder / "job.sh"
    job_script.write_text(f'#!/bin/sh\necho "$SLURM_JOB_ID" >> {cluster.starts_file}\n')
    submitters = [
        subprocess.Popen(
            ["sh", "-c", burst, "sh", str(job_script)],
            env=cluster.slurm.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    cluster.free(block)  # the queue moves meanwhile
    cluster.wait_ended(jobs)
    ids = [job for each in submitters for job in each.communicate(timeout=300)[0].split()]
    assert len(set(ids)) == BURST
    cluster.slurm.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
    cluster.wait(lambda: "RUNNING" not in cluster.queue("%i %T").values(), "nothing runs any more")
    cluster.wait(
        lambda: set(cluster.priorities()) == cluster.ranked(), "all that wait are ranked", limit_s=120
    )
    assert daemon.process.poll() is None
    # No job is lost, and none started twice.
    waiting, starts = set(cluster.priorities()), cluster.starts()
    ended = set(ids) - waiting
    assert {job: starts[job] for job in ended} == dict.fromkeys(ended, 1)
    assert not {job for job in waiting if starts[job]}
    assert all(PRIORITIES.least <= each <= PRIORITIES.most for each in cluster.priorities().values())
    assert waiting
    # And Slurm's own order returns to all of them.
    daemon.kill()
    cluster.wait_returned(sorted(waiting, key=int))
    cluster.slurm.run("scancel", "--user", _user())
    cluster.slurm.run("scontrol", "update", "NodeName=n1", "State=RESUME")
