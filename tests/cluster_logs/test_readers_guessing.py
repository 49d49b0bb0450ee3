"""A log that is read in the wrong format is refused, and the right format is named."""

from pathlib import Path

import pytest

from cluster_logs.ingest import ingest_log, read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.readers.base import likely_formats, load_reader
from cluster_logs.readers.registry import formats
from foundation.errors import BadInputError
from tests.cluster_logs.sample_logs import SAMPLES

# Two published clusters of one layout.
ALIKE = {"acme-seren": {"acme-seren", "acme-kalos"}, "acme-kalos": {"acme-seren", "acme-kalos"}}
# Formats whose columns are columns of the job table: the general one reads them too, and is never guessed.
ALSO_READ = {("jobs-csv", "reference-csv"), ("jobs-csv", "queue")}
GUESSED = sorted(SAMPLES.keys() - {"nodes-csv"})
JOB_FORMATS = [name for name in formats() if load_reader(name).table == "jobs"]


@pytest.mark.parametrize("name", GUESSED)
def test_every_sample_looks_like_its_format(name: str) -> None:
    assert set(likely_formats(str(SAMPLES[name]))) == ALIKE.get(name, {name})


@pytest.mark.parametrize("name", GUESSED)
def test_every_wrong_format_is_refused_with_the_right_one(name: str) -> None:
    """No cell of the matrix format x file is a log of no jobs."""
    for source_format in JOB_FORMATS:
        if source_format in ALIKE.get(name, {name}) or (source_format, name) in ALSO_READ:
            continue
        with pytest.raises(BadInputError) as refused:
            read_jobs_file(str(SAMPLES[name]), source_format)
        assert f"looks like {' or '.join(sorted(ALIKE.get(name, {name}), reverse=True))}" in str(
            refused.value
        )


def test_a_wrong_format_leaves_the_lake_alone(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"(?s)has no header line that names JobID.*It looks like swf"):
        ingest_log(
            source_format="sacct",
            input_uri=str(SAMPLES["swf"]),
            cluster="mine",
            lake_uri=str(tmp_path / "lake"),
        )
    assert Lake(str(tmp_path / "lake")).dates("mine") == []


HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER, "holds no rows"),
        ("", "is empty"),
        ("nothing of this is a log\n" * 200, "no column 'job_id'"),
        (HEADER.replace("vc", "queue_name") + "1,2\n", "no column 'vc'"),
    ],
)
def test_what_looks_like_nothing_is_refused_without_a_guess(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(BadInputError, match=said) as refused:
        read_jobs_file(str(path), "helios")
    assert "looks like" not in str(refused.value)


def test_a_log_whose_rows_are_all_left_out_says_by_which_rule(tmp_path: Path) -> None:
    """Steps and other clusters' jobs are no bad rows; yet nothing is left to replay."""
    header, *rows = SAMPLES["sacct"].read_text().splitlines()
    steps = [row for row in rows if ".batch" in row or ".extern" in row or ".0|" in row]
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([header, *steps]) + "\n")
    with pytest.raises(BadInputError, match=r"none of \d rows is kept. \d step_row: A step of a job"):
        read_jobs_file(str(path), "sacct", cluster="venus")


def test_another_order_of_columns_and_quoted_fields_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text(
        '"State","submit_time","END_TIME","start_time","vc","gpu_num","user","extra","job_id"\r\n'
        '"COMPLETED","2020-04-01 00:00:00","2020-04-01 01:00:00","2020-04-01 00:10:00","v,1","8","u","",""'
        "\r\n"
        "COMPLETED,2020-04-01 00:00:00,2020-04-01 01:00:00,2020-04-01 00:10:00,v1,8,u,,7\r\n"
    )
    jobs, report = read_jobs_file(str(path), "helios")
    assert (report.rows_in, report.rows_kept, report.reasons) == (2, 1, {"missing_job_id": 1})
    assert jobs.loc[0, ["job_id", "duration_s"]].tolist() == ["7", 3_000]


@pytest.mark.parametrize("start", ["0", "1600000000"])
def test_a_reference_log_may_count_seconds(start: str, tmp_path: Path) -> None:
    path = tmp_path / "reference.csv"
    times = [int(start) + 70 * row for row in range(5)]
    rows = "".join(f"{row},a,1,{time},60,60\n" for row, time in enumerate(times))
    header = "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s\n"
    path.write_text(header + rows)
    jobs, _ = read_jobs_file(str(path), "reference-csv")
    assert (jobs["submit_time"].astype("int64") // 10**6).tolist() == times
    path.write_text(header + rows + "9,a,1,2020-04-01,60,60\n")
    _, report = read_jobs_file(str(path), "reference-csv")
    assert report.reasons == {"unreadable_time": 1}  # one way of writing times a file


def test_sacct_may_print_seconds(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobID|State|Submit|Start|End|AllocTRES\n1|COMPLETED|1600000000|1600000060|1600000120|gres/gpu=1\n"
    )
    jobs, _ = read_jobs_file(str(path), "sacct")
    assert str(jobs.loc[0, "submit_time"]) == "2020-09-13 12:26:40+00:00"
    assert jobs.loc[0, "duration_s"] == 60
