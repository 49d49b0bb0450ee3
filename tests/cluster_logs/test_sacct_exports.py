"""Exports of sacct as people make them: other separators, line ends in names, warnings above the header."""

from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.ingest import IngestReport, read_jobs_file
from cluster_logs.readers import source
from cluster_logs.readers.delimited import MOST_LINES
from cluster_logs.slurm_words import EXPORT_COMMAND, UNIT_SEPARATOR
from foundation.errors import BadInputError, TooManyBadRowsError

FIELDS = ("JobIDRaw", "User", "JobName", "Partition", "State", "Submit", "Start", "End", "AllocTRES")
TIMES = ("2022-09-09T10:00:00", "2022-09-09T11:00:00", "2022-09-09T13:00:00")


def row(number: int, name: str, separator: str = UNIT_SEPARATOR, *more: str) -> str:
    values = (str(number), "u1", name, "gpu", "COMPLETED", *TIMES, "cpu=8,gres/gpu=2,node=1", *more)
    return separator.join(values)


def read(folder: Path, *lines: str, max_bad_share: float = 0.5) -> tuple[pd.DataFrame, IngestReport]:
    log = folder / "sacct.txt"
    log.write_text("".join(f"{line}\n" for line in lines))
    return read_jobs_file(str(log), "sacct", max_bad_share=max_bad_share)


def header(separator: str = UNIT_SEPARATOR, *more: str) -> str:
    return separator.join((*FIELDS, *more))


def test_names_with_line_ends_are_read(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, header(), row(1, "train\nbig"), row(2, "plain"), row(3, "a\n\nb\nc"))
    assert list(jobs["name"]) == ["train big", "plain", "a b c"]
    assert list(jobs["gpus"]) == [2, 2, 2]
    assert (report.rows_in, report.reasons) == (3, {})


def test_a_comment_with_line_ends_in_the_last_column_is_read(tmp_path: Path) -> None:
    told = (row(1, "a", UNIT_SEPARATOR, "x\ny\nz"), row(2, "b", UNIT_SEPARATOR, "plain"))
    jobs, report = read(tmp_path, header(UNIT_SEPARATOR, "Comment"), *told)
    assert (list(jobs["name"]), report.rows_in, report.reasons) == (["a", "b"], 2, {})


def test_a_warning_among_the_rows_joins_no_name(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, header(), row(1, "a"), "sacct: error: slow", row(2, "b\nc"), row(3, "d"))
    assert list(jobs["name"]) == ["a", "b c", "d"]
    assert report.reasons == {"wrong_column_count": 1}


def test_a_row_is_of_a_bounded_number_of_lines(tmp_path: Path) -> None:
    first = UNIT_SEPARATOR.join(("JobName", "JobIDRaw", "State", "Submit", "Start", "End", "AllocTRES"))
    whole = UNIT_SEPARATOR.join(("n", "1", "COMPLETED", *TIMES, "gres/gpu=2"))
    jobs, report = read(tmp_path, first, *["x"] * 300, whole, max_bad_share=1.0)
    assert (len(jobs), report.rows_in) == (1, 301 - (MOST_LINES - 1))


def test_names_with_line_ends_at_the_border_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_BLOCK_LINES", 3)
    rows = [row(number, f"n{number}\nb\nc") for number in range(1, 8)]
    jobs, report = read(tmp_path, header(), *rows)
    assert sorted(jobs["name"]) == [f"n{number} b c" for number in range(1, 8)]
    assert (report.rows_in, report.reasons) == (7, {})
    assert list(jobs["source_row"]) == list(range(1, 8))


@pytest.mark.parametrize("separator", ["^", "|#", "\t", ";", "~", "::", "¦"])
def test_the_header_says_what_separates_the_columns(tmp_path: Path, separator: str) -> None:
    jobs, report = read(tmp_path, header(separator), row(1, "a|b", separator), row(2, "c", separator))
    assert (list(jobs["name"]), report.reasons) == (["a|b", "c"], {})


def test_a_table_that_was_saved_as_csv_is_read(tmp_path: Path) -> None:
    jobs, _ = read(
        tmp_path, header(","), row(1, "a", ",").replace("cpu=8,gres/gpu=2,node=1", '"gres/gpu=2,cpu=8"')
    )
    assert (list(jobs["name"]), list(jobs["gpus"])) == (["a"], [2])


def test_a_separator_that_values_hold_is_named_with_the_command_that_exports_right(tmp_path: Path) -> None:
    with pytest.raises(TooManyBadRowsError, match="what separates them") as refused:
        read(tmp_path, header(","), row(1, "a", ","))
    assert EXPORT_COMMAND in str(refused.value)
    assert "--max-bad-share" not in str(refused.value)


@pytest.mark.parametrize("separator", ["|", UNIT_SEPARATOR])
def test_lines_above_the_header_are_passed_over_and_counted(tmp_path: Path, separator: str) -> None:
    told = (
        "sacct: error: could not reach the second controller",
        "",
        header(separator),
        row(1, "a", separator),
    )
    jobs, report = read(tmp_path, *told)
    assert (list(jobs["name"]), report.rows_in, report.reasons) == (["a"], 2, {"beside_table": 1})


def test_days_put_together_repeat_their_header(tmp_path: Path) -> None:
    days = (header("|", "Cluster"), row(1, "a", "|", "c1"), header("|", "Cluster"), row(2, "b", "|", "c1"))
    jobs, report = read(tmp_path, *days)
    assert (list(jobs["job_id"]), report.reasons) == (["1", "2"], {"beside_table": 1})


def test_the_table_for_people_is_named_with_the_command_that_exports_right(tmp_path: Path) -> None:
    table = (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
        "1                     j        gpu         a1          8  COMPLETED      0:0 ",
    )
    with pytest.raises(BadInputError, match="the table that sacct prints for people") as refused:
        read(tmp_path, *table)
    assert EXPORT_COMMAND in str(refused.value)


def test_an_export_without_the_columns_that_are_needed_is_told_which_and_how(tmp_path: Path) -> None:
    defaults = "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode"
    with pytest.raises(BadInputError, match="no column submit and none start and none end") as refused:
        read(tmp_path, defaults, "1|a|gpu|acc|8|COMPLETED|0:0")
    assert EXPORT_COMMAND in str(refused.value)


def test_parsable_rows_that_end_in_their_separator_are_read(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, header("|") + "|", row(1, "a", "|") + "|")
    assert (list(jobs["name"]), report.reasons) == (["a"], {})


def test_lines_of_other_fields_without_a_header_are_refused_by_their_cause(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"(?s)no header line that names JobID and State.* --parsable2 "):
        read(tmp_path, row(1, "a", "|"), row(2, "b", "|"))


def test_quoted_names_with_line_ends_are_read(tmp_path: Path) -> None:
    log = tmp_path / "jobs.csv"
    log.write_text(
        'job_id,submit_time,gpus,name\n1,2022-09-09,2,"train\nbig, ""x"""\n2,2022-09-09,1,12" disk\n'
        '3,2022-09-09,1,plain\n4,2022-09-09,1,13" disk\n5,2022-09-09,1,"open\n6,2022-09-09,1,plain\n'
    )
    jobs, report = read_jobs_file(str(log), "jobs-csv")
    assert dict(zip(jobs["job_id"], jobs["name"], strict=True)) == {
        "1": 'train big, "x"',
        "3": "plain",
        "6": "plain",
    }
    assert report.reasons == {"unbalanced_quotes": 3}


def test_a_csv_with_a_line_above_its_header_is_read(tmp_path: Path) -> None:
    log = tmp_path / "jobs.csv"
    log.write_text("exported on Friday\njob_id,submit_time,gpus\n1,2022-09-09,2\n")
    jobs, report = read_jobs_file(str(log), "jobs-csv")
    assert (list(jobs["job_id"]), report.reasons) == (["1"], {"beside_table": 1})
