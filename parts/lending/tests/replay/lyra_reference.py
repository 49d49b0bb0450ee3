"""Lyra's worked examples among the public reference data."""

import gzip
import json
from typing import Any

from parts.lending.replay.reclaiming import LoanedServer
from tests.reference import ROOT

EXAMPLES = ROOT / "reference" / "lyra"


def examples(kind: str) -> list[dict[str, Any]]:
    """Return the worked examples of a kind."""
    return list(json.loads((EXAMPLES / "examples.json").read_text())[kind])


def reclaim_decisions() -> list[dict[str, Any]]:
    """Return decisions of simulated fortnights, with what several rules made of them."""
    return list(json.loads(gzip.decompress((EXAMPLES / "reclaim_decisions.json.gz").read_bytes())))


def servers_of(decision: dict[str, Any]) -> list[LoanedServer[str]]:
    """Return the servers on loan of an example or a decision."""
    return [LoanedServer(int(server), base) for server, base in decision["servers"].items()]
