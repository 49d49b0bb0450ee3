"""The blessed case exercises what it is for."""

import json
from pathlib import Path

BLESSED = Path(__file__).parents[1] / "golden" / "simulate_qssf_node_sleep.json"


def test_a_boot_fails_in_the_blessed_case() -> None:
    assert json.loads(BLESSED.read_text(encoding="utf-8"))["summary"]["boots_failed"] > 0
