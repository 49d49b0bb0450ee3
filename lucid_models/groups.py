"""Figures of jobs by group: counts, sums, medians, ranks, with NumPy alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def joint_codes(columns: list[NDArray[Any]], rows: int) -> Codes:
    """One code for each distinct row of the columns, shape (rows,); without columns all are one group."""
    codes = np.zeros(rows, dtype=np.intp)
    for column in columns:
        distinct, code = np.unique(column, return_inverse=True)
        codes = np.unique(codes * distinct.size + code, return_inverse=True)[1].astype(np.intp)
    return codes


def counts(codes: Codes, groups: int) -> Floats:
    """Rows of each group, shape (groups,)."""
    return np.bincount(codes, minlength=groups).astype(np.float64)


def sums(codes: Codes, values: Floats, groups: int) -> Floats:
    """Sum of each group's values, shape (groups,)."""
    return np.bincount(codes, weights=values, minlength=groups).astype(np.float64)


def medians(codes: Codes, values: Floats, groups: int) -> Floats:
    """Median of each group's values, shape (groups,); NaN where it has none; NaN values are left out."""
    is_given = ~np.isnan(values)
    codes, values = codes[is_given], values[is_given]
    order = np.lexsort((values, codes))
    ordered = values[order]
    size = np.bincount(codes, minlength=groups)
    first = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.intp)
    result = np.full(groups, np.nan)
    has = size > 0
    low, high = first + (size - 1) // 2, first + size // 2
    result[has] = (ordered[low[has]] + ordered[high[has]]) / 2
    return result


def lowest(codes: Codes, values: Floats, groups: int) -> Floats:
    """Least value of each group, shape (groups,); infinity without any."""
    result = np.full(groups, np.inf)
    np.minimum.at(result, codes, values)
    return result


def ranks(codes: Codes, order: Codes) -> Floats:
    """Place of each row within its group, from 1 on, shape (rows,); `order` lists the rows in turn."""
    return running_sums(codes, np.ones(codes.size), order)


def running_sums(codes: Codes, values: Floats, order: Codes) -> Floats:
    """Sum of the values of a group's rows up to and with each one, shape (rows,); `order` as in `ranks`."""
    by_group = order[np.argsort(codes[order], kind="stable")]
    total = np.cumsum(values[by_group])
    ordered = codes[by_group]
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    before = (total - values[by_group])[is_first]
    result = np.empty(codes.size)
    result[by_group] = total - before[np.cumsum(is_first) - 1]
    return result
