"""A text file behind a URI, read in blocks of whole lines; gzip is recognised by its first bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa

from foundation.errors import BadInputError
from foundation.input_files import open_input, shown
from foundation.progress import Progress, Work, silent
from foundation.unpacking import UnpackedFile

BLOCK_BYTES = 8 * 1024 * 1024
# A block of short lines is divided: what is made of a line takes more memory than its bytes.
MAX_BLOCK_LINES = 65_536
MAX_LINE_BYTES = 16 * 1024 * 1024

_HEAD_BYTES = 64

_GZIP_MAGIC = b"\x1f\x8b"
# What a file that is no text begins with.
_FOREIGN = {
    b"PK\x03\x04": ("a ZIP archive", "Unpack it."),
    b"BZh": ("compressed with bzip2", "Decompress it, or compress it with gzip."),
    b"\xfd7zXZ\x00": ("compressed with xz", "Decompress it, or compress it with gzip."),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "Decompress it, or compress it with gzip."),
    b"PAR1": ("a Parquet file", "Its format is lake."),
    b"\xff\xfe": ("UTF-16 text", "Convert it to UTF-8."),
    b"\xfe\xff": ("UTF-16 text", "Convert it to UTF-8."),
}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextSource:
    """A file to read, plain or gzip-compressed; `most_bytes`: only its first blocks, of about that size."""

    uri: str
    progress: Progress = field(default=silent, compare=False)
    most_bytes: int | None = None

    @property
    def name(self) -> str:
        """The file's base name, as it is written into `source_file`."""
        return shown(self.uri.rstrip("/").rpartition("/")[2])

    @property
    def place(self) -> str:
        """The path or URI as errors show it."""
        return shown(self.uri)

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Blocks that end with a line's end, without byte order mark; the last line gets its end if it lacks
        one.

        Raises NotFoundError for an absent file; BadInputError for an empty one, for what is no text, a
        truncated or damaged gzip, one that holds more than may be (`UnpackedFile`) and a line above
        MAX_LINE_BYTES.
        """
        carry: list[bytes] = []
        carried = lines = taken = 0
        if self.most_bytes is not None:
            block_bytes = min(block_bytes, self.most_bytes)
        for data in self._pieces(block_bytes):
            taken += len(data)
            cut = data.rfind(b"\n") + 1
            if carried + (data.find(b"\n") if cut else len(data)) > MAX_LINE_BYTES:
                raise BadInputError(
                    f"{self.place}, line {lines + 1:,}, has more than {MAX_LINE_BYTES // 2**20} MiB.",
                    remedy="Is it a text file with one row a line?",
                )
            if cut:
                yield from _divided(b"".join([*carry, data[:cut]]))
                if self.most_bytes is not None and taken >= self.most_bytes:
                    return
                lines += data.count(b"\n")
                carry, carried = [], 0
            if cut < len(data):
                carry.append(data[cut:])
                carried += len(data) - cut
        if carried:
            yield b"".join(carry) + b"\n"

    def longer_than(self, most_bytes: int) -> bool:
        """Whether the text, decompressed, has more than so many bytes; no more than these are read."""
        bytes_left = most_bytes
        for data in self._pieces(min(BLOCK_BYTES, most_bytes)):
            bytes_left -= len(data)
            if bytes_left < 0:
                return True
        return False

    def _pieces(self, block_bytes: int) -> Iterator[bytes]:
        with open_input(self.uri) as raw:
            size = raw.size()
            stream, compressed = self._decompressed(raw)
            first = True
            while True:
                try:
                    data = cast("bytes", stream.read(block_bytes))
                except OSError as error:
                    raise BadInputError(
                        f"{self.place} cannot be read to its end: {error}.",
                        remedy="The file is truncated or damaged; copy it again. Nothing was written."
                        if compressed
                        else "Nothing was written.",
                    ) from error
                if not data:
                    break
                self.progress(raw.tell(), size, Work(f"reading {self.name}", "bytes"))
                if first:
                    self._check_text(data, compressed=compressed)
                    data = data.removeprefix(_BYTE_ORDER_MARK)
                first = False
                yield data
            if first:
                raise BadInputError(f"{self.place} is empty.", remedy="Check how it was exported.")

    def _check_text(self, start: bytes, *, compressed: bool) -> None:
        if start.startswith(_GZIP_MAGIC):
            raise BadInputError(f"{self.place} is compressed twice.", remedy="Decompress it once.")
        inside = "holds what is " if compressed else "is "
        for magic, (kind, remedy) in _FOREIGN.items():
            if start.startswith(magic):
                raise BadInputError(f"{self.place} {inside}{kind}.", remedy=remedy)
        head = start[:_HEAD_BYTES]
        if head.count(0) * 4 > len(
            head
        ):  # every second byte of UTF-16 without a mark, and of most binary files
            raise BadInputError(f"{self.place} {inside}no UTF-8 text.", remedy="Convert it to UTF-8.")

    def _decompressed(self, raw: pa.NativeFile) -> tuple[pa.NativeFile | UnpackedFile, bool]:
        magic = raw.read(2)
        raw.seek(0)
        if magic == _GZIP_MAGIC:
            return UnpackedFile(raw, self.place), True
        if self.name.endswith(".gz") and magic:
            raise BadInputError(
                f"{self.place} is called .gz, but holds no gzip data.", remedy="Rename it or compress it."
            )
        return raw, False


def _divided(block: bytes) -> Iterator[bytes]:
    """The block in pieces of at most MAX_BLOCK_LINES whole lines."""
    if block.count(b"\n") <= MAX_BLOCK_LINES:
        yield block
        return
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))[
        MAX_BLOCK_LINES - 1 :: MAX_BLOCK_LINES
    ]
    begin = 0
    for end in [*(ends + 1).tolist(), len(block)]:
        if begin < end:
            yield block[begin:end]
        begin = end
