"""Predictions from graphs beside their rivals: the section of docs/model_quality.md."""

from pathlib import Path

import pandas as pd

from profiler_jobs.profile_table import read_solo_profiles


def solo_profiles(file: Path | None, seed: int = 0) -> tuple[pd.DataFrame, str]:
    """Return solo profiles and the name of what they were measured on: of a file, else the simulated GPU."""
    if file is not None:
        return read_solo_profiles(file), file.name
    from profiler_jobs.campaign import measure_simulated_profiles

    return measure_simulated_profiles(seed).solo, "the simulated GPU"
