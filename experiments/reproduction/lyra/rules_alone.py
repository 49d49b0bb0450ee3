"""Lyra's rules by themselves: reclaiming beside the optimum, and the time of decisions (sections 5.2, 7)."""

import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from experiments.reproduction.lyra.published import FOLDER, LyraRow, RowKey
from experiments.reproduction.lyra.windows import GPUS_PER_SERVER
from parts.lending.replay.reclaiming import LoanedServer, ReclaimChoice, choose_reclaim
from parts.lending.workers.knapsack import WorkerGroup, choose_workers

DECISIONS_FILE = "reclaim_decisions.json.gz"
DRAWN, DRAWN_SERVERS, DRAWN_ASKED = 10, 160, 80
JOB_GPUS = (1, 2, 4, 8, 16, 24, 32)
RULES = ("reference", "greedy", "exact", "scf", "random")
KNAPSACK_ITEMS, KNAPSACK_GPUS = 354, 245  # the paper's example of a decision
_ITEMS_A_GROUP = 3
_TIMED_RUNS = 2


ByRule = Mapping[str, Sequence[ReclaimChoice[str]]]


@dataclass(frozen=True)
class Instance:
    """Servers on loan, and how many are asked back."""

    servers: tuple[LoanedServer[str], ...]
    asked: int


def simulated_instances(data: Path) -> list[Instance]:
    """Return the decisions of simulated fortnights in the reference data."""
    with gzip.open(data / FOLDER / DECISIONS_FILE, "rt", encoding="utf-8") as stream:
        decisions = json.load(stream)
    return [
        Instance(
            tuple(LoanedServer(int(server), base) for server, base in decision["servers"].items()),
            decision["need"],
        )
        for decision in decisions
    ]


def drawn_instances(seed: int = 0) -> list[Instance]:
    """Draw decisions about more servers than public data asks back, with jobs that span several."""
    rng = Random(seed)  # noqa: S311 - an experiment, no secret
    return [_drawn(rng) for _ in range(DRAWN)]


def _drawn(rng: Random) -> Instance:
    free = [GPUS_PER_SERVER] * DRAWN_SERVERS
    base: list[dict[str, int]] = [{} for _ in free]
    jobs = count()
    while sum(free) > GPUS_PER_SERVER * DRAWN_SERVERS // 10:
        job, wanted = f"{next(jobs)}", rng.choice(JOB_GPUS)
        for server in rng.sample(range(DRAWN_SERVERS), DRAWN_SERVERS):
            gpus = min(wanted, free[server])
            if gpus:
                base[server][job] = gpus
                free[server] -= gpus
                wanted -= gpus
            if not wanted:
                break
    return Instance(tuple(LoanedServer(i, held) for i, held in enumerate(base)), DRAWN_ASKED)


def choices(instances: Sequence[Instance], rule: str) -> list[ReclaimChoice[str]]:
    """Return what a rule chooses in each decision."""
    return [_chosen(instance, rule) for instance in instances]


def rule_rows(data: Path) -> dict[RowKey, LyraRow]:
    """Return the rows of section 7.3 about the optimum, of the times of section 7, and our rules' beside."""
    simulated, drawn = simulated_instances(data), drawn_instances()
    rows = []
    for name, instances in (("simulated decisions", simulated), ("drawn, 80 of 160 servers", drawn)):
        by_rule = {rule: choices(instances, rule) for rule in RULES}
        rows += _beside_optimum(name, by_rule)
        rows += _published(instances, by_rule) if instances is simulated else _published_above_60(by_rule)
    return {row.key: row for row in (*rows, *_time_rows(simulated))}


def _preempted(chosen: Sequence[ReclaimChoice[str]]) -> list[int]:
    return [len(choice.preempted) for choice in chosen]


def _beside_optimum(name: str, by_rule: ByRule) -> list[LyraRow]:
    fewest = sum(_preempted(by_rule["exact"]))
    remark = f"{len(by_rule['exact'])} decisions; the optimum preempts {fewest}"
    return [
        LyraRow.measured(
            "7.3",
            "more preemptions than the optimum %",
            100 * (sum(_preempted(chosen)) / fewest - 1),
            remark,
            scenario=name,
            scheme=f"reclaim={rule}",
        )
        for rule, chosen in by_rule.items()
    ]


def _published(simulated: Sequence[Instance], by_rule: ByRule) -> list[LyraRow]:
    fewest, reference = _preempted(by_rule["exact"]), _preempted(by_rule["reference"])
    asked = [instance.asked for instance in simulated]
    worse = [asked[i] for i in range(len(asked)) if reference[i] > fewest[i]]
    shared = [
        len({*exact.picks} & {*paper.picks}) / len(exact.picks)
        for exact, paper in zip(by_rule["exact"], by_rule["reference"], strict=True)
    ]
    return [
        LyraRow.measured(
            "7.3",
            "optimum equalled below servers",
            float(min(worse, default=max(asked))),
            "fewest servers asked back at which the paper's rule preempts more than the optimum, which it "
            f"equals in {len(asked) - len(worse)} of {len(asked)} simulated decisions",
        ),
        LyraRow.measured(
            "7.3",
            "servers of the optimum that Lyra picks %",
            100 * sum(shared) / len(shared),
            "simulated decisions; of several optima one is compared, so that others count as missed",
        ),
    ]


def _published_above_60(by_rule: ByRule) -> list[LyraRow]:
    more = sum(_preempted(by_rule["reference"])) / sum(_preempted(by_rule["exact"])) - 1
    return [
        LyraRow.measured(
            "7.3",
            "more preemptions above 60 servers %",
            100 * more,
            f"the paper's rule on {DRAWN} drawn decisions, {DRAWN_ASKED} of {DRAWN_SERVERS} servers asked "
            "back; our default is exact",
        )
    ]


def _time_rows(simulated: Sequence[Instance]) -> list[LyraRow]:
    paper, exact = [], []
    for instance in simulated:
        paper.append(_seconds(partial(_chosen, instance, "reference")))
        exact.append(_seconds(partial(_chosen, instance, "exact")))
    rng = Random(0)  # noqa: S311 - an experiment, no secret
    groups = [
        WorkerGroup(1, sorted(rng.uniform(0, 1e5) for _ in range(_ITEMS_A_GROUP)))
        for _ in range(KNAPSACK_ITEMS // _ITEMS_A_GROUP)
    ]
    of_decisions = "the paper's rule on the simulated decisions, on the machine of this page"
    return [
        LyraRow.measured("7", "reclaiming time ms low", 1000 * min(paper), of_decisions),
        LyraRow.measured("7", "reclaiming time ms high", 1000 * max(paper), of_decisions),
        LyraRow.measured(
            "5.2",
            f"knapsack time s at {KNAPSACK_ITEMS} items x {KNAPSACK_GPUS} GPUs",
            _seconds(partial(choose_workers, groups, KNAPSACK_GPUS)),
            "drawn values, on the machine of this page",
        ),
        LyraRow.measured(
            "7.3",
            "optimum slower x",
            sum(exact) / sum(paper),
            "an integer programme in the place of the paper's exhaustive search",
        ),
    ]


def _chosen(instance: Instance, rule: str) -> ReclaimChoice[str]:
    return choose_reclaim(instance.servers, instance.asked, rule)


def _seconds(work: Callable[[], object]) -> float:
    """Return the shortest of some times that work takes (s)."""
    times = []
    for _ in range(_TIMED_RUNS):
        began_s = time.perf_counter()
        work()
        times.append(time.perf_counter() - began_s)
    return min(times)
