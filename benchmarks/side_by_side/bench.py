"""One table: this tree, an older revision beside it in the same run, and programs of others that are given.

    LUCID_REFERENCE_DATA=DATA python -m benchmarks.side_by_side.bench [--all] [--write PAGE]

BEFORE=revision is the older one (default: the one that speed-ups are counted from). Others: `peers.py`. Every
figure is the least processor time (user and system) of a process of its own; trees take turns, so that a busy
machine is as busy for one as for the other. `--all` adds what takes minutes: a million jobs, training, the
gate, the search for settings, and Lucid's artifact.
"""

import argparse
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.side_by_side.chain import chain_figures
from benchmarks.side_by_side.figures import head, rows_of
from benchmarks.side_by_side.measured import CannotBeMeasuredError
from benchmarks.side_by_side.peers import Asked, measured_peers
from benchmarks.side_by_side.tasks import FORMATS, Inputs, Task, all_tasks, least
from benchmarks.side_by_side.trees import HERE, ROOT, Tree, older_tree
from experiments.pages import publish
from foundation.exit_codes import ERROR

REFERENCE_REVISION = "47437879"
ROWS = 200_000
BENCHMARKS = HERE.parent


def main(arguments: Sequence[str]) -> int:
    """Measure, print row by row, and write."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--all", action="store_true", help="also what takes minutes")
    parser.add_argument("--only", nargs="+", default=[], help="rows with one of these words alone")
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    chosen = parser.parse_args(arguments)
    data = os.environ.get("LUCID_REFERENCE_DATA")
    if not data:
        print("LUCID_REFERENCE_DATA is not set: there are no jobs to replay.", file=sys.stderr)
        return 1
    revision = os.environ.get("BEFORE", REFERENCE_REVISION)
    lines: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ERROR))  # so that the older tree is removed then, too
    with ExitStack() as during:
        scratch = Path(during.enter_context(tempfile.TemporaryDirectory(prefix="lucid-bench-")))
        before = during.enter_context(older_tree(revision))
        trees = [Tree("today", ROOT), *([before] if before else [])]
        lines += [_said(trees), "", *head()]
        print("\n".join(lines), flush=True)
        for row in _rows(trees, scratch, Path(data), everything=chosen.all, only=chosen.only):
            print(row, flush=True)
            lines.append(row)
    if chosen.write is not None:
        publish({"side-by-side": "\n".join(lines)}, chosen.write)
    return 0


def _rows(
    trees: Sequence[Tree], scratch: Path, data: Path, *, everything: bool, only: Sequence[str]
) -> Iterator[str]:
    """Measure task after task."""
    folders = {tree.name: scratch / tree.name for tree in trees}
    for folder in folders.values():
        folder.mkdir()
    inputs = _inputs(trees[0], scratch, data, everything=everything)
    for task in all_tasks(inputs):
        if only and not any(word in task.what for word in only):
            continue
        try:
            figures = least(task, trees, folders)
        except CannotBeMeasuredError as error:
            print(f"{task.what}: {error}", file=sys.stderr)
            continue
        if task.peers:
            figures += measured_peers(_asked(task, inputs, folders["today"], scratch, everything=everything))
        yield from rows_of(task.what, figures)
    if everything:
        try:
            for what, figures in chain_figures(trees, folders, data, only):
                yield from rows_of(what, figures)
        except CannotBeMeasuredError as error:  # what follows needs what failed
            print(f"From a log to a verdict: {error}", file=sys.stderr)


def _asked(task: Task, inputs: Inputs, folder: Path, scratch: Path, *, everything: bool) -> Asked:
    kind, name = task.peers
    file = inputs.logs[name] if kind == "ingest" else folder / f"{kind}-{name}.csv"
    return Asked(kind, name, file, scratch / "peers", everything)


def _inputs(tree: Tree, scratch: Path, data: Path, *, everything: bool) -> Inputs:
    """Make the files that all trees are given, by today's tree."""
    (scratch / "nodes.csv").write_text("virtual_cluster,nodes\nphilly,48\n")
    logs = {name: scratch / f"{name}.log" for name in FORMATS}
    for name, file in logs.items():
        tree.python(BENCHMARKS / "bench_readers.py", "--write-log", name, str(ROWS), file, folder=scratch)
    million = None
    if everything:
        million = (scratch / "million.csv", scratch / "million_nodes.csv")
        tree.python(BENCHMARKS / "large_simulations.py", "--write", *million, folder=scratch)
    week = data / "reference" / "lucid" / "week1vc48_jobs.csv.gz"
    return Inputs(week, scratch / "nodes.csv", ROWS, logs, million)


def _said(trees: Sequence[Tree]) -> str:
    """What is measured, when and where."""
    before = f"; *before* is {trees[1].revision}" if len(trees) > 1 else ""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = (line for line in info.read_text().splitlines() if line.startswith("model name"))
        cpu = next(lines, cpu).partition(":")[2].strip() or cpu
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {cpu}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}: *today* is {trees[0].revision}{before}."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
