"""Expectations of the job table, the throughput table and the counts of nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime

from cluster_logs.expectations.suite import (
    CheckedUnit,
    ExpectationCheck,
    Severity,
    Suite,
    at_least,
    between,
    has_rows,
    mostly_known,
    not_less,
    one_of,
    present,
    unique_together,
)
from cluster_logs.job_facts import JOB_FACTS, JobFact, KnownFrom
from cluster_logs.job_table import JobState
from cluster_logs.node_states import MAX_NODES, ORIGINS, OTHER_STATES

# Joined to the jobs when the cluster's nodes are known: the most GPUs that the job's virtual cluster ever
# had.
CAPACITY_COLUMN = "virtual_cluster_gpus"

# What a log tells of lies between these.
FIRST, LAST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

# What is to hold of a fact beyond its bounds.
_OF_FACT: Mapping[str, tuple[ExpectationCheck, ...]] = {
    "state": (one_of("state", tuple(state.value for state in JobState)),),
    "submit_time": (between("submit_time", FIRST, LAST),),
    "start_time": (not_less("start_time", "submit_time", "start_is_not_before_submission"),),
    "end_time": (
        not_less("end_time", "start_time", "end_is_not_before_start"),
        not_less("end_time", "submit_time", "end_is_not_before_submission"),
    ),
}


def _soundness(fact: JobFact) -> tuple[ExpectationCheck, ...]:
    return () if fact.bounds is None else (between(fact.name, *fact.bounds, above_low=fact.above_least),)


JOBS = Suite(
    name="jobs",
    required=(
        "job_id",
        "virtual_cluster",
        "gpus",
        "gpu_share",
        "state",
        "submit_time",
        "start_time",
        "end_time",
        "duration_s",
        "service_s",
        "queuing_delay_s",
    ),
    checks=(
        *(present(fact.name) for fact in JOB_FACTS if fact.required and fact.known is KnownFrom.SUBMITTED),
        *(check for fact in JOB_FACTS for check in (*_soundness(fact), *_OF_FACT.get(fact.name, ()))),
        not_less(CAPACITY_COLUMN, "gpus", "job_fits_its_virtual_cluster"),
        has_rows(),
        unique_together("job_is_there_once", "job_id", "submit_time"),
        mostly_known("duration_s", 0.5),
        at_least("gpus", 1, "some_job_uses_a_gpu"),
    ),
    failing_share=0.10,
)

_COUNTS = ("jobs", "gpu_jobs", "gpus")

THROUGHPUT = Suite(
    name="throughput",
    required=("bin_start", "bin_s", *(f"submitted_{what}" for what in _COUNTS)),
    checks=(
        present("bin_start"),
        between("bin_start", FIRST, LAST),
        between("bin_s", 1, 7 * 86_400),
        *(present(f"submitted_{what}") for what in _COUNTS),
        *(
            between(f"{verb}_{what}", 0, 1_000_000_000)
            for verb in ("submitted", "started", "ended")
            for what in _COUNTS
        ),
        *(
            not_less(f"{verb}_jobs", f"{verb}_gpu_jobs", f"{verb}_gpu_jobs_are_jobs")
            for verb in ("submitted", "started", "ended")
        ),
        has_rows(),
        unique_together("bin_is_there_once", "bin_start"),
        ExpectationCheck(
            "bins_have_one_length",
            "ExpectColumnUniqueValueCountToBeBetween",
            {"column": "bin_s", "min_value": 1, "max_value": 1},
            level=CheckedUnit.TABLE,
            severity=Severity.CRITICAL,
        ),
    ),
    failing_share=0.05,
)

_STATES = ("busy", *OTHER_STATES)

NODE_STATES = Suite(
    name="node_states",
    required=("time", "total", "busy", "held", "origin"),
    checks=(
        present("time"),
        between("time", FIRST, LAST),
        one_of("origin", ORIGINS),
        between("total", 0, MAX_NODES),
        *(not_less("total", state, f"{state}_nodes_are_nodes") for state in _STATES),
        *(between(state, 0, MAX_NODES) for state in _STATES),
        has_rows(),
        unique_together("count_is_there_once", "virtual_cluster", "time"),
    ),
    failing_share=0.05,
)
