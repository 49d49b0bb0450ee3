"""The catalogue of log formats: every reader under its `--format` name."""

from collections.abc import Mapping

from cluster_logs.readers import (
    acme,
    alibaba_v2023,
    helios,
    lake_parquet,
    nodes_file,
    pcs_csv,
    philly_csv,
    philly_json,
    reference_csv,
    sacct,
    swf,
)
from cluster_logs.readers.base import Reader
from foundation.errors import UnknownNameError

READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        philly_json.READER,
        philly_csv.READER,
        helios.READER,
        helios.THROUGHPUT_READER,
        helios.NODES_READER,
        sacct.READER,
        swf.READER,
        acme.SEREN_READER,
        acme.KALOS_READER,
        alibaba_v2023.READER,
        lake_parquet.READER,
        reference_csv.READER,
        pcs_csv.READER,
        nodes_file.READER,
    )
}


def load_reader(name: str) -> Reader:
    """The reader of a format; UnknownNameError, with the formats that there are, for any other name."""
    if name not in READERS:
        raise UnknownNameError("log format", name, READERS)
    return READERS[name]
