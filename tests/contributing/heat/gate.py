"""What the gate asks of a release: that GPUs stay cool."""

from pipeline.validation.part_checks import GateCheck, JudgedRelease, PartFindings
from simulator.gate.verdict import Constraint

LIMIT_CELSIUS = 85.0


class CoolEnough(GateCheck):
    """A release is refused while GPUs are hotter than the limit."""

    step = "reading temperatures"

    def check(self, judged: JudgedRelease) -> PartFindings:
        """Return the constraint."""
        from cluster_logs.lake import Lake

        hottest = float(Lake(judged.site.lake).read_series("gpu_heat", "small")["celsius"].max())
        cool = hottest <= LIMIT_CELSIUS
        sentence = f"The hottest GPU had {hottest:g} degrees, of at most {LIMIT_CELSIUS:g}."
        return PartFindings([Constraint("gpu_heat", "C", hottest, None, LIMIT_CELSIUS, cool, sentence)])


GATE_CHECK = CoolEnough()
