"""Whatever file a command's user names: a pipe is refused at once, wherever it is named."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.metrics.allocations import read_allocations, read_gpu_map
from cluster_logs.metrics.metric_files import read_samples_file
from cluster_logs.readers.nodes_file import read_nodes_file
from experiments.model_quality.throughput_rivals import read_published
from foundation.errors import LucidError
from live_scheduler.ranking import read_queue
from live_scheduler.settings_file import read_live_settings
from lucid_models.model_format import load_model
from pipeline.studies.sweeps.spec import SweepSpec
from profiler_jobs.profile_table import read_solo_profiles

READERS: dict[str, Callable[[Path], Any]] = {
    "allocations.csv": lambda path: read_allocations(str(path)),
    "allocations.parquet": lambda path: read_allocations(str(path)),
    "gpus.csv": lambda path: read_gpu_map(str(path)),
    "samples.prom": lambda path: read_samples_file(str(path)),
    "samples.parquet": lambda path: read_samples_file(str(path)),
    "nodes.csv": lambda path: read_nodes_file(str(path)),
    "live.toml": read_live_settings,
    "queue.csv": read_queue,
    "queue.csv.gz": read_queue,
    "published.csv": read_published,
    "model.json": load_model,
    "sweep.toml": SweepSpec.from_toml,
    "singles.csv": read_solo_profiles,
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises((LucidError, OSError), match=r"a pipe, not a file|is no profile file|cannot be read"):
        READERS[name](path)
