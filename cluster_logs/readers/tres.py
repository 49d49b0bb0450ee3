"""Columns of Slurm's TRES lists (`cpu=4,gres/gpu=2`), as the readers that have such need them."""

import numpy as np

from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.values import FloatArray
from cluster_logs.slurm_words import gpus_of_tres


def gpus_in_tres(checker: RowChecker, column: str) -> FloatArray:
    """GPUs of each row, shape (rows,): 0 of an empty list, NaN where the amount is no number."""
    gpus, unreadable = checker.parsed(column, gpus_of_tres, fact="gpus")
    return np.where(unreadable, np.nan, np.nan_to_num(gpus))
