"""Reports as plain values: what JSON and Airflow's XCom can carry."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any


def to_jsonable(value: Any) -> Any:  # noqa: PLR0911
    """Turn reports, NumPy scalars, times and paths into what JSON can say; NaN and infinity become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Iterable):
        return [to_jsonable(item) for item in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return to_jsonable(value.item())
    return str(value)
