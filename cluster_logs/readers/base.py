"""What a reader is: how to cut a file into chunks of raw columns, and what those columns mean.

A new reader is one module with one `READER` and one line in `registry.py` (CONTRIBUTING.md walks there). The
checks that every job must pass, times, numbers, quarantine and accounting come with `RowChecker` and
`job_rows.build_jobs`. The text behind a URI is a `TextSource`: blocks of whole lines, gzip recognised by its
first bytes. Which format a log looks like is found by reading its first rows with every reader.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import cast

import numpy as np
import pyarrow as pa

from cluster_logs.quarantine import BESIDE_TABLE
from cluster_logs.readers.registry import formats
from cluster_logs.readers.row_checker import IntArray, RawChunk, RowChecker, load_zone
from cluster_logs.slurm_mark import MarkKey
from foundation.errors import BadInputError, LucidError, UnknownNameError
from foundation.input_files import open_input, shown
from foundation.parts import at_place, lacking
from foundation.progress import Progress, Work, silent
from foundation.unpacking import UnpackedFile

# Second 0 of formats that count from the trace's own start, unless the format or the caller says otherwise.
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A table of the core, or one that a part brings (`day_tables`).
TableName = str
EVERY_CLUSTER = ""  # no cluster's name: all rows of a file are read

BLOCK_BYTES = 8 * 1024 * 1024
# A block of short lines is divided: what is made of a line takes more memory than its bytes.
MAX_BLOCK_LINES = 65_536
MAX_LINE_BYTES = 16 * 1024 * 1024
_HEAD_BYTES = 64

SAMPLE_BYTES = 256 * 1024
# Of the sample's rows so many must be good for the file to look like the format; another's columns give none.
_LEAST_GOOD_SHARE = 0.2

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
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
    begin = 0
    for end in [*ends[MAX_BLOCK_LINES - 1 :: MAX_BLOCK_LINES].tolist(), len(block)]:
        if begin < end:
            yield block[begin:end]
        begin = end


@dataclass(frozen=True)
class ReadOptions:
    """What the caller knows about the file. `time_zone` None: the format's own.

    `mark_key` is that of the cluster's live scheduler; without it no mark on a job is believed. `beside`:
    what a format of a part asks beside its file, or None. `trace_start`: the instant of second 0 of times
    that count from the trace's own start; None: the format's own. `columns`: our column -> the file's, where
    it is called otherwise.
    """

    cluster: str
    time_zone: str | None = None
    gpus_per_node: int = 8
    mark_key: MarkKey | None = None
    beside: object = None
    trace_start: datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What `normalise` may use beside the chunk: the options, and `facts` that `prepare` found in the
    file. `second_0_s`: when the trace starts, in seconds since 1970.
    """

    options: ReadOptions
    facts: object = None
    second_0_s: float = 0.0


@dataclass(frozen=True)
class StatedSize:
    """What a log says of its whole cluster, and in which words."""

    nodes: int
    gpus_per_node: int
    source: str


def _nothing(source: TextSource, options: ReadOptions) -> object:
    return None


def _no_size(source: TextSource) -> StatedSize | None:
    return None


def _no_zone(source: TextSource) -> str | None:
    return None


@dataclass(frozen=True)
class Reader:
    """A log format. `time_zone` is the clock of times that carry no offset.

    With `counts_from_zero` times are seconds from the log's own beginning, which the table puts at
    1970-01-01. `stated_size` is what the file says of its cluster; `machines` gives (virtual cluster,
    machine, GPUs of one job there) of a chunk, for formats that name machines. `export` is the command that
    writes such a log, for the advice on one that was written otherwise. `trace_start` is second 0 of a format
    whose times may count from the trace's own start (naive: on the reader's clock); None: they never do.
    `stated_zone` is the cluster's time zone as the file names it. `maps_columns`: its files may call columns
    otherwise.
    """

    name: str
    summary: str
    table: TableName
    time_zone: str
    chunks: Callable[[TextSource, ReadOptions], Iterator[RawChunk]]
    normalise: Callable[[RowChecker, Context], pa.Table]
    prepare: Callable[[TextSource, ReadOptions], object] = _nothing
    counts_from_zero: bool = False
    stated_size: Callable[[TextSource], StatedSize | None] = _no_size
    machines: Callable[[RawChunk], Iterator[tuple[str, str, int]]] | None = None
    export: str = ""
    trace_start: datetime | None = None
    stated_zone: Callable[[TextSource], str | None] = _no_zone
    maps_columns: bool = False

    def clock(self, uri: str, time_zone: str | None) -> str:
        """The time zone of a log: the one that was given, else the file's own, else the format's."""
        return time_zone or self.stated_zone(TextSource(uri)) or self.time_zone

    def second_0(self, options: ReadOptions) -> float:
        """Second 0 of the trace, in seconds since 1970 (UTC); 0 for a format without one.

        Raises BadInputError for a given start with a format that has none.
        """
        if self.trace_start is None:
            if options.trace_start is None:
                return 0.0
            raise BadInputError(
                f"A start of the trace was given, but times of format {self.name!r} do not count from it.",
                remedy="Leave it out.",
            )
        start = options.trace_start or self.trace_start
        zone = load_zone(options.time_zone or self.time_zone)
        return (start if start.tzinfo else start.replace(tzinfo=zone)).timestamp()


@dataclass(frozen=True)
class ReadChunk:
    """One chunk's outcome: good rows (the table's schema without cluster), refused rows, skipped rows.

    `noted` counts rows by `quarantine.NOTES`, `unknown_values` what could not be used by the optional fact.
    """

    rows: pa.Table
    refused: pa.Table
    skipped: Counter[str]
    rows_in: int
    noted: Counter[str]
    unknown_values: Counter[str] = field(default_factory=Counter)


def read_chunks(
    reader: Reader,
    uri: str,
    options: ReadOptions,
    *,
    progress: Progress = silent,
    most_bytes: int | None = None,
) -> Iterator[ReadChunk]:
    """The file's rows, chunk by chunk, in the file's order; memory does not grow with the file.

    `most_bytes`: only the rows in about so many first bytes, for a look at the file.
    """
    if options.columns and not reader.maps_columns:
        raise BadInputError(
            f"Columns are named for a log of format {reader.name!r}, which has names of its own.",
            remedy="Name none, or choose the format jobs-csv.",
        )
    time_zone = options.time_zone or reader.time_zone
    load_zone(time_zone)
    second_0_s = reader.second_0(options)
    context = Context(options, reader.prepare(TextSource(uri, most_bytes=most_bytes), options), second_0_s)
    source = TextSource(uri, progress, most_bytes)
    for chunk in reader.chunks(source, options):
        checker = RowChecker(chunk, source.name, time_zone)
        rows = reader.normalise(checker, context)
        skipped = checker.skipped() + Counter({BESIDE_TABLE: chunk.beside_table})
        noted, unknown_values = checker.notes(), checker.unknown_values()
        yield ReadChunk(rows, checker.refused(reader.name), skipped, chunk.rows_in, noted, unknown_values)


def read_raw_rows(
    reader: Reader, uri: str, options: ReadOptions, wanted: IntArray
) -> Iterator[dict[int, str]]:
    """The text of some rows, by row number, chunk by chunk: a second pass for the few rows that need it.

    `wanted` holds row numbers, shape (rows,), each once.
    """
    missing = len(wanted)
    for chunk in reader.chunks(TextSource(uri), options) if missing else ():
        indices = np.flatnonzero(np.isin(chunk.rows, wanted, assume_unique=True))
        if len(indices):
            yield {int(chunk.rows[index]): chunk.raw(int(index)) for index in indices}
        missing -= len(indices)
        if not missing:
            return


@cache
def load_reader(name: str) -> Reader:
    """The reader of a format; NotFoundError for one of a part that is not installed, UnknownNameError, with
    the formats that there are, for any other name.
    """
    places = formats()
    if name not in places:
        raise lacking().get(f"format {name}") or UnknownNameError("log format", name, places)
    reader: Reader = at_place(places[name])
    return reader


# Which format a log looks like ------------------------------------------------------------------------


def likely_formats(uri: str) -> list[str]:
    """The formats whose readers keep most of the file's first rows, the likeliest first; none may fit.

    Formats that fit equally well share their columns (acme-seren and acme-kalos). A nodes file is never
    guessed: any two columns could be one; a CSV with columns of the job table is where no other format fits,
    since some have such columns, too.
    """
    shares = good_shares(uri)
    best = max(shares.values(), default=0.0)
    return [name for name, share in shares.items() if share == best]


def good_shares(uri: str) -> dict[str, float]:
    """Which share of the file's first rows the reader of each format keeps (0 to 1), of those that may fit:
    the best first.
    """
    shares = {name: _good_share(load_reader(name), uri) for name in formats() if name != "nodes-csv"}
    by_share = sorted(shares.items(), key=lambda item: -item[1])
    fitting = {name: share for name, share in by_share if share >= _LEAST_GOOD_SHARE}
    return {name: share for name, share in fitting.items() if name != "jobs-csv" or len(fitting) == 1}


@contextmanager
def naming_likely_formats(uri: str, source_format: str) -> Iterator[None]:
    """Let an error about a log that looks like another format name that format."""
    try:
        yield
    except BadInputError as error:
        likely = likely_formats(uri)
        if likely and source_format not in likely:
            error.advise(f"It looks like {' or '.join(likely)}: give that as --format.")
        raise


def _good_share(reader: Reader, uri: str) -> float:
    try:
        chunk = next(read_chunks(reader, uri, ReadOptions(EVERY_CLUSTER), most_bytes=SAMPLE_BYTES), None)
    except LucidError:
        return 0.0
    judged = 0 if chunk is None else chunk.rows_in - chunk.skipped.total()
    return 0.0 if chunk is None or not judged else 1 - chunk.refused.num_rows / judged
