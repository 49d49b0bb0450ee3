"""What each rule of reclaiming preempts, on decisions of simulated fortnights and where servers share jobs.

`python -m experiments.policies.reclaim_study DATA` prints the tables; DATA is the folder that
LUCID_REFERENCE_DATA names. With `--write parts/lending/README.md` they go between that page's markers.
"""

import gzip
import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from random import Random

from experiments.pages import run_study
from foundation.errors import BadInputError
from foundation.markdown import markdown_table
from parts.lending.replay.reclaiming import LoanedServer, choose_reclaim

DECISIONS_FILE = Path("reference") / "lyra" / "reclaim_decisions.json.gz"
RULES = ("exact", "greedy", "reference", "scf", "random", "highest")
SHARED_SERVERS, SHARED_CASES = 24, 60  # half of the servers go back
JOBS_PER_SERVER, SERVERS_PER_JOB = (2, 4, 8), (2, 4)

Decision = tuple[Sequence[LoanedServer[Hashable]], int]


def shared_servers(
    servers: int, jobs_per_server: int, servers_per_job: int, seed: int
) -> list[LoanedServer[Hashable]]:
    """Return servers on loan whose jobs, of a worker on each of so many servers, lie at random."""
    random = Random(seed)  # noqa: S311  (a case, no secret)
    base: list[dict[Hashable, int]] = [{} for _ in range(servers)]
    for job in range(servers * jobs_per_server // servers_per_job):
        for server in random.sample(range(servers), servers_per_job):
            base[server][job] = 1
    return [LoanedServer(server, held) for server, held in enumerate(base)]


def decisions_of(data: Path) -> list[Decision]:
    """Return decisions of simulated fortnights; raises BadInputError where there are none."""
    path = data / DECISIONS_FILE
    if not path.is_file():
        raise BadInputError(f"{path} is not there.", remedy="Name the public reference data.")
    return [
        (
            [LoanedServer(int(server), base) for server, base in decision["servers"].items()],
            int(decision["need"]),
        )
        for decision in json.loads(gzip.decompress(path.read_bytes()))
    ]


def shared_decisions() -> list[Decision]:
    """Return decisions over servers that share jobs at random, a few jobs on each or many."""
    shapes = [(jobs, width) for jobs in JOBS_PER_SERVER for width in SERVERS_PER_JOB]
    return [
        (shared_servers(SHARED_SERVERS, *shapes[case % len(shapes)], seed=case), SHARED_SERVERS // 2)
        for case in range(SHARED_CASES)
    ]


def preempted_table(cases: Sequence[Decision]) -> str:
    """Return by rule the jobs that it preempts, beside those of `exact`, and the GPUs left idle."""
    choices = {
        rule: [choose_reclaim(servers, need, rule, seed=i) for i, (servers, need) in enumerate(cases)]
        for rule in RULES
    }
    best = [len(choice.preempted) for choice in choices["exact"]]
    rows = []
    for rule, chosen in choices.items():
        jobs = [len(choice.preempted) for choice in chosen]
        rows.append(
            [
                f"`{rule}`",
                f"{sum(jobs):,}",
                f"{100 * (sum(jobs) / sum(best) - 1):+.1f} %",
                f"{100 * sum(map(int.__eq__, jobs, best)) / len(best):.0f} %",
                f"{sum(choice.collateral_gpus for choice in chosen):,}",
            ]
        )
    proven = sum(choice.optimal for choice in choices["exact"])
    return (
        markdown_table(
            ["rule", "jobs preempted", "above `exact`", "decisions as good", "GPUs left idle elsewhere"], rows
        ).rstrip()
        + f"\n\n{len(cases)} decisions; {proven} of `exact`'s are proven optimal."
    )


def tables(data: Path) -> Mapping[str, str]:
    """Return the tables by the names of their markers."""
    return {
        "fortnights": preempted_table(decisions_of(data)),
        "shared-servers": preempted_table(shared_decisions()),
    }


if __name__ == "__main__":
    run_study("experiments.policies.reclaim_study", __doc__, tables)
