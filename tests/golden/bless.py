"""Writes the golden results anew: `make golden`. Look at the diff before you commit it.

Each registered policy replays a small synthetic workload, of elastic jobs if it resizes jobs; every job's
first start, end and number of preemptions are kept, so a change of any decision shows. Results of a part's
policies and rules lie in its tests/golden. A part whose policies need a workload of their own, or that has
cases beside its policies, has a module tests/golden_cases.py (`CasesOfPart`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from foundation.parts import Part, installed_parts
from simulator.conformance import sample_workload
from simulator.policies.registry import elastic_policy_names, policy_names
from simulator.replay import simulate
from simulator.results.result import SimulationResult
from simulator.scenario.rules import Rules, load_rules, rule_set_names
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import SummedUtilisation
from simulator.workload.speed_up_table import speed_ups_for
from simulator.workload.workload import as_elastic

FOLDER = Path(__file__).parent
PARTS = FOLDER.parents[1] / "parts"
SHAPE, SEED, JOBS = "loaded", 7, 150


class CasesOfPart(Protocol):
    """What a part's tests/golden_cases.py may hold."""

    def scenario(self, policy: str, rules: Rules) -> Scenario | None:
        """Return what a policy replays under these rules; None: the workload of all."""

    # What is kept of cases beside the policies, by the stems of their files.
    CASES: Mapping[str, Callable[[], dict[str, object]]]


def cases() -> list[tuple[str, str]]:
    """Every policy under our own rules, and under each rule set that gives it other settings."""
    return [
        (policy, rules.name)
        for rules in _rule_sets()
        for policy in dict.fromkeys((*policy_names(), *sorted(rules.policies)))
        if rules.name == "default"
        or policy in rules.policy_settings
        or (rules.fractional and policy in elastic_policy_names())
    ]


def _rule_sets() -> Iterator[Rules]:
    """The rule sets that are here with all that they need."""
    for name in rule_set_names():
        try:
            yield load_rules(name)
        except ModuleNotFoundError:  # of a part that is not here
            continue


def path_of(policy: str, rules: str) -> Path:
    """Where a case's golden result lies."""
    folders = [
        folder_of(part)
        for part in installed_parts()
        if rules in part.rules or (policy in part.policies and policy not in load_rules(rules).policies)
    ]
    folder = next(filter(Path.is_dir, folders), FOLDER)
    return folder / f"simulate_{policy}{'' if rules == 'default' else '_' + rules}.json"


def folder_of(part: Part) -> Path:
    """Where a part's golden results lie."""
    return PARTS / part.name / "tests" / "golden"


def cases_of_parts() -> Iterator[tuple[Part, CasesOfPart]]:
    """Each part that has cases of its own."""
    for part in installed_parts():
        if (PARTS / part.name / "tests" / "golden_cases.py").exists():
            yield part, import_module(f"parts.{part.name}.tests.golden_cases")


def beside_policies() -> dict[Path, Callable[[], dict[str, object]]]:
    """The cases of parts that are no policy's, by their files."""
    return {
        folder_of(part) / f"{stem}.json": kept
        for part, cases in cases_of_parts()
        for stem, kept in getattr(cases, "CASES", {}).items()
    }


def replay(policy: str, rules: str) -> SimulationResult:
    """Run a case."""
    for _, cases in cases_of_parts():
        if hasattr(cases, "scenario") and (scenario := cases.scenario(policy, load_rules(rules))):
            return simulate(scenario, policy)
    workload, cluster = sample_workload(SHAPE, SEED, JOBS)
    if policy in elastic_policy_names():
        curves = speed_ups_for(64)
        models = list(curves)
        drawn = [models[i % len(models)] for i in range(len(workload))]
        workload = as_elastic(workload, 1, models=drawn, speed_ups=curves)
    settings = {"profiling_nodes": 2} if policy == "lucid" else None
    return simulate(
        Scenario(workload, cluster, rules=load_rules(rules), colocation=SummedUtilisation()),
        policy,
        settings=settings,
    )


def golden(policy: str, rules: str) -> dict[str, object]:
    """Return what is kept of a case."""
    figures = (
        "mean_jct_s",
        "mean_queuing_delay_s",
        "makespan_s",
        "preemptions",
        "colocated_jobs",
        "profiled_jobs",
    )
    return kept_of(replay(policy, rules), SHAPE, figures)


def kept_of(result: SimulationResult, shape: str, figures: Iterable[str]) -> dict[str, object]:
    """Return these figures of a replay of `sample_workload(shape, SEED, JOBS)`, and when its jobs ran."""
    return {
        "workload": f"{shape}, seed {SEED}, {JOBS} jobs",
        "summary": {key: round(result.summary[key], 6) for key in figures},
        "jobs": {
            row.job_id: [round(row.first_start_time_s, 6), round(row.end_time_s, 6), row.preemptions]
            for row in result.jobs.itertuples()
        },
    }


def dumped(document: dict[str, object]) -> str:
    """One line a job, so that a diff names the jobs that moved."""
    text = json.dumps(document, indent=1)
    return text.replace("[\n   ", "[").replace(",\n   ", ", ").replace("\n  ]", "]") + "\n"


def main() -> None:
    """Write all golden results; say which changed."""
    results = {path_of(policy, rules): golden(policy, rules) for policy, rules in cases()}
    results |= {path: kept() for path, kept in beside_policies().items()}
    for path, document in results.items():
        text = dumped(document)
        before = path.read_text(encoding="utf-8") if path.exists() else None
        path.write_text(text, encoding="utf-8")
        print(f"{'same   ' if text == before else 'WRITTEN'}  {path.name}")


if __name__ == "__main__":
    main()
