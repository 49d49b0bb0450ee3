"""`lucid evaluate limits` from the shell: on a queue's export and on a log, its page, bad input."""

from pathlib import Path

from parts.waits.tests.queue_logs import write_queue_log
from tests.command_line import Lucid

SWF_ROWS = 250


def test_a_queue_is_measured_and_every_row_is_accounted_for(lucid: Lucid, tmp_path: Path) -> None:
    write_queue_log(tmp_path)
    page = tmp_path / "page.md"
    names = ("limits of all", "limits of GPU jobs")
    page.write_text("\n".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->" for name in names))
    command = ("evaluate", "limits", "--jobs", tmp_path / "jobs.csv", "--train-days", "6", "--risk", "0.01")
    document = lucid(*command, "--write", page, "--json").json
    assert document["rows_in"] == document["rows_kept"] + sum(document["reasons"].values())
    assert {row["said_at"] for row in document["rows"]} == {"start", "submission"}
    assert all(row["ratio_after"] <= row["ratio_before"] for row in document["rows"])
    assert "| ours, risk 1 % | start |" in page.read_text()


def test_a_log_is_measured_too(lucid: Lucid, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    row = "{0} {1} 5 1800 4 -1 -1 4 43200 -1 1 1 1 1 1 -1 -1 -1"
    log.write_text("".join(row.format(job + 1, 2_000 * job) + "\n" for job in range(SWF_ROWS)))
    said = lucid("evaluate", "limits", "--jobs", log, "--format", "swf", "--train-days", "0.1", "--json")
    assert said.json["rows_kept"] == SWF_ROWS
    assert said.json["rows"][0]["lowered_pct"] > 0


def test_a_log_without_judged_days_is_refused(lucid: Lucid, tmp_path: Path) -> None:
    write_queue_log(tmp_path)
    said = lucid("evaluate", "limits", "--jobs", tmp_path / "jobs.csv", "--train-days", "9999")
    assert said.code
    assert "first 9999 days" in said.err


def test_what_is_no_file_is_refused(lucid: Lucid) -> None:
    said = lucid("evaluate", "limits", "--jobs", "absent.csv")
    assert said.code
    assert "--jobs 'absent.csv' is not a file" in said.err
