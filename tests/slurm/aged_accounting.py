"""Gives a young cluster a past, for training needs one: what ran in a minute was done on every day before.

The jobs really ran. In the database behind slurmdbd they are moved back in time and repeated day by day. A
second of theirs becomes several, and no run takes as long as the day before.
"""

import subprocess
import time

from tests.slurm.private_slurm import CLUSTER_NAME, PrivateSlurm

_TABLE = f"{CLUSTER_NAME}_job_table"
_TIMES = ("time_submit", "time_eligible", "time_start", "time_end")


def repeat_daily(slurm: PrivateSlurm, days: int, *, stretch: int) -> int:
    """Move all jobs that ended to each of the last `days` days, a second made `stretch`.

    Runs take half to twice as long, by chance (always the same). Returns how many jobs there are.
    """
    (begun, last_id), *_ = _rows(slurm, f"SELECT MIN(time_submit), MAX(id_job) FROM {_TABLE}")
    taken = "(time_end - time_start) * EXP(1.4 * (RAND() - 0.5))"
    statements = [
        "SET rand_seed1 = 7, rand_seed2 = 11",
        f"CREATE TEMPORARY TABLE past SELECT * FROM {_TABLE} WHERE time_end > 0",
        f"DELETE FROM {_TABLE} WHERE time_end > 0",
        *(
            f"UPDATE past SET {name} = {begun} + ({name} - {begun}) * {stretch} WHERE {name} > 0"
            for name in _TIMES
        ),
    ]
    for day in range(days, 0, -1):
        moved = int(time.time()) - begun - day * 86_400
        times = ", ".join(f"{name} = IF({name} > 0, {name} + {moved}, 0)" for name in _TIMES)
        ids = f"job_db_inx = 0, id_job = id_job + {last_id * day}"
        statements += [
            "CREATE TEMPORARY TABLE one_day SELECT * FROM past",
            f"UPDATE one_day SET {ids}, {times}",
            f"UPDATE one_day SET time_end = time_start + {taken} WHERE time_start > 0",
            f"INSERT INTO {_TABLE} SELECT * FROM one_day",
            "DROP TEMPORARY TABLE one_day",
        ]
    _rows(slurm, "; ".join(statements))
    ((count,),) = _rows(slurm, f"SELECT COUNT(*) FROM {_TABLE} WHERE time_end > 0")
    return count


def _rows(slurm: PrivateSlurm, statements: str) -> list[list[int]]:
    command = ["mariadb", "--no-defaults", f"--socket={slurm.folder / 'db' / 'socket'}", "--batch"]
    answer = subprocess.run(
        [*command, "--skip-column-names", "slurm"],
        input=statements + ";",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    return [[int(value) for value in line.split("\t")] for line in answer.splitlines()]
