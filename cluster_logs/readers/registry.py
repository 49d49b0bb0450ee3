"""The catalogue of log formats: where the reader of each `--format` name is.

A reader is imported when it is loaded (`base.load_reader`), so that forms list the names at no cost.
"""

from collections.abc import Mapping

from foundation.parts import offered

# name -> module of this folder:reader in it
CLUSTER_LOGS: Mapping[str, str] = {  # what clusters write and publish
    "philly-json": "philly_json:READER",
    "philly-csv": "philly_csv:READER",
    "helios": "helios:READER",
    "sacct": "sacct:READER",
    "queue": "queue_jobs:READER",
    "swf": "swf:READER",
    "acme-seren": "acme:SEREN_READER",
    "acme-kalos": "acme:KALOS_READER",
    "alibaba-v2023": "alibaba_v2023:READER",
}
OTHER_LOGS: Mapping[str, str] = {  # our own job tables, and those that simulators are compared on
    "jobs-csv": "jobs_csv:READER",
    "lake": "lake_parquet:READER",
    "reference-csv": "reference_csv:READER",
    "pcs-csv": "pcs_csv:READER",
    "lyra-csv": "lyra_csv:READER",
}
OTHER_TABLES: Mapping[str, str] = {
    "helios-throughput": "helios:THROUGHPUT_READER",
    "helios-nodes": "helios:NODES_READER",
    "nodes-csv": "nodes_file:READER",
    "node-sequence": "node_sequence:READER",
}
# name -> MODULE:NAME of each reader of this folder
OURS: Mapping[str, str] = {
    name: f"cluster_logs.readers.{place}"
    for name, place in {**CLUSTER_LOGS, **OTHER_LOGS, **OTHER_TABLES}.items()
}


def formats() -> dict[str, str]:
    """Return the place of each format's reader (MODULE:NAME) by its name: ours, then those of parts."""
    return {**OURS, **offered("readers")}
