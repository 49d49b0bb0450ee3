"""What users write stays text: on a terminal, in a spreadsheet, and back in our own readers."""

import csv
import io
import logging
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.csv_files import as_cell, as_text, csv_text, write_csv, write_rows
from foundation.screen_text import ScreenFormatter, on_screen
from lucid_cli.output import print_facts, print_lines, print_table, say

STEERING = "\x1b[2J\x1b]0;title\x07\r\u202e\x9b31m"
ANY_TEXT = st.text(alphabet=st.sampled_from("'=+-@\t\r\n,;\"0159.eEx\u3042\uff1d"), max_size=8)
STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d")


@pytest.mark.slow
@given(st.lists(ANY_TEXT | st.text(st.characters(codec="utf-8")), min_size=1))
def test_texts_come_back_exactly_and_none_is_computed(texts: list[str]) -> None:
    frame = pd.DataFrame({"job_id": pd.Series(texts, dtype=object), "n": range(len(texts))})
    written = csv_text(frame)
    rows = list(csv.reader(io.StringIO(written, newline="")))[1:]
    assert [as_text(cell) for cell, _ in rows] == texts
    for cell, number in rows:
        assert number.isdigit()
        if cell.startswith(STARTS):  # a number, which nothing computes
            assert not pd.isna(pd.to_numeric(cell, errors="coerce"))


@pytest.mark.parametrize("value", ["-5", "+1.5e3", "-.5", "7", "job-7", "", "a=b", -5, -5.5, None, True])
def test_numbers_and_plain_names_are_left_alone(value: object) -> None:
    assert as_cell(value) == value
    assert as_text(value) == value


@given(
    st.lists(
        st.tuples(
            ANY_TEXT | st.none(),
            st.floats()
            | st.integers(-(10**9), 10**9).map(float)
            | st.decimals(-(10**6), 10**6, places=3).map(float),
            st.integers(-(2**63), 2**63 - 1),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_large_tables_have_the_bytes_of_pythons_own_writer(
    rows: list[tuple[str | None, float, int, bool]],
) -> None:
    names = ["=text", "x", "n", "yes"]
    frame = pd.DataFrame(rows, columns=names).astype(
        {"=text": "str", "x": "float64", "n": "int64", "yes": "bool"}
    )
    text = io.StringIO()
    cells = [(word, "" if x != x else x, n, yes) for word, x, n, yes in rows]
    write_rows((dict(zip(names, row, strict=True)) for row in cells), names, text)
    assert csv_text(frame) == text.getvalue()


def test_rows_and_tables_are_written_alike(tmp_path: Path) -> None:
    rows = [{"job": "=1+1", "x": -1.5, "why": 'a,"b"\r\n=c'}, {"job": "-5", "x": 2.0, "why": ""}]
    text = io.StringIO()
    write_rows(rows, ["job", "x", "why"], text)
    write_csv(pd.DataFrame(rows), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes().decode() == text.getvalue()
    assert text.getvalue().splitlines()[1].startswith("'=1+1,-1.5,")


def test_all_csv_of_ours_is_written_by_one_module() -> None:
    """Synthetic logs are made of names of ours alone, and must be read by every reader as they are."""
    own = {
        "foundation/csv_files.py",
        "cluster_logs/synthetic/export.py",
        "experiments/profiling/zoo_graphs.py",
    }
    writes = re.compile(r"\.to_csv\(|csv\.(writer|DictWriter)\(|write_csv\(pa")
    packages = (
        "foundation",
        "cluster_logs",
        "profiler_jobs",
        "lucid_models",
        "simulator",
        "live_scheduler",
        "local_stack",
        "pipeline",
        "lucid_cli",
        "experiments",
        "plugins",
    )
    found = {
        path.as_posix()
        for package in packages
        for path in Path(package).rglob("*.py")
        if writes.search(path.read_text(encoding="utf-8"))
    }
    assert found <= own


def test_people_see_what_would_steer_their_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"[red]job[/red] [link=http://x]{STEERING}:skull:"
    print_table([{"name": name}], title=name)
    print_facts({"fact": name}, title=name)
    print_lines([name])
    say(name)
    shown = capsys.readouterr()
    said = shown.out + shown.err
    assert not {"\x1b", "\x07", "\r", "\u202e", "\x9b"} & set(said)
    joined = re.sub(r"[\s│┃┏┓└┘├┤─━]+", "", said)
    assert joined.count("[red]job[/red]") == 6
    assert joined.count(":skull:") == 6
    assert "\\x1b[2J" in joined


def test_a_log_record_steers_nothing() -> None:
    record = logging.LogRecord("lucid", logging.INFO, "", 0, "job %s", (STEERING,), None)
    assert ScreenFormatter("%(message)s").format(record) == f"job {on_screen(STEERING)}"
    assert on_screen("tab\tline\nnäme 日本 \U0001f600") == "tab\tline\nnäme 日本 \U0001f600"
    assert on_screen("half \udcff") == "half \\udcff"
