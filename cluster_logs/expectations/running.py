"""The only module that imports Great Expectations: it runs suites and builds their Data Docs.

The import takes seconds, so it happens inside the functions. Nothing is sent anywhere: analytics are switched
off before the import, and the pages load nothing from the network. Great Expectations' own load style sheets,
scripts and a logo with a time stamp from other hosts when they are opened. These and the advertising footer
are removed, and with them the scripts of its own, which do nothing without; a small style sheet of ours keeps
the pages readable. Its index fills its tables with a script from another host, so a list of the runs, newest
first, stands in its place.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cluster_logs.expectations.suite import CheckedUnit, ExpectationCheck, Severity, Suite
from foundation.errors import BadInputError
from foundation.html_pages import render_page

FEW_FAILING_ROWS = "failing_rows_are_few"
COLUMNS_ARE_THERE = "columns_are_there"
_FAILED = "row_failed"
# Where a file context keeps its pages and its results.
_SITE = Path("gx", "uncommitted", "data_docs", "local_site")
_RESULTS = Path("gx", "uncommitted", "validations")

# Older runs keep their pages; the list stops here.
_MOST_RUNS = 200

_REMOTE = r"""(?:src|href)\s*=\s*["']?(?:https?:)?//"""
_TAGS = re.compile(
    rf"<footer\b.*?</footer\s*>|<script\b.*?</script\s*>|<link\b[^>]*{_REMOTE}[^>]*>"
    rf"|<link\b[^>]*favicon[^>]*>|<img\b[^>]*{_REMOTE}[^>]*>",
    re.IGNORECASE | re.DOTALL,
)
# What a click would do needs the scripts that are gone.
_HANDLERS = re.compile(r"""\son[a-z]+\s*=\s*(?:"[^"]*"|'[^']*')""", re.IGNORECASE)
_WITH_HANDLERS = re.compile(r"<[a-z][^<>]*\son[a-z]+\s*=[^<>]*>", re.IGNORECASE)
_STYLE_URLS = re.compile(r"""url\(\s*["']?(?:https?:)?//[^)]*\)""", re.IGNORECASE)
_IMPORTS = re.compile(r"""@import\s+(?:url\()?\s*["']?(?:https?:)?//[^;]*;""", re.IGNORECASE)
_MARK = "lucid-offline"
_STYLE = f"""<style id="{_MARK}">
body {{ font: 15px/1.5 sans-serif; margin: 0 2rem 2rem; color: #222; background: #fff; }}
table {{ border-collapse: collapse; margin: .5rem 0; }}
th, td {{ border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }}
.d-none, .modal, .collapse {{ display: none; }}
.row {{ display: flex; gap: 2rem; }}
.col-md-2, .navigation {{ min-width: 15rem; }}
.badge {{ border: 1px solid #888; border-radius: .3rem; padding: 0 .3rem; }}
.fa-check-circle::before {{ content: "\\2714"; color: #1a7f37; }}
.fa-times::before, .fa-times-circle::before {{ content: "\\2718"; color: #b42318; }}
.fa-exclamation-triangle::before {{ content: "\\26A0"; color: #9a6700; }}
</style>"""


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

        # This module sets a level of its own, and logs each temporary folder.
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


def make_offline(folder: Path) -> None:
    """Rewrite the pages and style sheets under a folder so that a browser asks no other host for anything."""
    for page in sorted(folder.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        if _MARK in text:
            continue
        clean = _IMPORTS.sub("", _STYLE_URLS.sub("none", _TAGS.sub("", text)))
        clean = _WITH_HANDLERS.sub(lambda tag: _HANDLERS.sub("", tag.group()), clean)
        head = clean.lower().find("</head>")
        at = head if head >= 0 else 0
        page.write_text(clean[:at] + _STYLE + clean[at:], encoding="utf-8")
    for sheet in sorted(folder.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        clean = _IMPORTS.sub("", _STYLE_URLS.sub("none", text))
        if clean != text:
            sheet.write_text(clean, encoding="utf-8")


def write_run_index(results_dir: Path, pages_dir: Path, target: Path) -> None:
    """Write `target` from the results that Great Expectations keeps as JSON and the pages it made of them.

    Both folders hold `SUITE/RUN/TIME/BATCH`, with the suffixes `.json` and `.html`.
    """
    result_files = sorted(
        results_dir.rglob("*.json"), key=lambda path: (path.parent.name, path.name), reverse=True
    )
    rows = [_row(path, results_dir, pages_dir, target.parent) for path in result_files[:_MOST_RUNS]]
    page = render_page("cluster_logs.expectations", "runs.html", title="Validation runs", runs=rows)
    target.write_text(page, encoding="utf-8")


def _row(path: Path, results_dir: Path, pages_dir: Path, base: Path) -> dict[str, str]:
    document = json.loads(path.read_text(encoding="utf-8"))
    failed = [result["expectation_config"] for result in document["results"] if not result["success"]]
    broken = any(
        result["exception_info"].get("raised_exception")
        for result in document["results"]
        if not result["success"]
    )
    critical = broken or any(config["severity"] == Severity.CRITICAL for config in failed)
    outcome, words = ("passed", "passed")
    if failed:
        outcome, words = ("failed", "table failed") if critical else ("set-aside", "rows set aside")
    names = ", ".join(config["meta"]["name"] for config in failed)
    page = (pages_dir / path.relative_to(results_dir)).with_suffix(".html").relative_to(base)
    time = document["meta"]["validation_time"][:19].replace("T", " ")
    suite = document["meta"]["active_batch_definition"]["data_asset_name"]
    return {
        "time": time,
        "page": page.as_posix(),
        "suite": suite,
        "outcome": outcome,
        "words": words,
        "failed": names,
    }
