"""The only module that imports Great Expectations: it runs suites and builds their Data Docs.

The import takes seconds, so it happens inside the functions. Nothing is sent anywhere: analytics are switched
off before the import, and the pages load nothing from the network (`offline_pages`).
"""

import logging
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cluster_logs.expectations.offline_pages import make_offline
from cluster_logs.expectations.run_index import write_run_index
from cluster_logs.expectations.suite import CheckedUnit, ExpectationCheck, Severity, Suite
from foundation.errors import BadInputError

FEW_FAILING_ROWS = "failing_rows_are_few"
COLUMNS_ARE_THERE = "columns_are_there"
_FAILED = "row_failed"
# Where a file context keeps its pages and its results.
_SITE = Path("gx", "uncommitted", "data_docs", "local_site")
_RESULTS = Path("gx", "uncommitted", "validations")


@dataclass(frozen=True)
class CheckResult:
    """How one expectation came out; `failing` are the positions of failing rows (none for table checks)."""

    suite: str
    name: str
    expectation: str
    columns: tuple[str, ...]
    level: CheckedUnit
    severity: Severity
    success: bool
    observed: str
    failing: tuple[int, ...]


def run_suite(
    frame: pd.DataFrame, suite: Suite, *, subject: str, docs_dir: Path | None = None
) -> tuple[list[CheckResult], Path | None]:
    """Run a suite's row checks, then its table checks; return the results and the Data Docs' index page.

    `subject` names the table in the pages. Pages of earlier runs under `docs_dir` stay.
    """
    frame = frame.reset_index(drop=True)
    session = _Session(docs_dir)
    applying = [check for check in suite.checks if all(column in frame.columns for column in check.columns)]
    table_checks = [_columns_check(suite), *(check for check in applying if check.level is CheckedUnit.TABLE)]
    results: list[CheckResult] = []
    # Over an empty table or one of another kind, row checks would only repeat what the table's checks say.
    if len(frame) and set(suite.required) <= set(frame.columns):
        row_checks = [check for check in applying if check.level is CheckedUnit.ROW]
        results += session.run(frame, row_checks, suite, f"{subject}-rows")
        failing = sorted({position for result in results for position in result.failing})
        frame = frame.assign(**{_FAILED: frame.index.isin(failing).astype("float64")})
        table_checks.append(_share_check(suite))
    results += session.run(frame, table_checks, suite, f"{subject}-table")
    if docs_dir is None:
        return results, None
    site, index = docs_dir / _SITE, docs_dir / "index.html"
    make_offline(site)
    write_run_index(docs_dir / _RESULTS, site / "validations", index)
    return results, index


def _columns_check(suite: Suite) -> ExpectationCheck:
    arguments = {"column_set": list(suite.required), "exact_match": False}
    return _critical(COLUMNS_ARE_THERE, "ExpectTableColumnsToMatchSet", arguments)


def _share_check(suite: Suite) -> ExpectationCheck:
    arguments = {"column": _FAILED, "max_value": suite.failing_share}
    return _critical(FEW_FAILING_ROWS, "ExpectColumnMeanToBeBetween", arguments)


def _critical(name: str, expectation: str, arguments: dict[str, Any]) -> ExpectationCheck:
    return ExpectationCheck(name, expectation, arguments, level=CheckedUnit.TABLE, severity=Severity.CRITICAL)


class _Session:
    """One context of Great Expectations: on disk with pages and their history, or in memory without pages."""

    def __init__(self, docs_dir: Path | None) -> None:
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        logging.getLogger("great_expectations").setLevel(logging.WARNING)
        import great_expectations as gx

        # This module sets a level of its own, and tells of each temporary folder.
        logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)

        self._gx = gx
        self._context: Any
        self._actions: list[Any] = []
        if docs_dir is None:
            self._context = gx.get_context(mode="ephemeral")
            for name, site in dict(self._context.variables.data_docs_sites or {}).items():
                shutil.rmtree(site["store_backend"]["base_directory"], ignore_errors=True)
                self._context.delete_data_docs_site(name)
        else:
            try:
                docs_dir.mkdir(parents=True, exist_ok=True)
                self._context = gx.get_context(mode="file", project_root_dir=docs_dir)
            except OSError as error:
                raise BadInputError(
                    f"Data Docs cannot be written under {docs_dir}: {error}.",
                    remedy="Choose another folder.",
                ) from error
            self._actions = [gx.checkpoint.UpdateDataDocsAction(name="pages")]
        self._context.variables.progress_bars = {"globally": False}
        self._source: Any = self._context.data_sources.add_or_update_pandas("lake")

    def run(
        self, frame: pd.DataFrame, checks: Iterable[ExpectationCheck], suite: Suite, subject: str
    ) -> list[CheckResult]:
        """Run the checks as one suite over the frame, in the order given."""
        gx = self._gx
        by_name = {check.name: check for check in checks}
        expectations = [
            getattr(gx.expectations, check.expectation)(
                **check.arguments, severity=check.severity.value, meta={"name": check.name}
            )
            for check in by_name.values()
        ]
        saved = self._context.suites.add_or_update(
            gx.ExpectationSuite(name=subject, expectations=expectations)
        )
        batch = self._source.add_dataframe_asset(subject).add_batch_definition_whole_dataframe("all")
        definition = self._context.validation_definitions.add_or_update(
            gx.ValidationDefinition(name=subject, data=batch, suite=saved)
        )
        checkpoint = self._context.checkpoints.add_or_update(
            gx.Checkpoint(
                name=subject,
                validation_definitions=[definition],
                actions=self._actions,
                result_format={"result_format": "COMPLETE", "include_unexpected_rows": False},
            )
        )
        outcome = checkpoint.run(batch_parameters={"dataframe": frame})
        (run,) = outcome.run_results.values()
        result_of = {result.expectation_config.meta["name"]: result for result in run.results}
        return [_as_result(by_name[name], result_of[name], suite) for name in by_name]


def _as_result(check: ExpectationCheck, result: Any, suite: Suite) -> CheckResult:
    details = dict(result.result or {})
    severity = Severity(result.expectation_config.severity)
    error = _error_of(result.exception_info)
    failing: tuple[int, ...] = ()
    if error:
        # What cannot be evaluated (a column of another type) is the table's fault, not some rows'.
        severity, observed = Severity.CRITICAL, error
    elif check.level is CheckedUnit.ROW:
        failing = tuple(int(position) for position in details.get("unexpected_index_list") or ())
        observed = f"{details.get('unexpected_count', len(failing))} of {details.get('element_count')} rows"
    elif check.name == FEW_FAILING_ROWS:
        share = float(details.get("observed_value") or 0.0)
        observed = f"{100 * share:.3g} % of rows fail, {100 * suite.failing_share:.3g} % allowed"
    else:
        shown = details.get("observed_value", details.get("unexpected_count"))
        observed = ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown)
    return CheckResult(
        suite=suite.name,
        name=check.name,
        expectation=str(result.expectation_config.type),
        columns=check.columns,
        level=check.level,
        severity=severity,
        success=bool(result.success),
        observed=observed,
        failing=failing,
    )


def _error_of(info: Any) -> str:
    """Return the message of an expectation that could not be evaluated, or an empty string."""
    if not isinstance(info, dict):
        return ""
    entries = [info, *(entry for entry in info.values() if isinstance(entry, dict))]
    for entry in entries:
        if entry.get("raised_exception"):
            return str(entry.get("exception_message") or "could not be evaluated")
    return ""
