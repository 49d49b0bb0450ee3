"""Reports kept as PAGES/CLUSTER/STAMP/REPORT_FILE, and which of them an index lists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def newest_reports(pages_dir: Path, report_file: str, most: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield cluster, stamp and report of the newest `most` of every cluster, newest stamps first."""
    listed: dict[str, int] = {}
    for path in sorted(pages_dir.glob(f"*/*/{report_file}"), reverse=True):
        cluster, stamp = path.parts[-3:-1]
        if listed.get(cluster, 0) < most:
            listed[cluster] = listed.get(cluster, 0) + 1
            yield cluster, stamp, json.loads(path.read_text(encoding="utf-8"))
