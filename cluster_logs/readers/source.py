"""What a log is before it means anything: text behind a URI, chunks of raw columns, the clock of its times.

A `TextSource` is read in blocks of whole lines; gzip is recognised by its first bytes. A local clock's
reading becomes UTC by the rules of PEP 495: where the clock was set back and a reading occurred twice, the
first is taken (`fold=0`); where it was set forward and a reading never occurred, it is read with the offset
from before the change, as if the clock had not been touched.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foundation.errors import BadInputError
from foundation.progress import Progress, Work, silent
from foundation.storage import open_input, shown
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

# Plausible times: from 1970 on, before 2100. Times outside are refused before they come here.
FIRST_US = 0
END_US = 4_102_444_800_000_000
NOT_A_TIME = int(np.iinfo(np.int64).min)

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US


@dataclass(frozen=True)
class TextSource:
    """A file to read, plain or gzip-compressed; `most_bytes`: only its first blocks, of about that size."""

    uri: str
    progress: Progress = field(default=silent, compare=False)
    most_bytes: int | None = None

    @cached_property
    def name(self) -> str:
        """The file's base name, as it is written into `source_file`."""
        return shown(self.uri.rstrip("/").rpartition("/")[2])

    @cached_property
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
        # Every second byte of UTF-16 without a mark is 0, and of most binary files.
        if head.count(0) * 4 > len(head):
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
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
    begin = 0
    for end in [*(ends[MAX_BLOCK_LINES - 1 :: MAX_BLOCK_LINES] + 1).tolist(), len(block)]:
        if begin < end:
            yield block[begin:end]
        begin = end


@dataclass(frozen=True)
class MalformedRow:
    """One row that could not even be split into columns."""

    row: int
    reason: str
    column: str | None
    value: str | None
    raw: str


@dataclass(frozen=True)
class RawChunk:
    """Rows of one file as columns of text (or bytes, or typed values), before any meaning is given to them.

    `rows` are 1-based row numbers in the file; `raw(i)` is the i-th row of the chunk as it stands in the
    file; `malformed` are the rows of this part of the file that have no columns. `rows_in` counts both,
    independently, and `beside_table`: lines above the header, and headers that come again.
    """

    columns: Mapping[str, pa.Array]
    rows: npt.NDArray[np.int64]
    raw: Callable[[int], str]
    malformed: Sequence[MalformedRow] = ()
    rows_in: int = 0
    beside_table: int = 0
    objects: Sequence[Any] = ()


def load_zone(name: str) -> ZoneInfo:
    """The time zone of that name; BadInputError when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInputError(
            f"Unknown time zone {name!r}.", remedy="Use a name such as UTC, Asia/Shanghai or US/Pacific."
        ) from error


def local_to_utc(local_us: npt.NDArray[np.int64], zone_name: str) -> npt.NDArray[np.int64]:
    """UTC microseconds of local clock readings (microseconds since 1970-01-01 00:00 on that clock).

    NOT_A_TIME stays as it is; other values must lie in [FIRST_US, END_US).
    """
    if zone_name == "UTC":
        return local_us
    is_time = local_us != NOT_A_TIME
    days, of_day = np.unique(np.where(is_time, local_us, 0) // _DAY_US, return_inverse=True)
    at_midnight, at_next = (
        np.array([_offset_s(zone_name, int(day) * _DAY_US // _SECOND_US) for day in each], dtype=np.int64)[
            of_day
        ]
        for each in (days, days + 1)
    )
    offset_s = at_midnight
    # On the few days when the clock changes each reading is looked up by itself.
    for index in np.flatnonzero(is_time & (at_midnight != at_next)):
        offset_s[index] = _offset_s(zone_name, int(local_us[index]) // _SECOND_US)
    return np.where(is_time, local_us - offset_s * _SECOND_US, NOT_A_TIME)


@lru_cache(maxsize=100_000)
def _offset_s(zone_name: str, local_s: int) -> int:
    reading = datetime.fromtimestamp(local_s, UTC).replace(tzinfo=load_zone(zone_name))
    return int((reading.utcoffset() or timedelta()).total_seconds())
