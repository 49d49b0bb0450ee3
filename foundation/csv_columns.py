"""A table's columns as the cells of a CSV, many at once: the bytes are those of Python's own writer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

# Between them Arrow and Python write the same digits in the same notation.
_LEAST_PLAIN, _FIRST_SCIENTIFIC = 1e-4, 1e10
# Whole numbers below it are exact; above, Python changes to scientific notation.
_FIRST_TOO_LARGE = 1e15
# What a cell may hold that is quoted, or begin with where a spreadsheet computes it.
_SPECIAL = "[\",\r\n]|^['=+\\-@\t\uff0b\uff0d\uff1d\uff20]"


def has_plain_columns(frame: "pd.DataFrame") -> bool:
    """Whether `csv_lines` writes such a table: two columns or more of float64, int64, bool or text."""
    # A cell that is alone in its row is quoted when it is empty.
    return frame.shape[1] > 1 and all(str(kind) in _PLAIN for kind in frame.dtypes)


def csv_lines(frame: "pd.DataFrame", cell_of: Callable[[str], str]) -> str:
    """Return one line a row of a table with plain columns, each ended by a line feed.

    A missing value is an empty cell. `cell_of` says what is written of a text that holds what a CSV or a
    spreadsheet reads in a way of its own.
    """
    cells = [_cells(frame.iloc[:, number], cell_of) for number in range(frame.shape[1])]
    rows = pc.binary_join_element_wise(*cells, ",")
    lines = pc.binary_join_element_wise(rows, "\n", "")
    text: str = lines.buffers()[2].to_pybytes().decode()
    return text


_PLAIN = ("str", "float64", "int64", "bool")


def _cells(column: "pd.Series[Any]", cell_of: Callable[[str], str]) -> pa.Array:
    kind = str(column.dtype)
    if kind == "float64":
        return _float_cells(column.to_numpy())
    if kind == "int64":
        return pc.cast(pa.array(column.to_numpy()), pa.string())
    if kind == "bool":
        return pa.array(["False", "True"], pa.string()).take(pa.array(column.to_numpy().view(np.int8)))
    texts = pa.array(column, pa.string())
    return _text_cells(texts if isinstance(texts, pa.Array) else texts.combine_chunks(), cell_of)


def _text_cells(texts: pa.Array, cell_of: Callable[[str], str]) -> pa.Array:
    special = pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), fill_value=False)
    texts = pc.fill_null(texts, "")
    if not pc.any(special).as_py():
        return texts
    written = [cell_of(text) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(texts, special, pa.array(written, pa.string()))


def _float_cells(values: NDArray[np.float64]) -> pa.Array:
    missing = np.isnan(values)
    size = np.abs(values)
    whole = (size < _FIRST_TOO_LARGE) & (values == np.floor(values)) & ~((values == 0) & np.signbit(values))
    plain = ~whole & (size >= _LEAST_PLAIN) & (size < _FIRST_SCIENTIFIC)
    whole_cells = pc.cast(pa.array(np.where(whole, values, 0).astype(np.int64), mask=missing), pa.string())
    cells = pc.binary_join_element_wise(whole_cells, ".0", "")
    if plain.any():
        cells = pc.replace_with_mask(cells, pa.array(plain), pc.cast(pa.array(values[plain]), pa.string()))
    other = ~(whole | plain | missing)
    if other.any():
        texts = pa.array([repr(value) for value in values[other].tolist()], pa.string())
        cells = pc.replace_with_mask(cells, pa.array(other), texts)
    return pc.fill_null(cells, "")
