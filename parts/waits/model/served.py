"""How tables are scored by the wait model: the queue of one moment, with the jobs that started lately; those
wait 0 s more.
"""

import numpy as np
import pandas as pd

from lucid_models.serving_frames import ServingFrame
from parts.waits.model.queue_frame import QUEUE_COLUMNS, read_queue_frame
from parts.waits.model.scorer import WaitScorer


def _score(scorer: WaitScorer, table: pd.DataFrame) -> pd.DataFrame:
    queue, partitions, rows = read_queue_frame(table)
    waits_s = np.zeros((len(table), 2))
    waits_s[rows] = scorer.forecast(queue, partitions)
    return pd.DataFrame(waits_s, columns=list(FRAME.outputs), index=table.index)


FRAME = ServingFrame(QUEUE_COLUMNS, dict.fromkeys(("p50_s", "p90_s"), ("double", True)), _score)
