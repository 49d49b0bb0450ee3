"""Nodes of a real Slurm are lent from one partition to another and taken back, whatever happens meanwhile."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.lending.live.giving_back import LOANS_FILE, LoanRecord
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import NAME, LiveCluster, LiveProcess
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow

INFERENCE = [f"i{number}" for number in range(1, 6)]
BOTH = "--partition=train,onloan"


@pytest.fixture(scope="module")
def standing() -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=[Node("t1"), *map(Node, INFERENCE)],
        partitions=(Partition("train", ["t1"]), Partition("inference", INFERENCE), Partition("onloan", [])),
    ) as slurm:
        yield slurm


class Loans:
    """A live scheduler that lends nodes; `use` says what inference uses."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.usage = cluster.folder / "usage"

    def use(self, share: float) -> None:
        scratch = self.usage.with_suffix(".new")
        scratch.write_text(f"{share}\n")
        scratch.rename(self.usage)

    @property
    def file_source(self) -> str:
        return f'usage_file = "{self.usage}"\n'

    def start(self, mode: str = "control", more: str = "", source: str = "") -> LiveProcess:
        settings = self.cluster.folder / "live.toml"
        if "[loans]" not in settings.read_text():
            settings.write_text(
                settings.read_text().replace("dead_after_s = 4.0", "dead_after_s = 2.0")
                + f'[loans]\nmode = "{mode}"\n{source or self.file_source}usage_every_s = 0.2\n'
                f"rules = {{ period_s = 0.5 }}\n{more}"
            )
        return self.cluster.start(mode="observe")

    def nodes(self, partition: str) -> list[str]:
        text = self.cluster.slurm.run("sinfo", "-h", "-N", f"--partition={partition}", "--format=%N")
        return sorted(text.split())

    def where(self) -> tuple[list[str], list[str]]:
        """The nodes of inference, and those on loan."""
        return self.nodes("inference"), self.nodes("onloan")

    def wait_lent(self, *nodes: str) -> None:
        rest = [name for name in INFERENCE if name not in nodes]
        self.cluster.wait(lambda: self.where() == (rest, list(nodes)), f"{nodes} are on loan")

    def wait_home(self) -> None:
        """All nodes are inference's again, and on no record."""
        self.wait_lent()
        self.cluster.wait(lambda: not len(LoanRecord(self.cluster.state)), "the record is empty")

    def status(self) -> dict[str, object]:
        """What `lucid live status` says of loans; empty while nobody answers."""
        said = self.cluster.lucid("live", "status", f"--cluster={NAME}", "--json")
        return json.loads(said.stdout).get("loans") or {} if said.returncode == 0 else {}

    def wait_running(self, jobs: dict[str, str]) -> None:
        """Wait until jobs run on these nodes."""
        self.cluster.wait(lambda: jobs.items() <= self.cluster.queue("%i %N").items(), f"{jobs} run")


@pytest.fixture
def loans(
    standing: PrivateSlurm, tmp_path: Path, small_model_files: dict[str, list[Path]]
) -> Iterator[Loans]:
    cluster = LiveCluster(standing, tmp_path, small_model_files, http_port=0)
    cluster.keep_release()
    try:
        yield Loans(cluster)
    finally:
        cluster.end_processes()
        if "i2" in standing.run("sinfo", "-h", "--states=DRAIN", "--format=%N"):
            standing.run("scontrol", "update", "NodeName=i2", "State=RESUME")
        if "ReservationName=class" in standing.run("scontrol", "show", "reservation"):
            standing.run("scontrol", "delete", "ReservationName=class")
        for name, nodes in (("onloan", ""), ("inference", ",".join(INFERENCE))):
            standing.run("scontrol", "update", f"PartitionName={name}", f"Nodes={nodes}")
        cluster.end()


def test_nodes_are_lent_and_taken_back_and_jobs_that_must_stay_are_left_alone(loans: Loans) -> None:
    cluster = loans.cluster
    cluster.slurm.run("scontrol", "update", "NodeName=i2", "State=DRAIN", "Reason=fans")
    reservation = ("Reservation=class", "Nodes=i3", "StartTime=now+2hours", "Duration=30", "Users=root")
    cluster.slurm.run("scontrol", "create", "reservation", *reservation)
    served = cluster.submit("serve", "--partition=inference", "--nodelist=i1", seconds=600, gpus=4)
    loans.wait_running({served: "i1"})
    blocks = [cluster.submit("train", BOTH, seconds=600, gpus=4) for _ in range(3)]
    loans.use(0.25)  # of the four that are up: one is needed, one is headroom
    loans.start()
    loans.wait_lent("i4", "i5")
    loans.wait_running({blocks[0]: "t1", blocks[1]: "i4", blocks[2]: "i5"})
    cluster.slurm.run("scontrol", "update", f"JobId={blocks[1]}", "Requeue=0")
    cluster.wait(lambda: loans.status().get("on_loan"), "it answers")
    said = loans.status()
    assert (said["servers"], said["needed"], said["headroom"], said["target"]) == (4, 1, 1, 2)
    loans.use(0.5)
    loans.wait_lent("i4")
    cluster.wait(lambda: cluster.queue("%i %T").get(blocks[2]) == "PENDING", "the job waits again")
    assert cluster.queue("%i %N")[blocks[1]] == "i4"
    # It waits in both partitions, and no longer than it has to.
    assert set(cluster.queue("%i %P")[blocks[2]].split(",")) == {"train", "onloan"}
    cluster.slurm.run("scancel", blocks[0])
    loans.wait_running({blocks[2]: "t1"})
    loans.use(1.0)
    cluster.wait(lambda: loans.status().get("short") == 1, "it is said that one cannot go back")
    assert loans.where() == (["i1", "i2", "i3", "i5"], ["i4"])
    cluster.slurm.run("scontrol", "update", "NodeName=i2", "State=RESUME")
    assert cluster.lucid("live", "restore", f"--cluster={NAME}", "--json").returncode == 0
    loans.wait_home()
    assert cluster.queue("%i %N")[blocks[1]] == "i4"  # it runs to its end


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_below_control_nothing_moves(loans: Loans, mode: str) -> None:
    loans.use(0.2)
    daemon = loans.start(mode)
    loans.cluster.wait(lambda: "would lend 3 nodes (i1, i2, i3)" in daemon.said(), "it is logged")
    loans.cluster.wait(lambda: loans.status().get("servers") == 5, "it answers")
    assert loans.status()["lend"] == (["i1", "i2", "i3"] if mode == "advise" else [])
    assert daemon.end() == 0
    assert loans.where() == (INFERENCE, [])
    assert not (loans.cluster.state / LOANS_FILE).exists()


# A reclaim of a node with a job, step by step; the first is when the intent is on the disk.
STEPS = {
    "before the node leaves": ("kill_at", "before update PartitionName=onloan"),
    "after the node has left": ("kill_at", "after update PartitionName=onloan"),
    "before the requeue": ("kill", "1"),
    "after the requeue": ("kill", "2"),
    "before the node joins": ("kill_at", "before update PartitionName=inference"),
    "after the node has joined": ("kill_at", "after update PartitionName=inference"),
}


@pytest.mark.parametrize("comes_back", [True, False])
def test_killed_in_mid_reclaim_inference_has_its_servers(loans: Loans, comes_back: bool) -> None:
    cluster = loans.cluster
    killed = cluster.folder / "faults" / "killed"
    daemon: LiveProcess | None = None
    for step, fault in STEPS.items():
        loans.use(0.2)
        daemon = daemon or loans.start()
        loans.wait_lent("i1", "i2", "i3")
        job = cluster.submit("train", "--partition=onloan", "--nodelist=i1", seconds=600)
        loans.wait_running({job: "i1"})
        cluster.fault(*fault)
        loans.use(1.0)
        cluster.wait(killed.exists, f"the daemon is killed {step}")
        killed.unlink()
        daemon = loans.start() if comes_back else None
        loans.wait_home()
        cluster.wait(lambda job=job: cluster.queue("%i %T").get(job) == "PENDING", f"killed {step}")
        cluster.slurm.run("scancel", job)
        cluster.wait(lambda: not cluster.queue(), "it is gone")


def test_killed_while_it_lends_nodes_are_somebodys(loans: Loans) -> None:
    loans.cluster.fault("kill_at", "after update PartitionName=inference")
    loans.use(0.2)
    loans.start()
    loans.cluster.wait((loans.cluster.folder / "faults" / "killed").exists, "the daemon is killed")
    assert loans.where() == (["i4", "i5"], [])
    loans.wait_home()
    loans.cluster.wait(loans.cluster.quiet, "the switch ends")
    assert "5 nodes" not in (loans.cluster.state / "watch.log").read_text()


def test_a_usage_that_is_lost_brings_all_home_and_a_restart_of_slurm_is_noticed(loans: Loans) -> None:
    cluster = loans.cluster
    loans.use(0.2)
    source = f'usage_command = ["cat", "{loans.usage}"]\n'
    daemon = loans.start(
        source=source, more="usage_lost_after_s = 2.0\nleast_kept = 3\nnever_lent = ['i[1-2]']\n"
    )
    loans.wait_lent("i3", "i4")
    job = cluster.submit("train", "--partition=onloan", seconds=600)
    loans.wait_running({job: "i3"})
    cluster.slurm.stop_controller()
    cluster.slurm.start_controller()  # every node is where slurm.conf has it, and the job goes on
    cluster.wait(lambda: cluster.queue("%i %T").get(job) != "RUNNING", "the job leaves inference's node")
    loans.wait_lent("i3", "i4")  # lent anew
    loans.usage.write_text("rm -rf /; 0.2\n")
    loans.wait_home()
    assert "says that the usage of inference is 'rm -rf /; 0.2'" in daemon.said()
    assert daemon.end() == 0
    cluster.wait(cluster.quiet, "the switch ends")
