"""Days of inference load for tests: a daily rise and fall with noise, every five minutes."""

import numpy as np
import pandas as pd

from lucid_models.boosting import BoostingSettings
from parts.lending.load.series import BIN_S
from parts.lending.usage.fitting import LoadSettings

START = pd.Timestamp("2020-04-01", tz="UTC")
SERVERS = 40
FAST = LoadSettings(boosting=BoostingSettings(bags=2, max_rounds=40, max_bins=16))


def inference_days(days: float, *, seed: int = 0, start: pd.Timestamp = START) -> pd.DataFrame:
    """Rows of the table `inference_load`: usage from 0.4 at night to 0.8 by day, of 40 servers."""
    bins = round(days * 86_400 / BIN_S)
    at = start + pd.to_timedelta(BIN_S * np.arange(bins), unit="s")
    hours = (at.hour + at.minute / 60).to_numpy(dtype=float)
    noise = np.random.default_rng(seed).normal(0.0, 0.01, bins)
    usage = np.clip(0.6 - 0.2 * np.cos(2 * np.pi * (hours - 2) / 24) + noise, 0.0, 0.98)
    return pd.DataFrame({"time": at, "usage": usage, "servers": SERVERS, "gap": False, "origin": "synthetic"})
