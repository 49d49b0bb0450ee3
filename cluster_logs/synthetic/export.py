"""A synthetic log as a file in a source's layout, for programs that read files instead of the lake.

Times carry their zone (`+00:00`) where the layout's own zone is another one, so that reading the file back
gives the same instants. A name that ends in `.gz` is compressed.
"""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from cluster_logs.synthetic.generator import SyntheticCluster
from foundation.errors import UnknownNameError

_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_WITH_ZONE = _TIME_FORMAT + "+00:00"
# Spread of the logarithm of the estimates in `reference-csv`: a guess that is often off by a factor of three.
_ESTIMATE_SPREAD = 1.0


def write_log(made: SyntheticCluster, path: str | Path, log_format: str) -> Path:
    """Write the jobs as `helios` (cluster_log.csv with names), `reference-csv` or `philly-csv`; return the
    path.

    Raises UnknownNameError for another format. `lake` is written by `generator.write_to_lake`.
    """
    try:
        arrange = FORMATS[log_format]
    except KeyError:
        raise UnknownNameError("format to write", log_format, FORMATS) from None
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = arrange(made).to_csv(index=False, lineterminator="\n").encode()
    # No time stamp in the header: the same log gives the same bytes.
    file.write_bytes(gzip.compress(text, compresslevel=6, mtime=0) if file.suffix == ".gz" else text)
    return file


def _helios(made: SyntheticCluster) -> pd.DataFrame:
    jobs = made.jobs
    return pd.DataFrame(
        {
            "job_id": jobs["job_id"],
            "user": jobs["user"],
            "vc": jobs["virtual_cluster"],
            "jobname": jobs["name"],
            "gpu_num": jobs["gpus"],
            "cpu_num": jobs["cpus"],
            "node_num": jobs["nodes"],
            "state": jobs["source_state"],
            "submit_time": jobs["submit_time"].dt.strftime(_WITH_ZONE),
            "start_time": jobs["start_time"].dt.strftime(_WITH_ZONE),
            "end_time": jobs["end_time"].dt.strftime(_WITH_ZONE),
            "duration": jobs["duration_s"].astype("int64"),
            "queue": jobs["queuing_delay_s"].astype("int64"),
        }
    )


def _reference(made: SyntheticCluster) -> pd.DataFrame:
    """Jobs with an estimate: the truth times a seeded log-normal error, at least 1 s."""
    jobs = made.jobs
    # In the order of submission, so that a longer log begins with the estimates of a shorter one.
    error = np.random.default_rng([made.seed, 3]).standard_normal(len(jobs))
    estimate = jobs["duration_s"].to_numpy() * np.exp(_ESTIMATE_SPREAD * error)
    kind = jobs["job_type"].str.rsplit("/", n=3, expand=True)
    return pd.DataFrame(
        {
            "job_id": jobs["job_id"],
            "virtual_cluster": jobs["virtual_cluster"],
            "order_in_vc": jobs.groupby("virtual_cluster").cumcount(),
            "gpus": jobs["gpus"],
            "submit_time": jobs["submit_time"].dt.strftime(_TIME_FORMAT),
            "duration_s": jobs["duration_s"].astype("int64"),
            "estimated_duration_s": np.maximum(np.round(estimate), 1).astype("int64"),
            "model": kind[0],
            "dataset": kind[1],
            "batchsize": kind[2],
            "amp": kind[3],
        }
    )


def _philly(made: SyntheticCluster) -> pd.DataFrame:
    jobs = made.jobs
    return pd.DataFrame(
        {
            "timestamp": jobs["submit_time"].dt.strftime(_WITH_ZONE),
            "duration": jobs["duration_s"],
            "num_gpus": jobs["gpus"],
            "gpu_time": jobs["duration_s"] * jobs["gpus"],
            "cluster": jobs["virtual_cluster"],
        }
    )


FORMATS: Mapping[str, Callable[[SyntheticCluster], pd.DataFrame]] = {
    "helios": _helios,
    "reference-csv": _reference,
    "philly-csv": _philly,
}
