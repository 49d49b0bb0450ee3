"""The gate asks installed parts, and names none."""

from pathlib import Path

import pytest

from foundation import parts
from foundation.parts import Part
from pipeline.validation.part_checks import GateCheck, JudgedRelease, PartFindings
from simulator.gate.verdict import Constraint
from tests.small_cluster import World, validate

pytestmark = pytest.mark.slow


class Toy(GateCheck):
    """A part whose replay is the challenger's, and which is never content."""

    step = "asking the toy"

    def check(self, judged: JudgedRelease) -> PartFindings:
        """Refuse."""
        broken = Constraint("toy", "toys", 1.0, None, 0.0, False, "The toy is broken.")
        return PartFindings([broken], {"challenger, with toys": judged.results["challenger"]})


TOY = Toy()


def test_a_part_asks_its_own_of_a_release_and_shows_its_replays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Part("toy", "A toy", gate_check=f"{__name__}:TOY")
    monkeypatch.setattr(parts, "installed_parts", lambda: (toy,))
    verdict = validate(world, tmp_path)
    assert "The toy is broken." in [one.sentence for one in verdict.failed]
    assert "challenger, with toys" in [row["policy"] for row in verdict.policies]
    assert all(row["policy"] != "challenger, with toys" for row in verdict.comparisons)
    monkeypatch.setattr(parts, "installed_parts", lambda: ())
    assert "toy" not in [one.name for one in validate(world, tmp_path).constraints]
