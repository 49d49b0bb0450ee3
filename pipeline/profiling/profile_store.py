"""The profile tables of a cluster's GPUs in the lake: `ROOT/profiles/cluster=C/{solo,pairs}.parquet`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster_logs.cluster_names import check_cluster_name
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.storage import locate, write_atomically
from profiler_jobs.profile_table import PAIR_SCHEMA, PROFILE_SCHEMA, ProfileSet, as_profile_frame

PROFILES = "profiles"


@dataclass(frozen=True)
class ProfileReport:
    """What is stored: rows of each table, and whether any was measured on the simulated device.

    `kept`: it was there before and stays.
    """

    uri: str
    solo_rows: int
    pair_rows: int
    simulated: bool
    kept: bool = False


def ingest_profiles(
    *, lake_uri: str, cluster: str, singles_uri: str | None, pairs_uri: str | None, seed: int = 0
) -> ProfileReport:
    """Store measured profiles, or, when no file is given, measure the zoo on the simulated GPU and say so.

    Without files, what was measured for the cluster stays: profiles of real GPUs, and those of a measurement
    table (`profile_workloads`), simulated or not. The same input twice leaves the same files. Raises
    BadInputError when only one of the two files is given.
    """
    with writing_profiles(lake_uri, cluster):
        if not singles_uri and not pairs_uri:
            kept = _measured_before(lake_uri, cluster)
            if kept is not None:
                return kept
        profiles = read_profiles_or_measure(singles_uri, pairs_uri, seed=seed)
        return write_profile_set(lake_uri, cluster, profiles)


@contextmanager
def writing_profiles(lake_uri: str, cluster: str) -> Iterator[Lake]:
    """Be the only writer of the cluster; what is written within is one change of its profile tables."""
    lake = Lake(lake_uri)
    with lake.writing(cluster, "a write of profiles", (PROFILES,)):
        yield lake


def read_profiles_or_measure(singles_uri: str | None, pairs_uri: str | None, *, seed: int) -> ProfileSet:
    """Read both tables of measured profiles; without files, measure the zoo on the simulated GPU.

    Raises BadInputError when only one of the two files is given.
    """
    if bool(singles_uri) != bool(pairs_uri):
        raise BadInputError(
            "Solo profiles and pairs belong together, but only one file is given.",
            remedy="Give both, or neither for the simulated GPU.",
        )
    if singles_uri and pairs_uri:
        from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

        return ProfileSet(read_solo_profiles(singles_uri), read_pair_profiles(pairs_uri))
    from profiler_jobs.campaign import measure_simulated_profiles

    return measure_simulated_profiles(seed)


def write_profile_set(lake_uri: str, cluster: str, profiles: ProfileSet) -> ProfileReport:
    """Replace the cluster's profile tables."""
    fs, folder = _folder(lake_uri, cluster)
    with writing_profiles(lake_uri, cluster) as lake:
        lake.changing(cluster, PROFILES)
        for name, frame, schema in (
            ("solo", profiles.solo, PROFILE_SCHEMA),
            ("pairs", profiles.pairs, PAIR_SCHEMA),
        ):
            table = pa.Table.from_pandas(as_profile_frame(frame, schema), schema=schema, preserve_index=False)
            write_atomically(fs, f"{folder}/{name}.parquet", partial(pq.write_table, table))
    return _report(lake_uri, cluster, profiles)


def _report(lake_uri: str, cluster: str, profiles: ProfileSet, *, kept: bool = False) -> ProfileReport:
    simulated = bool(profiles.solo["simulated"].any() or profiles.pairs["simulated"].any())
    uri = f"{lake_uri.rstrip('/')}/profiles/cluster={cluster}"
    return ProfileReport(uri, len(profiles.solo), len(profiles.pairs), simulated, kept)


def _measured_before(lake_uri: str, cluster: str) -> ProfileReport | None:
    """The stored profiles, if they were measured for this cluster."""
    try:
        stored = read_profile_set(lake_uri, cluster)
    except NotFoundError:
        return None
    fs, folder = _folder(lake_uri, cluster)
    campaign = fs.get_file_info(f"{folder}/measurements.parquet").type == pafs.FileType.File
    real = not (stored.solo["simulated"].all() and stored.pairs["simulated"].all())
    return _report(lake_uri, cluster, stored, kept=True) if campaign or real else None


def read_profile_set(lake_uri: str, cluster: str) -> ProfileSet:
    """Read the cluster's profile tables. Raises NotFoundError when none are stored."""
    fs, folder = _folder(lake_uri, cluster)
    Lake(lake_uri).check_readable(cluster, PROFILES)
    frames = []
    for name, schema in (("solo", PROFILE_SCHEMA), ("pairs", PAIR_SCHEMA)):
        path = f"{folder}/{name}.parquet"
        if fs.get_file_info(path).type != pafs.FileType.File:
            raise NotFoundError(
                f"The lake {lake_uri} holds no profiles of cluster {cluster!r}.",
                remedy="Run the DAG ingest_logs, which stores measured or simulated profiles.",
            )
        with fs.open_input_file(path) as source:
            frames.append(as_profile_frame(pq.read_table(source).to_pandas(), schema))
    return ProfileSet(solo=frames[0], pairs=frames[1])


def measured_or_simulated(lake_uri: str, cluster: str) -> tuple[ProfileSet, list[str]]:
    """Return the cluster's profiles, the simulated GPU's where none are stored, and what to say of them."""
    try:
        profiles = read_profile_set(lake_uri, cluster)
    except NotFoundError:
        from profiler_jobs.campaign import measure_simulated_profiles

        profiles = measure_simulated_profiles(0)
    if bool(profiles.solo["simulated"].any() or profiles.pairs["simulated"].any()):
        return profiles, [
            "How jobs slow each other down on shared GPUs was measured on the simulated GPU, not a real one."
        ]
    return profiles, []


def _folder(lake_uri: str, cluster: str) -> tuple[pafs.FileSystem, str]:
    fs, root = locate(lake_uri)
    return fs, f"{root.rstrip('/')}/profiles/cluster={check_cluster_name(cluster)}"
