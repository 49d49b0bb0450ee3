"""What every command prints: nothing that says nothing."""

import pytest

from cluster_logs.validation import ValidationReport
from lucid_cli.logs import print_expectations
from lucid_cli.output import print_facts, print_table
from lucid_cli.verdict_output import print_verdict_tables


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


def test_a_fact_that_is_an_empty_list_is_left_out_and_a_zero_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_facts({"rows_in": 3, "rows_skipped": 0, "reasons": {}, "notes": []})
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["rows", "in", "3"],
        ["rows", "skipped", "0"],
    ]


def constraint(name: str, passed: bool | None) -> dict[str, object]:
    return {"name": name, "passed": passed, "sentence": f"Why {name} is so."}


def test_constraints_that_hold_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    held = [constraint(f"c{number}", True) for number in range(17)]
    print_verdict_tables({"policies": [], "constraints": [*held, constraint("fairness_between_users", None)]})
    assert capsys.readouterr().out == (
        "Constraints: 17 passed, none failed; not measured: fairness between users."
        " All of them: verdict.md in MLflow.\n"
    )


def test_of_constraints_those_that_block_are_shown_with_their_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [constraint("utilisation", True), constraint("decision_latency", False)]
    print_verdict_tables({"policies": [{"policy": "fifo", "jobs": 3}], "constraints": rows})
    printed = capsys.readouterr().out
    assert "fifo" in printed
    assert "Why decision_latency is so." in printed
    assert "Why utilisation is so." not in printed
    assert "Constraints: 1 passed, 1 failed." in printed


def expectation(name: str, success: bool) -> dict[str, object]:
    return {"suite": "jobs", "name": name, "columns": ["gpus"], "severity": "warning", "success": success,
            "observed": "3 of 9 rows"}  # fmt: skip


def test_of_expectations_those_that_do_not_hold_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (expectation("gpus_in_range", False), expectation("gpus_are_present", True))
    print_expectations("mine", ValidationReport(success=True, expectations=rows, docs=None))
    printed = capsys.readouterr().out
    assert "3 of 9 rows" in printed
    assert "gpus_are_present" not in printed
    assert "1 of 2 hold" in printed

    print_expectations("mine", ValidationReport(success=True, expectations=rows[1:], docs=None))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "success",
        "expectations",
        "docs",
    ]
