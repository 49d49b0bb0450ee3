"""What nodes asleep save: energy, money and CO2.

Helios (SC '21, section 4.3.2) counts 800 W an idle DGX-1 and twice that for its cooling; a node asleep is
taken to draw nothing.
"""

from dataclasses import dataclass

from simulator.energy import EnergySettings

DAYS_A_YEAR = 365.0


@dataclass(frozen=True)
class EnergySaved:
    """Savings over the days of a replay, and the energy of a year at the same rate."""

    kwh: float
    cost: float
    co2_kg: float
    kwh_per_year: float


def energy_saved(asleep_mean: float, days: float, settings: EnergySettings) -> EnergySaved:
    """Return what `asleep_mean` nodes asleep for so many days save beside idle ones."""
    kwh_per_day = asleep_mean * settings.idle_w * settings.cooling_factor * 24 / 1_000
    kwh = kwh_per_day * days
    return EnergySaved(
        kwh, kwh * settings.price_per_kwh, kwh * settings.co2_kg_per_kwh, kwh_per_day * DAYS_A_YEAR
    )
