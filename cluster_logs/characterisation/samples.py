"""What was in use, sampled by the minute: of a source that says this instead of when its jobs started."""

from dataclasses import dataclass

import pandas as pd

from cluster_logs.characterisation.shares import FloatArray


@dataclass(frozen=True)
class OccupancySamples:
    """Samples at instants (seconds since 1970), in order.

    - `busy`, `total`: of the whole cluster, in `unit` (nodes or GPUs), shape (samples,). `total` None: the
      cluster's capacity.
    - `by_virtual_cluster`: busy GPUs, a column a virtual cluster; `waiting_by_virtual_cluster`: GPUs that
      waiting jobs ask for.
    """

    times_s: FloatArray
    busy: FloatArray
    total: FloatArray | None
    unit: str
    by_virtual_cluster: pd.DataFrame | None = None
    waiting_by_virtual_cluster: pd.DataFrame | None = None

    def within(self, start_s: float, end_s: float) -> "OccupancySamples":
        """The samples in [start_s, end_s)."""
        inside = (self.times_s >= start_s) & (self.times_s < end_s)

        def cut(frame: pd.DataFrame | None) -> pd.DataFrame | None:
            return None if frame is None else frame[inside]

        return OccupancySamples(
            self.times_s[inside],
            self.busy[inside],
            None if self.total is None else self.total[inside],
            self.unit,
            cut(self.by_virtual_cluster),
            cut(self.waiting_by_virtual_cluster),
        )
