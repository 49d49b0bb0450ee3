"""What every command prints: tables without columns that say nothing."""

import pytest

from lucid_cli.output import print_table


def test_a_column_that_no_row_has_a_value_for_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"policy": "fifo", "jobs": 0, "pred_err": None},
        {"policy": "pcs", "jobs": None, "pred_err": None},
    ]

    print_table(rows)
    print_table(rows, columns=("policy", "pred_err", "absent"))
    printed = capsys.readouterr().out

    assert printed.count("policy") == 2
    assert printed.count("jobs") == 1
    assert "pred" not in printed
    assert "absent" not in printed


def test_a_table_without_rows_keeps_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], columns=("policy", "jobs"))

    assert "policy" in capsys.readouterr().out
