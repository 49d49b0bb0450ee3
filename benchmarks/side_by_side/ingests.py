"""Ingests one file in the tree that is imported; what it took, apart from its start: a process of its own.

    PYTHONPATH=TREE python -P ingests.py FORMAT FILE FOLDER

The first rows of the same file are ingested before, into another lake: what is imported late is there then.
Prints one JSON object: rows, CPU seconds, the process's peak of memory (MiB).
"""

import json
import shutil
import sys
from pathlib import Path
from time import process_time
from typing import Any

from cluster_logs.ingest import ingest_log

FIRST_LINES = 200


def main(source_format: str, file: Path, folder: Path) -> dict[str, Any]:
    """Ingest twice: a little, then all."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    little = folder / "little.data"
    with file.open("rb") as source, little.open("wb") as target:
        target.writelines(line for _, line in zip(range(FIRST_LINES), source, strict=False))
    _ingest(source_format, little, folder / "first")
    began = process_time()
    rows = _ingest(source_format, file, folder / "lake")
    taken_s = process_time() - began
    peak_kib = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return {"rows": rows, "cpu_s": taken_s, "peak_mib": peak_kib / 1024}


def _ingest(source_format: str, file: Path, lake: Path) -> int:
    return ingest_log(
        source_format=source_format, input_uri=str(file), cluster="venus", lake_uri=str(lake)
    ).rows_kept


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
