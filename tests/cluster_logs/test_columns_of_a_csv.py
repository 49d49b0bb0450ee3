"""A CSV of jobs whose columns have other names: which is which is said, and what is not there is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster_logs.ingest import IngestSettings, ingest_log
from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from lucid_cli.main import app
from pipeline.overview.log_preview import preview_log

LOG = (
    "ID;x,Created,num_gpus,gpus,Owner,Begin,Finish\n"
    "7,2026-03-01 08:00:00,2,many,ann,2026-03-01 08:10:00,2026-03-01 09:10:00\n"
    "8,2026-03-01 09:00:00,4,many,bob,2026-03-01 09:00:00,2026-03-01 10:00:00\n"
)
COLUMNS = {
    "job_id": "ID;x",
    "submit_time": "created",
    "gpus": "num_gpus",
    "user": "Owner",
    "account": "Owner",
    "start_time": "Begin",
    "end_time": "Finish",
}


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(LOG)
    return str(path)


def test_the_command_reads_columns_by_the_names_that_the_file_has(log: str, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    named = [word for pair in COLUMNS.items() for word in ("--column", "=".join(pair))]
    command = ["ingest", "--format", "jobs-csv", "--input", log, "--cluster", "mine", "--lake", lake]
    said = CliRunner().invoke(app, [*command, *named, "--json"])
    assert json.loads(said.stdout)["rows_kept"] == 2
    jobs = Lake(lake).read_jobs("mine").set_index("job_id")
    assert jobs["gpus"].to_dict() == {"7": 2, "8": 4}  # not the file's own column of that name
    assert jobs.loc["7", ["user", "account", "duration_s"]].tolist() == ["ann", "ann", 3600.0]


def test_the_page_shows_what_would_be_read_so(log: str) -> None:
    unnamed = preview_log(log, source_format="jobs-csv")
    assert unnamed.read is None
    assert "has no column 'job_id'" in str(unnamed.problem)
    assert "our column = the file's" in str(unnamed.problem)
    named = preview_log(log, source_format="jobs-csv", columns=COLUMNS)
    assert (named.problem, named.read and named.read.kept) == (None, 2)


@pytest.mark.parametrize(
    ("columns", "unknown"),
    [
        ({**COLUMNS, "cards": "num_gpus"}, "no column 'cards', which column 'num_gpus' of"),
        ({**COLUMNS, "state": "status"}, "has no column 'status'; its first line reads: ID;x, Created"),
        ({**COLUMNS, "gpus": ""}, "has no column ''"),
    ],
    ids=["of ours", "of the file", "empty"],
)
def test_an_unknown_name_is_refused_with_the_names_that_there_are(
    columns: dict[str, str], unknown: str, log: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=unknown) as refused:
        ingest_log(
            source_format="jobs-csv",
            input_uri=log,
            cluster="mine",
            lake_uri=str(tmp_path / "lake"),
            settings=IngestSettings(columns=columns),
        )
    assert "The job table has the columns job_id, virtual_cluster, user" in str(refused.value)
    assert not (tmp_path / "lake").exists()


def test_a_format_with_names_of_its_own_takes_none(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="has names of its own"):
        ingest_log(
            source_format="helios",
            input_uri=str(tmp_path / "log.csv"),
            cluster="mine",
            lake_uri=str(tmp_path / "lake"),
            settings=IngestSettings(columns={"gpus": "cards"}),
        )
