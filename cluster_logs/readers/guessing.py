"""Which formats a log looks like: its first rows are read by every reader of the catalogue."""

from collections.abc import Iterator
from contextlib import contextmanager

from cluster_logs.readers.base import Reader, ReadOptions, read_chunks
from cluster_logs.readers.registry import FORMATS, load_reader
from cluster_logs.readers.sacct import EVERY_CLUSTER
from foundation.errors import BadInputError, LucidError

SAMPLE_BYTES = 256 * 1024
# Of the sample's rows so many must be good for the file to look like the format; another's columns give none.
_LEAST_GOOD_SHARE = 0.2


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
    shares = {name: _good_share(load_reader(name), uri) for name in FORMATS if name != "nodes-csv"}
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
