"""What an idle node costs."""

from dataclasses import dataclass

from foundation.checked_settings import CheckedSettings


@dataclass(frozen=True)
class EnergySettings(CheckedSettings):
    """What an idle node costs; price and CO2 are assumptions, to be replaced by a site's own."""

    idle_w: float = 800.0  # an idle node draws so many watts (Helios: a DGX-1)
    cooling_factor: float = 3.0  # node and cooling together, in multiples of the node alone (Helios)
    price_per_kwh: float = 0.10  # in the site's currency
    co2_kg_per_kwh: float = 0.4  # kg of CO2 by the site's electricity
