"""Jobs in workers from a log, beside the load of inference servers."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from foundation.errors import BadInputError, UnknownNameError
from parts.lending.replay.jobs_in_workers import JobMix
from parts.lending.steps.inference_lender import InferenceLender
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import LogToReplay
from pipeline.replay.simulation import simulate_log

JOBS = Path(__file__).parents[4] / "tests" / "cluster_logs" / "data" / "lyra-csv.csv"


@pytest.fixture
def load(tmp_path: Path) -> str:
    """Ten inference servers: half of them needed, then all; one row is bad."""
    path = tmp_path / "load.csv"
    path.write_text("time_s,usage\n0,0.5\n300,1\n600,0.5\n900,high\n")
    return str(path)


def asked(load: str, **lender: object) -> LogToReplay:
    return LogToReplay(
        LogFile(str(JOBS), "lyra-csv"),
        ClusterSize(servers=2),
        companions=(InferenceLender(load, **{"servers": 10, **lender}),),  # type: ignore[arg-type]
    )


def test_the_ideal_scenario_loses_no_speed_on_both_kinds_of_servers(load: str) -> None:
    origin = pd.Timestamp(0, tz="UTC")
    assert InferenceLender(load, 10).service(origin)[0].mixed_speed == 0.7
    assert InferenceLender(load, 10, JobMix("ideal")).service(origin)[0].mixed_speed == 1.0
    later = InferenceLender(load, 10).service(origin + pd.Timedelta(seconds=300))[0]
    assert later.servers_needed(0.0) == 10


def test_a_load_that_does_not_say_how_many_servers_there_are_needs_their_number(load: str) -> None:
    with pytest.raises(BadInputError, match="--inference-servers"):
        InferenceLender(load).service(pd.Timestamp(0, tz="UTC"))


def test_a_log_without_workers_is_refused(load: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s\n1,a,1,0,60,60\n"
    )
    rigid = replace(asked(load), log=LogFile(str(path), "reference-csv"))
    with pytest.raises(BadInputError, match="lends servers to jobs in workers, and the log has none"):
        simulate_log(rigid, ["lyra"], tmp_path / "out")
    with pytest.raises(UnknownNameError, match="rule of reclaiming"):
        simulate_log(asked(load), ["lyra"], tmp_path / "out", settings={"lyra": {"reclaim": "best"}})
