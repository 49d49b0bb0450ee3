"""Gzip files of others, unpacked as far as an installation allows: a few MB of gzip can hold terabytes."""

import io

import pyarrow as pa

from foundation.environment import read_number
from foundation.errors import BadInputError

MOST_BYTES_VARIABLE = "LUCID_MOST_LOG_BYTES"
DEFAULT_MOST_BYTES = 64 * 2**30
_PIECE_BYTES = 8 * 2**20


class UnpackedFile(io.RawIOBase):
    """What a gzip file holds, to be read once.

    Reading raises BadInputError once it is more than LUCID_MOST_LOG_BYTES (default: 64 GiB), OSError where
    the file is damaged or cut off.
    """

    def __init__(self, packed: pa.NativeFile, place: str) -> None:
        """`place` is where the file lies, for messages."""
        super().__init__()
        self._stream = pa.CompressedInputStream(packed, "gzip")
        self._place = place
        self._most_bytes = read_number(MOST_BYTES_VARIABLE, default=DEFAULT_MOST_BYTES)
        self._bytes = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, at most `size` (negative: all there are); none at the end."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(_PIECE_BYTES), b""))
        data: bytes = self._stream.read(size)
        self._bytes += len(data)
        if self._bytes > self._most_bytes:
            raise BadInputError(
                f"{self._place} holds more than {self._most_bytes:,} bytes when it is unpacked.",
                remedy=f"Is it the right file? If it is: {MOST_BYTES_VARIABLE}=BYTES allows more.",
            )
        return data
