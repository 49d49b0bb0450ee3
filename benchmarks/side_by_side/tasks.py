"""What is measured of a tree: replays by the engine alone, whole commands, ingests, starts of programs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.side_by_side.figures import Figure, read_starts
from benchmarks.side_by_side.trees import HERE, Tree

REPLAYS = HERE / "replays.py"
INGESTS = HERE / "ingests.py"
WEEK = ("fifo", "sjf", "qssf", "easy", "tsafrir_easy", "srtf", "tiresias", "clarity", "fair_share")
CLIFFS = {
    "pool_64000": "20,000 jobs on a pool of 64,000 GPUs",
    "atlas_1152": "Atlas on 1,152 nodes of 8",
    "atlas_9216": "Atlas on 9,216 nodes of 1",
}
# Peers without nodes replay the same jobs on a counter of processors, and so does ours beside them.
COUNTED = {
    "week_pool": "week1vc48 on a pool of 384 GPUs",
    "nasa": "NASA iPSC on 128 processors",
    "atlas": "LLNL Atlas on 9,216 processors",
}
STARTS = {
    "import of live_scheduler.client": ("-c", "import live_scheduler.client"),
    "`lucid --help`": ("-m", "lucid_cli", "--help"),
    "`lucid status --help`": ("-m", "lucid_cli", "status", "--help"),
}
FORMATS = ("sacct", "helios", "swf", "philly-csv")
ROUNDS_OF_SHORT = 2
LONG_S = 5.0


@dataclass(frozen=True)
class Task:
    """One row of the table for each program. `measure` runs it once in a tree and a folder of that tree.

    `peers` names the task for programs of others (`peers.py`); `long` ones are left to a long run.
    """

    what: str
    measure: Callable[[Tree, Path], Figure]
    peers: tuple[str, ...] = ()
    long: bool = False


@dataclass(frozen=True)
class Inputs:
    """Files that every tree is given alike."""

    week: Path
    week_nodes: Path
    rows: int
    logs: Mapping[str, Path]
    million: tuple[Path, Path] | None


def replay(scenario: str, policy: str) -> Callable[[Tree, Path], Figure]:
    """The engine alone: its own clock, from the first event to the last."""

    def measure(tree: Tree, folder: Path) -> Figure:
        starts = folder / f"{scenario}-{policy}.csv"
        done = tree.python(REPLAYS, scenario, policy, "3", starts, folder=folder)
        said = json.loads(done.out.strip().splitlines()[-1])
        return Figure(tree.name, said["cpu_s"], None, said["jobs"], read_starts(starts))

    return measure


def command(*words: str | Path, jobs: int | None = None) -> Callable[[Tree, Path], Figure]:
    """A whole command, its start included."""

    def measure(tree: Tree, folder: Path) -> Figure:
        done = tree.lucid(*words, folder=folder)
        return Figure(tree.name, done.cpu_s, done.peak_mib, jobs)

    return measure


def start(words: Sequence[str]) -> Callable[[Tree, Path], Figure]:
    """A program that ends when it has begun."""

    def measure(tree: Tree, folder: Path) -> Figure:
        done = tree.python(*words, folder=folder)
        return Figure(tree.name, done.cpu_s, done.peak_mib)

    return measure


def ingest(source_format: str, file: Path) -> Callable[[Tree, Path], Figure]:
    """An ingest without the start of its process."""

    def measure(tree: Tree, folder: Path) -> Figure:
        done = tree.python(INGESTS, source_format, file, folder / "lakes", folder=folder)
        said = json.loads(done.out.strip().splitlines()[-1])
        return Figure(tree.name, said["cpu_s"], said["peak_mib"], said["rows"])

    return measure


def least(task: Task, trees: Sequence[Tree], folders: Mapping[str, Path]) -> list[Figure]:
    """Run a task in each tree in turn, several times where it is short; the least time of each."""
    found = {tree.name: task.measure(tree, folders[tree.name]) for tree in trees}
    if max(figure.cpu_s for figure in found.values()) < LONG_S:
        for _ in range(ROUNDS_OF_SHORT - 1):
            for tree in trees:
                again = task.measure(tree, folders[tree.name])
                found[tree.name] = min(found[tree.name], again, key=lambda figure: figure.cpu_s)
    return list(found.values())


def all_tasks(inputs: Inputs) -> list[Task]:
    """Return the table's tasks, in its order."""
    week = ("--jobs", inputs.week, "--format", "reference-csv", "--nodes", inputs.week_nodes)
    policies = ("fifo", "sjf", "qssf", "easy")
    tasks = [
        Task(f"{policy}, week1vc48", replay("week1vc48", policy), peers=("week1vc48", policy))
        for policy in WEEK
    ]
    tasks.append(Task("lucid, week on 64 nodes", replay("week1vc64", "lucid")))
    for scenario, words in COUNTED.items():
        tasks += [
            Task(f"{policy}, {words}", replay(scenario, policy), peers=(scenario, policy))
            for policy in ("fifo", "easy")
        ]
    tasks += [Task(f"fifo, {words}", replay(scenario, "fifo")) for scenario, words in CLIFFS.items()]
    tasks += [
        Task(
            "`lucid simulate --policy fifo`, week1vc48",
            command("simulate", *week, "--policy", "fifo", "--out", "out", jobs=10_650),
        ),
        Task(
            "`lucid sweep`, 4 policies x 2 seeds, week1vc48",
            command(
                *("sweep", *week, "--policy", *policies, "--seed", "0,1", "--workers", "1"),
                *("--fresh", "--out", "sweep"),
            ),
        ),
        Task(
            "`lucid plan`, week1vc48",
            command("plan", *week, "--workers", "1", "--points", "4", "--out", "plan", "--json"),
        ),
    ]
    tasks += [
        Task(f"ingest of {inputs.rows:,} rows, {name}", ingest(name, file), peers=("ingest", name))
        for name, file in inputs.logs.items()
    ]
    tasks += [Task(what, start(words)) for what, words in STARTS.items()]
    if inputs.million is not None:
        jobs, nodes = inputs.million
        tasks.append(
            Task(
                "`lucid simulate --policy fifo`, a million jobs",
                command(
                    *("simulate", "--jobs", jobs, "--format", "reference-csv", "--nodes", nodes),
                    *("--policy", "fifo", "--out", "million"),
                    jobs=1_000_000,
                ),
                long=True,
            )
        )
    return tasks
