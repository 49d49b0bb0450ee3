"""How many nodes were busy, bin by bin of ten minutes: STATE/busy_nodes.jsonl (`seen_bins.py`)."""

from pathlib import Path

from live_scheduler.seen_bins import KEPT_S, SeenBins
from simulator.node_sleep.control import BIN_S

BUSY_NODES_FILE = "busy_nodes.jsonl"
MOST_BINS = KEPT_S // BIN_S


class BusyBins(SeenBins):
    """The bins of one state folder, in nodes."""

    def __init__(self, folder: Path) -> None:
        """Read the bins that are there. Raises OSError for a file that cannot be read."""
        super().__init__(folder / BUSY_NODES_FILE, "busy", bin_s=BIN_S)
