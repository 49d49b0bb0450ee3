"""The public data that some tests read.

Each of those tests carries the marker `reference`, so that it is skipped where there is no such data.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

VARIABLE = "LUCID_REFERENCE_DATA"
NAMED = os.environ.get(VARIABLE)
# Where nothing is named, a test that reads it without the marker fails on a path that says so.
ROOT = Path(NAMED or f"/{VARIABLE} is not set")


def skip_without_data(items: Iterable[pytest.Item]) -> None:
    """Skip the tests that read the data, unless the environment names it."""
    if NAMED:
        return
    skip = pytest.mark.skip(reason=f"{VARIABLE} does not name the public data")
    for item in items:
        if item.get_closest_marker("reference"):
            item.add_marker(skip)
