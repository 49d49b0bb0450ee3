"""Local clock readings to UTC, vectorised, with the rules of PEP 495.

Where a clock was set back and a reading occurred twice, the first is taken (`fold=0`). Where it was set
forward and a reading never occurred, it is read with the offset from before the change, as if the clock had
not been touched.
"""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from foundation.errors import BadInputError

# Plausible times: from 1970 on, before 2100. Times outside are refused before they come here.
FIRST_US = 0
END_US = 4_102_444_800_000_000
NOT_A_TIME = int(np.iinfo(np.int64).min)

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_EPOCH = date(1970, 1, 1)


def load_zone(name: str) -> ZoneInfo:
    """The time zone of that name; BadInputError when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInputError(
            f"Unknown time zone {name!r}.", remedy="Use a name such as UTC, Asia/Shanghai or US/Pacific."
        ) from error


def local_to_utc(local_us: npt.NDArray[np.int64], zone_name: str) -> npt.NDArray[np.int64]:
    """UTC microseconds of local clock readings (microseconds since 1970-01-01 00:00 on that clock).

    NOT_A_TIME stays as it is; other values must lie in [FIRST_US, END_US).
    """
    if zone_name == "UTC":
        return local_us
    is_time = local_us != NOT_A_TIME
    days, of_day = np.unique(np.where(is_time, local_us, 0) // _DAY_US, return_inverse=True)
    at_midnight, at_next = (
        np.array([_offset_s(zone_name, int(day) * _DAY_US // _SECOND_US) for day in each], dtype=np.int64)[
            of_day
        ]
        for each in (days, days + 1)
    )
    offset_s = at_midnight
    # On the few days when the clock changes each reading is looked up by itself.
    for index in np.flatnonzero(is_time & (at_midnight != at_next)):
        offset_s[index] = _offset_s(zone_name, int(local_us[index]) // _SECOND_US)
    return np.where(is_time, local_us - offset_s * _SECOND_US, NOT_A_TIME)


@lru_cache(maxsize=100_000)
def _offset_s(zone_name: str, local_s: int) -> int:
    reading = datetime.fromtimestamp(local_s, UTC).replace(tzinfo=load_zone(zone_name))
    return int((reading.utcoffset() or timedelta()).total_seconds())
