"""`lucid` as scripts run it: a process of its own in one folder, with nothing set from outside."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LUCID = Path(sys.executable).with_name("lucid")
DEADLINE_S = 300


class Shell:
    """Runs `lucid` in a folder; what it keeps for itself lies below that folder."""

    def __init__(self, folder: Path, tracking_uri: str, **settings: str) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LUCID_")}
        self.environment = inherited | {
            "LUCID_TRACKING_URI": tracking_uri,
            "LUCID_STATE_DIR": str(folder / "state"),
            **settings,
        }

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever its exit code."""
        return subprocess.run(
            [LUCID, *map(str, words)],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=DEADLINE_S,
            check=False,
        )  # fmt: skip

    def document(self, *words: str | Path) -> Any:
        """What a command that succeeds says with --json: one document, and nothing else."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
