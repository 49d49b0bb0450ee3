"""Reads a delimited file with polars, by the Python that has it: `python polars_read.py FILE FORMAT`.

Prints one JSON object: rows, the processor time (s) of all threads without the start, its version. The first
read is of a few rows, for what is imported late. Needs polars and the standard library.
"""

import io
import json
import sys
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import polars

LAYOUTS: dict[str, dict[str, Any]] = {
    "sacct": {"separator": "|"},
    "swf": {"separator": " ", "comment_prefix": ";", "has_header": False},
}
FIRST_LINES = 200


def main(file: Path, source_format: str) -> dict[str, Any]:
    """Read the whole file into a table, dates and times as such."""
    layout = {"try_parse_dates": True, **LAYOUTS.get(source_format, {})}
    with file.open("rb") as source:
        polars.read_csv(io.BytesIO(b"".join(islice(source, FIRST_LINES))), **layout)
    began = process_time()
    rows = polars.read_csv(file, **layout).height
    return {"rows": rows, "cpu_s": process_time() - began, "version": polars.__version__}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
