"""Pairs that were not measured, as the pairwise model expects them.

A configuration's label is the mean speed that it leaves its partners. Of a campaign that measured a few
telling pairs, each configuration has a few odd partners, and the mean over those says little; completed, it
says more (docs/profiling.md, docs/decisions/0015-active-sampling-of-pairs.md).
"""

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

from foundation.errors import BadInputError
from lucid_models.packing.pairwise import LOWEST_SPEED, pair_features
from lucid_models.packing.pairwise_training import fit_mean_speed, read_pair_table
from lucid_models.packing.tree import FEATURES, PackingSettings

if TYPE_CHECKING:
    import pandas as pd

# From this share of the pairs on, means over measured partners stand for themselves.
ENOUGH_MEASURED = 0.5
# Of fewer pairs nothing is learned that others could be expected by.
LEAST_PAIRS = 20


def complete_pairs(solo: "pd.DataFrame", pairs: "pd.DataFrame", settings: PackingSettings) -> "pd.DataFrame":
    """Return the pairs, completed where fewer than half of those among their configurations are measured.

    A pair that is added has the expected mean speed on both sides; columns job_type_1, speed_1, job_type_2,
    speed_2. Where nothing can be learned (too few pairs, or of one model), the pairs come back as they are.
    """
    import pandas as pd

    profiles = solo.drop_duplicates("job_type").set_index("job_type")
    profiled = pairs[pairs["job_type_1"].isin(profiles.index) & pairs["job_type_2"].isin(profiles.index)]
    columns = [profiled[f"job_type_{side}"].to_numpy(dtype=str).tolist() for side in (1, 2)]
    names = sorted({*columns[0], *columns[1]})
    measured = {
        (first, second) if first <= second else (second, first)
        for first, second in zip(*columns, strict=True)
    }
    whole = len(names) * (len(names) + 1) // 2
    if len(measured) < LEAST_PAIRS or len(measured) >= ENOUGH_MEASURED * whole:
        return pairs
    missing = [pair for pair in combinations_with_replacement(names, 2) if pair not in measured]
    try:
        scorer, _ = fit_mean_speed(read_pair_table(solo, profiled), settings)
    except BadInputError:
        return pairs
    first, second = (
        profiles.loc[[pair[side] for pair in missing], list(FEATURES)].to_numpy(dtype=np.float64)
        for side in (0, 1)
    )
    expected = np.clip(scorer.score(pair_features(first, second)), LOWEST_SPEED, 1.0)
    added = pd.DataFrame(
        {
            "job_type_1": [pair[0] for pair in missing],
            "speed_1": expected,
            "job_type_2": [pair[1] for pair in missing],
            "speed_2": expected,
        }
    )
    return pd.concat([pairs[list(added.columns)], added], ignore_index=True)
