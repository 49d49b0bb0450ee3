"""GPU measurements: configurations alone and in pairs, on real devices or a simulated one.

`measure` takes a `Session` (a device from `open_device`, a measurement table, a `Method`) and `JobType`s, and
goes on where an earlier one stopped; `summarise` turns the table into profiles, and `read_solo_profiles`,
`read_pair_profiles` read such profiles, ours and published ones. A device of another kind is a
`ProfilingDevice`. The workloads themselves are in `zoo/`. Runs on a bare machine: `python3 -m profiler_jobs`.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from profiler_jobs.devices.device import ProfilingDevice as ProfilingDevice
    from profiler_jobs.devices.opening import open_device as open_device
    from profiler_jobs.method import Method as Method
    from profiler_jobs.profile_table import ProfileSet as ProfileSet
    from profiler_jobs.profile_table import read_pair_profiles as read_pair_profiles
    from profiler_jobs.profile_table import read_solo_profiles as read_solo_profiles
    from profiler_jobs.session import Session as Session
    from profiler_jobs.session import measure as measure
    from profiler_jobs.summary import summarise as summarise
    from profiler_jobs.workloads import JobType as JobType

__getattr__, __dir__ = lazy_names(__name__)
