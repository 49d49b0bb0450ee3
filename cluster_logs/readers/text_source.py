"""A text file behind a URI, read in blocks of whole lines; gzip is recognised by its first bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
import pyarrow.fs as pafs

from cluster_logs.errors import BadInputError, NotFoundError
from cluster_logs.progress import Progress, Work, silent
from cluster_logs.storage import locate, open_input

BLOCK_BYTES = 8 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024

_GZIP_MAGIC = b"\x1f\x8b"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextSource:
    """A file to read, plain or gzip-compressed."""

    uri: str
    progress: Progress = field(default=silent, compare=False)

    @property
    def name(self) -> str:
        """The file's base name, as it is written into `source_file`."""
        return self.uri.rstrip("/").rpartition("/")[2]

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Blocks that end with a line's end, without byte order mark; the last line gets its end if it lacks
        one.

        Raises NotFoundError for an absent file; BadInputError for an empty one, a truncated or damaged gzip
        and a line above MAX_LINE_BYTES.
        """
        carry: list[bytes] = []
        carried = 0
        for data in self._pieces(block_bytes):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield b"".join([*carry, data[:cut]])
                carry, carried = [], 0
            if cut < len(data):
                carry.append(data[cut:])
                carried += len(data) - cut
            if carried > MAX_LINE_BYTES:
                raise BadInputError(
                    f"{self.uri} has a line of more than {MAX_LINE_BYTES // 2**20} MiB.",
                    remedy="Is it a text file with one row a line?",
                )
        if carried:
            yield b"".join(carry) + b"\n"

    def _pieces(self, block_bytes: int) -> Iterator[bytes]:
        fs, path = locate(self.uri)
        info = fs.get_file_info(path)
        if info.type == pafs.FileType.NotFound:
            raise NotFoundError(f"There is no file {self.uri}.", remedy="Check the path.")
        if info.type == pafs.FileType.Directory:
            raise BadInputError(f"{self.uri} is a folder, not a file.", remedy="Name one file.")
        with open_input(fs, path) as raw:
            stream, compressed = self._decompressed(raw)
            first = True
            while True:
                try:
                    data = cast("bytes", stream.read(block_bytes))
                except OSError as error:
                    raise BadInputError(
                        f"{self.uri} cannot be read to its end: {error}.",
                        remedy="The file is truncated or damaged; copy it again. Nothing was written."
                        if compressed
                        else "Nothing was written.",
                    ) from error
                if not data:
                    break
                self.progress(raw.tell(), info.size, Work(f"reading {self.name}", "bytes"))
                if first:
                    self._check_encoding(data)
                    data = data.removeprefix(_BYTE_ORDER_MARK)
                first = False
                yield data
            if first:
                raise BadInputError(f"{self.uri} is empty.", remedy="Check how it was exported.")

    def _check_encoding(self, start: bytes) -> None:
        if start.startswith(_UTF_16_MARKS):
            raise BadInputError(f"{self.uri} is UTF-16 text.", remedy="Convert it to UTF-8.")

    def _decompressed(self, raw: pa.NativeFile) -> tuple[pa.NativeFile, bool]:
        magic = raw.read(2)
        raw.seek(0)
        if magic == _GZIP_MAGIC:
            return pa.CompressedInputStream(raw, "gzip"), True
        if self.name.endswith(".gz") and magic:
            raise BadInputError(
                f"{self.uri} is called .gz, but holds no gzip data.", remedy="Rename it or compress it."
            )
        return raw, False
