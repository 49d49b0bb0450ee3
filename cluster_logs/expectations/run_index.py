"""The front page of the Data Docs: every run, newest first, with what failed and a link to its page.

Great Expectations' own index fills its tables with a script from another host; without it the page is empty.
"""

import json
from pathlib import Path

from cluster_logs.expectations.suite import Severity
from foundation.html_pages import render_page

# Older runs keep their pages; the list stops here.
_MOST_RUNS = 200


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
