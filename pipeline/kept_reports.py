"""Reports kept as PAGES/CLUSTER/STAMP/REPORT_FILE, and which of them an index lists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def newest_reports(
    pages_dir: Path, report_file: str, most: int, cluster: str = "*"
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield cluster, stamp and report of the newest `most` of every cluster (or of one), newest stamps
    first.
    """
    listed: dict[str, int] = {}
    for path in sorted(pages_dir.glob(f"{cluster}/*/{report_file}"), reverse=True):
        name, stamp = path.parts[-3:-1]
        if listed.get(name, 0) < most:
            listed[name] = listed.get(name, 0) + 1
            yield name, stamp, json.loads(path.read_text(encoding="utf-8"))
