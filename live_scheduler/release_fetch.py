"""How far the fetch of a release has come, for whoever asks meanwhile."""

import time
from dataclasses import dataclass, field

from lucid_models.releases.manifest import ReleaseManifest

_MB = 1e6


@dataclass
class ReleaseFetch:
    """One fetch under way; written by the thread that fetches, read by any (each field in one step).

    `files` and `total_bytes` are not known before the manifest has come.
    """

    version: int
    began_s: float = field(default_factory=time.monotonic)
    file: str = ""
    begun_files: int = 0
    files: int | None = None
    done_bytes: int = 0
    file_bytes: int = 0
    total_bytes: int | None = None

    def begin(self, file: str) -> None:
        """The next file is asked for; the one before has come."""
        self.done_bytes += self.file_bytes
        self.file, self.file_bytes = file, 0
        self.begun_files += 1

    def received(self, file_bytes: int) -> None:
        """So much of the present file has come."""
        self.file_bytes = file_bytes

    def expect(self, manifest: ReleaseManifest) -> None:
        """The manifest, which has just come, says what is still to come."""
        pins = manifest.models.values()
        self.total_bytes = self.done_bytes + self.file_bytes + sum(pin.bytes for pin in pins)
        self.files = self.begun_files + len(pins)

    def describe(self) -> str:
        """Say it: "release 7: file 3 of 5, 12 of 40 MB, 31 s"."""
        come = (self.done_bytes + self.file_bytes) / _MB
        seconds = time.monotonic() - self.began_s
        if self.files is None or self.total_bytes is None:
            return f"release {self.version}: {self.file}, {come:,.2f} MB, {seconds:,.0f} s"
        files = f"file {self.begun_files} of {self.files}"
        size = f"{come:,.2f} of {self.total_bytes / _MB:,.2f} MB"
        return f"release {self.version}: {files}, {size}, {seconds:,.0f} s"
