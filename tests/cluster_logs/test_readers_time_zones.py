"""Local clock readings to UTC, against the standard library."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cluster_logs.readers.source import NOT_A_TIME, local_to_utc

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  a clock reading
readings = st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31))  # noqa: DTZ001
zones = st.sampled_from(
    ["UTC", "Asia/Shanghai", "America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe"]
)


@given(st.lists(readings), zones)
@example([datetime(2017, 11, 5, 1, 30)], "America/Los_Angeles")  # noqa: DTZ001  occurs twice
@example([datetime(2018, 3, 11, 2, 30)], "America/Los_Angeles")  # noqa: DTZ001  never occurs
def test_as_the_standard_library_with_the_first_of_two(times: list[datetime], zone: str) -> None:
    microseconds = np.array([(time - EPOCH) // timedelta(microseconds=1) for time in times], dtype=np.int64)
    expected = [
        (time.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC).replace(tzinfo=None) - EPOCH)
        // timedelta(microseconds=1)
        for time in times
    ]
    assert local_to_utc(microseconds, zone).tolist() == expected


def test_unknown_stays_unknown() -> None:
    assert local_to_utc(np.array([NOT_A_TIME]), "Asia/Shanghai").tolist() == [NOT_A_TIME]
