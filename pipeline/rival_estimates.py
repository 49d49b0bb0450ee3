"""Moved to `lucid_models.rival_estimates`; this name goes once nothing imports it."""

from lucid_models.rival_estimates import helios_rolling_s as helios_rolling_s
from lucid_models.rival_estimates import known_from_s as known_from_s
