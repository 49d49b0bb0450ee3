"""The suites of the core, and every one by its name."""

from collections.abc import Mapping

from cluster_logs.day_tables import day_tables
from cluster_logs.expectations.job_suites import JOBS, NODE_STATES, THROUGHPUT
from cluster_logs.expectations.model_suites import (
    DURATION_PREDICTIONS,
    JOB_METRICS,
    PAIR_PROFILES,
    SHARING_SCORES,
    SOLO_PROFILES,
    THROUGHPUT_PREDICTIONS,
)
from cluster_logs.expectations.suite import Suite
from foundation.errors import UnknownNameError

SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        JOBS,
        THROUGHPUT,
        NODE_STATES,
        SOLO_PROFILES,
        PAIR_PROFILES,
        JOB_METRICS,
        DURATION_PREDICTIONS,
        THROUGHPUT_PREDICTIONS,
        SHARING_SCORES,
    )
}


def all_suites() -> dict[str, Suite]:
    """Return every suite by its name, those of parts' tables with them."""
    return {**SUITES, **{name: table.suite for name, table in day_tables().items()}}


def find_suite(name: str) -> Suite:
    """Return the suite called `name`; raise UnknownNameError when there is none."""
    suites = all_suites()
    if name not in suites:
        raise UnknownNameError("suite of expectations", name, suites)
    return suites[name]
