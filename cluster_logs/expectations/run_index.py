"""The front page of the Data Docs: every run, newest first, with what failed and a link to its page.

Great Expectations' own index fills its tables with a script from another host; without it the page is empty.
"""

import json
from html import escape
from pathlib import Path

from cluster_logs.expectations.suite import Severity

# Older runs keep their pages; the list stops here.
_MOST_RUNS = 200


def write_run_index(results_dir: Path, pages_dir: Path, target: Path) -> None:
    """Write `target` from the results that Great Expectations keeps as JSON and the pages it made of them.

    Both folders hold `SUITE/RUN/TIME/BATCH`, with the suffixes `.json` and `.html`.
    """
    found = sorted(results_dir.rglob("*.json"), key=lambda path: (path.parent.name, path.name), reverse=True)
    rows = [_row(path, results_dir, pages_dir, target.parent) for path in found[:_MOST_RUNS]]
    target.write_text(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Validation runs</title><style>"
        "body{font:15px/1.5 sans-serif;margin:2rem;color:#222;background:#fff}"
        "table{border-collapse:collapse}"
        "th,td{border:1px solid #ccc;padding:.3rem .6rem;text-align:left}"
        ".passed{color:#1a7f37}.set-aside{color:#9a6700}.failed{color:#b42318;font-weight:bold}"
        "</style></head><body><h1>Validation runs</h1>"
        "<p>Rows set aside are in quarantine, under the name of the expectation. "
        "A failed table stopped the run.</p>"
        "<table><tr><th>Time (UTC)<th>Table<th>Outcome<th>Failed expectations</tr>"
        + "".join(rows)
        + "</table></body></html>\n",
        encoding="utf-8",
    )


def _row(path: Path, results_dir: Path, pages_dir: Path, base: Path) -> str:
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
    return (
        f'<tr><td>{escape(time)}<td><a href="{escape(page.as_posix())}">{escape(suite)}</a>'
        f'<td class="{outcome}">{words}<td>{escape(names)}</tr>'
    )
