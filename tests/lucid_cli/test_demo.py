"""Which week of a real log the demo shows: chosen by load, before any release is judged."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.ingest import read_jobs_file
from lucid_cli.demo import PHILLY_AS_OF, demo_parameters
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import LogToReplay
from pipeline.replay.simulation import simulate_log
from tests.reference import ROOT

WEEK, HISTORY = pd.Timedelta(days=7), pd.Timedelta(days=28)


@pytest.mark.reference
def test_the_demo_shows_the_most_loaded_week_that_leaves_four_weeks_to_learn_from(
    tmp_path: Path,
) -> None:
    form = demo_parameters(str(ROOT), days=30, hold_out_days=7)
    log, nodes = Path(form["input_uri"]), Path(form["nodes_uri"])
    times = read_jobs_file(str(log), form["source_format"])[0]["submit_time"]
    simulate_log(
        LogToReplay(LogFile(str(log), form["source_format"]), ClusterSize(str(nodes))), ["fifo"], tmp_path
    )
    replayed = pd.read_csv(tmp_path / "jobs_fifo.csv")
    submitted = times.min() + pd.to_timedelta(replayed["submit_time_s"], unit="s")
    ends = pd.date_range((times.min() + HISTORY + WEEK).ceil("D"), times.max().floor("D"), freq="D")
    shares = []
    for end in ends:
        week = replayed[(submitted >= end - WEEK) & (submitted < end)]
        shares.append(week["queuing_delay_s"].mean() / week["jct_s"].mean())
    assert str(ends[int(np.argmax(shares))].date()) == PHILLY_AS_OF == form["as_of"]
