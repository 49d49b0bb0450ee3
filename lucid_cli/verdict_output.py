"""A verdict's tables for people: the policies, and of the constraints those that block."""

from collections.abc import Mapping, Sequence
from typing import Any

from lucid_cli.output import print_table


def print_verdict_tables(verdict: Mapping[str, Any]) -> None:
    """Print the policies and how the constraints came out; one that holds is counted, and not shown.

    `verdict` has `policies` and `constraints` as `Verdict.to_dict()` has them.
    """
    from pipeline.release.release_gate import POLICY_COLUMNS

    if verdict.get("policies"):
        print_table(verdict["policies"], title="Policies on the held-out window", columns=POLICY_COLUMNS)
    constraints = verdict.get("constraints") or ()
    blocking = [row for row in constraints if row["passed"] is False]
    if blocking:
        print_table(blocking, title="Constraints that block", columns=("name", "sentence"))
    if constraints:
        print(constraint_line(constraints))


def constraint_line(constraints: Sequence[Mapping[str, Any]]) -> str:
    """Say how many constraints passed and failed, which could not be measured, and where they all stand."""
    from simulator.gate.spoken_names import spoken

    passed, failed = (sum(row["passed"] is way for row in constraints) for way in (True, False))
    unmeasured = [spoken(str(row["name"])) for row in constraints if row["passed"] is None]
    line = f"Constraints: {passed} passed, {failed or 'none'} failed"
    if unmeasured:
        line += f"; not measured: {', '.join(unmeasured)}"
    return f"{line}. All of them: verdict.md in MLflow."
