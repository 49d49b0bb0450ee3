"""What `lucid evaluate` reads: throughput and jobs of a file or a lake, and predictions beside them."""

from pathlib import Path

import pandas as pd
import pyarrow as pa

from cluster_logs.ingest import read_jobs_file, read_throughput_file
from cluster_logs.job_table import DAY_S, derive_throughput, to_frame
from cluster_logs.lake import Lake
from experiments.model_quality.throughput_rivals import PublishedForecasts, read_published
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from lucid_models.known_profiles import with_known_profiles
from lucid_models.training_data import newest_stretch

THROUGHPUT_FORMAT, LAKE = "helios-throughput", "lake"
PUBLISHED_NAME = "lucid_september_predictions.csv"


def read_throughput(
    source: str,
    source_format: str,
    *,
    cluster: str | None = None,
    time_zone: str | None = None,
    progress: Progress = silent,
) -> pd.DataFrame:
    """A throughput table: a CSV in Helios's layout (times as written), of a lake, or counted from a log.

    After a silence of more than a year the newest stretch, of which `progress` is told.
    """
    table = _throughput(source, source_format, cluster, time_zone, progress)
    if table.empty:
        return table
    stretch = newest_stretch(table["bin_start"], 3 * DAY_S // int(table["bin_s"].iloc[0]), "bins")
    for remark in stretch.remarks:
        progress(0, None, remark)
    return table.iloc[stretch.rows].reset_index(drop=True)


def _throughput(
    source: str, source_format: str, cluster: str | None, time_zone: str | None, progress: Progress
) -> pd.DataFrame:
    if source_format == THROUGHPUT_FORMAT:
        return read_throughput_file(_file(source), time_zone="UTC")
    if source_format == LAKE and not Path(source).is_file():
        lake = Lake(source)
        return _until_last_submission(lake.read_throughput(_only_cluster(lake, source, cluster)))
    jobs = read_jobs(source, source_format, cluster=cluster, time_zone=time_zone, progress=progress)
    return _until_last_submission(to_frame(derive_throughput([pa.Table.from_pandas(jobs)])))


def read_jobs(
    source: str,
    source_format: str,
    *,
    cluster: str | None = None,
    time_zone: str | None = None,
    progress: Progress = silent,
) -> pd.DataFrame:
    """The jobs of a log file or a lake, by submission, with what a lake's metrics say of each by then."""
    if source_format == LAKE and not Path(source).is_file():
        lake = Lake(source)
        name = _only_cluster(lake, source, cluster)
        return with_known_profiles(lake.read_jobs(name), lake.read_job_metrics(name))
    jobs, _ = read_jobs_file(_file(source), source_format, time_zone=time_zone, progress=progress)
    return jobs


def published_for(
    table: pd.DataFrame, test_days: int, *, source: str, given: Path | None
) -> PublishedForecasts | None:
    """Lucid's published predictions: the file that was given, else the one beside the input, if it fits.

    Raises BadInputError when the given file lacks test bins.
    """
    if given is not None:
        return read_published(_file(str(given), "--published"))
    beside = Path(source).parent / PUBLISHED_NAME
    if not beside.is_file():
        return None
    found = read_published(beside)
    return found if found.cover(table, test_days) else None


def _until_last_submission(table: pd.DataFrame) -> pd.DataFrame:
    """Without the bins after the last submission of a series that was counted from jobs.

    It goes on until the last job ended, but whether anything was submitted by then the log does not say.
    """
    if table.empty or not (table["origin"] == "derived").all():
        return table
    submitted = table["submitted_jobs"].to_numpy() > 0
    return table.iloc[: len(table) - int(submitted[::-1].argmax())] if submitted.any() else table


def _file(source: str, option: str = "--input") -> str:
    if "://" not in source and not Path(source).is_file():
        raise BadInputError(f"{option} {source!r} is not a file.", remedy="Check the path.")
    return source


def _only_cluster(lake: Lake, source: str, cluster: str | None) -> str:
    known = lake.clusters()
    if cluster is not None:
        return cluster
    if not known:
        raise NotFoundError(f"The lake {source!r} holds no cluster.", remedy="Ingest a log first.")
    if len(known) > 1:
        raise BadInputError(
            f"The lake {source!r} holds {len(known)} clusters: {', '.join(known)}.",
            remedy="Choose one with --cluster.",
        )
    return known[0]
