"""A private Slurm with accounting, and what tests ask of it."""

from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

NODES = (Node("n1"), Node("n2"), Node("n3"), Node("p1", gpus=2))
PARTITIONS = (
    Partition("vc1", ("n1", "n2")),
    Partition("vc2", ("n3",)),
    Partition("prof", ("p1",), 60),
    Partition("idle", ("n1",)),
)


def sbatch(slurm: PrivateSlurm, command: str, *options: str) -> str:
    """Submit a shell command and return the job's id."""
    return slurm.run("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={command}").strip()


def told(slurm: PrivateSlurm, job_id: str) -> str:
    """The states of a job's runs, as accounting has them.

    slurmctld tells of starts in batches: until then accounting knows a short job's end and not its partition,
    and of a job that still runs nothing. Such a run is not told of yet.
    """
    options = ["--allusers", "--allocations", "--duplicates", "--noheader", "--parsable2"]
    rows = slurm.run("sacct", *options, "--format=Partition,State", f"--jobs={job_id}").splitlines()
    return " ".join(state for partition, state in (row.split("|") for row in rows) if partition)


def wait_until(slurm: PrivateSlurm, job_id: str, *states: str) -> None:
    """Wait until accounting tells of runs in these states."""

    def as_told() -> bool:
        found = told(slurm, job_id).replace(" by 0", "").split()
        return len(found) == len(states) and all(map(str.startswith, found, states))

    slurm.wait_for(as_told, f"accounting has job {job_id} as {states}")
