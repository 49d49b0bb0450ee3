"""Columns of Slurm's TRES lists (`cpu=4,gres/gpu=2`), as the readers that have such need them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.values import FloatArray, as_mask
from cluster_logs.slurm_words import gpus_of_tres, held_by_tres

_NOTES = {"mps": q.SHARED_BY_MPS, "shard": q.SHARED_BY_SHARD, "mig": q.SLICED_BY_MIG}


def gpus_in_tres(checker: RowChecker, column: str) -> FloatArray:
    """GPUs of each row, shape (rows,): 0 of an empty list, NaN where the amount is no number."""
    gpus, unreadable = checker.parsed(column, gpus_of_tres, fact="gpus")
    return np.where(unreadable, np.nan, np.nan_to_num(gpus))


def shared_by(checker: RowChecker, column: str) -> pa.Array:
    """What each row has of its GPUs: shares (mps, shard), slices (mig), or whole ones ("")."""
    return checker.mapped(column, lambda tres: held_by_tres(tres).shared_by, pa.string(), fact="gpus")


def note_shared(checker: RowChecker, kinds: pa.Array) -> None:
    """Note the rows (by `shared_by`) whose parts of GPUs are counted as whole ones."""
    for kind, note in _NOTES.items():
        checker.note(as_mask(pc.equal(kinds, kind)), note)
