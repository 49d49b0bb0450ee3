"""A replay reads only the columns that it needs; what it makes of them is the same."""

from pathlib import Path

import pytest

from pipeline.replay.log_file import LogFile
from simulator.workload.workload import Workload

SAMPLES = Path("tests/cluster_logs/data")


@pytest.mark.parametrize(
    "source_format",
    ["helios", "swf", "jobs-csv", "reference-csv", "alibaba-v2023", "acme-kalos", "philly-csv"],
)
def test_what_is_read_for_a_replay_makes_the_same_workload(source_format: str) -> None:
    (path,) = SAMPLES.glob(f"{source_format}.*")
    log = LogFile(str(path), source_format)
    everything, remarks = log.read()
    enough, same_remarks = log.read(to_replay=True)
    assert remarks == same_remarks
    assert set(enough.columns) < set(everything.columns)
    for cpu_jobs in (False, True):
        whole, part = (Workload.from_jobs(jobs, cpu_jobs=cpu_jobs) for jobs in (everything, enough))
        assert len(whole)
        assert (part.jobs, part.skipped, part.origin) == (whole.jobs, whole.skipped, whole.origin)
