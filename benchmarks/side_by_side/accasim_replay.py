"""Replays jobs in AccaSim, by the Python that has it: `python accasim_replay.py JOBS.csv POLICY GPUS FOLDER`.

One pool of processors, as one node that has them all. Prints one JSON object: the processor time (s) of the
simulation, reading included, its version, and each job's start (s). Needs AccaSim and the standard library.
"""

import csv
import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut
from accasim.base.simulator_class import Simulator

POLICIES = {"fifo": FirstInFirstOut, "easy": EASYBackfilling}
FIRST_S = 1_000_000  # of the simulated clock: 0 stands for no time there
STARTS = {
    "format": "{job_id};{start}",
    "attributes": {"job_id": ("id", "str"), "start": ("start_time", "int")},
}


def main(jobs: Path, policy: str, gpus: int, folder: Path) -> dict[str, Any]:
    """Replay the jobs in the order of their submission."""
    with jobs.open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    log, system = folder / "jobs.swf", folder / "system.json"
    with log.open("w", encoding="utf-8") as swf:
        for i, row in enumerate(rows, start=1):
            run_s, size = int(float(row["duration_s"])), row["gpus"]
            submitted_s = int(float(row["submit_time_s"])) + FIRST_S
            known = (
                i,
                submitted_s,
                -1,
                run_s,
                size,
                -1,
                -1,
                size,
                max(1, run_s),
                -1,
                1,
                1,
                1,
                1,
                1,
                1,
                -1,
                -1,
            )
            swf.write(" ".join(map(str, known)) + "\n")
    system.write_text(
        json.dumps(
            {
                "system_name": "pool",
                "start_time": 0,
                "equivalence": {"processor": {"core": 1}},
                "groups": {"pool": {"core": gpus}},
                "resources": {"pool": 1},
            }
        )
    )
    simulator = Simulator(
        str(log),
        str(system),
        POLICIES[policy](FirstFit()),
        SCHEDULE_OUTPUT=STARTS,
        show_statistics=False,
        statistics_output=False,
    )
    began = process_time()
    files = simulator.start_simulation()
    taken_s = process_time() - began
    (found,) = (Path(file) for file in files.values() if Path(file).name.startswith("sched-"))
    said = (line.split(";") for line in found.read_text().splitlines())
    starts = {rows[int(number) - 1]["job_id"]: int(start) - FIRST_S for number, start in said}
    return {"cpu_s": taken_s, "version": version("accasim"), "starts": starts}


if __name__ == "__main__":
    answer = main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    print("\n" + json.dumps(answer))
