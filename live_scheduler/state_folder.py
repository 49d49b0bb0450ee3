"""Where a live scheduler keeps what it knows."""

from pathlib import Path


def state_folder(state_dir: Path, cluster: str) -> Path:
    """Return the folder of a cluster's live scheduler below `state_dir`, made for its owner only."""
    folder = state_dir / "live" / cluster
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
