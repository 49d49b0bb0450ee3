"""Lyra's worked examples among the public reference data."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from simulator.loaning.reclaiming import LoanedServer


def reference_folder() -> Path:
    """Return where the examples are; skips the test where they are not."""
    root = os.environ.get("LUCID_REFERENCE_DATA")
    if root is None:
        pytest.skip("LUCID_REFERENCE_DATA does not name the public data")
    folder = Path(root) / "reference" / "lyra"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


def examples(kind: str) -> list[dict[str, Any]]:
    """Return the worked examples of a kind."""
    return list(json.loads((reference_folder() / "examples.json").read_text())[kind])


def reclaim_decisions() -> list[dict[str, Any]]:
    """Return decisions of simulated fortnights, with what several rules made of them."""
    return list(json.loads(gzip.decompress((reference_folder() / "reclaim_decisions.json.gz").read_bytes())))


def servers_of(decision: dict[str, Any]) -> list[LoanedServer[str]]:
    """Return the servers on loan of an example or a decision."""
    return [LoanedServer(int(server), base) for server, base in decision["servers"].items()]
