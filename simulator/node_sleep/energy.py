"""What nodes asleep save: energy, money and CO2.

Helios (SC '21, section 4.3.2) counts 800 W an idle DGX-1 and twice that for its cooling; a node asleep is
taken to draw nothing.
"""

from dataclasses import dataclass

from foundation.checked_settings import CheckedSettings

DAYS_A_YEAR = 365.0


@dataclass(frozen=True)
class EnergySettings(CheckedSettings):
    """What an idle node costs; price and CO2 are assumptions, to be replaced by a site's own."""

    idle_w: float = 800.0  # an idle node draws so many watts (Helios: a DGX-1)
    cooling_factor: float = 3.0  # node and cooling together, in multiples of the node alone (Helios)
    price_per_kwh: float = 0.10  # in the site's currency
    co2_kg_per_kwh: float = 0.4  # kg of CO2 by the site's electricity


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
