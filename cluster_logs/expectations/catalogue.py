"""Every suite by its name."""

from collections.abc import Mapping

from cluster_logs.expectations.job_suites import INFERENCE_LOAD, JOBS, NODE_STATES, THROUGHPUT
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
        INFERENCE_LOAD,
        SOLO_PROFILES,
        PAIR_PROFILES,
        JOB_METRICS,
        DURATION_PREDICTIONS,
        THROUGHPUT_PREDICTIONS,
        SHARING_SCORES,
    )
}


def find_suite(name: str) -> Suite:
    """Return the suite called `name`; raise UnknownNameError when there is none."""
    try:
        return SUITES[name]
    except KeyError:
        raise UnknownNameError("suite of expectations", name, SUITES) from None
