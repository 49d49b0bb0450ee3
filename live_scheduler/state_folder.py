"""Where a live scheduler keeps what it knows."""

from pathlib import Path

from foundation.private_files import private_folder


def state_folder(state_dir: Path, cluster: str) -> Path:
    """Return the folder of a cluster's live scheduler below `state_dir`, made for its owner only."""
    return private_folder(state_dir / "live" / cluster)
