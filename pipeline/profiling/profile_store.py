"""The profile tables of a cluster's GPUs in the lake: `ROOT/profiles/cluster=C/{solo,pairs}.parquet`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import check_cluster_name
from foundation.site import Site
from foundation.storage import locate, read_bytes, write_parquet
from profiler_jobs.profile_table import PAIR_SCHEMA, PROFILE_SCHEMA, ProfileSet, as_profile_frame

PROFILES = "profiles"
_SCHEMAS = {"solo": PROFILE_SCHEMA, "pairs": PAIR_SCHEMA}


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
    site: Site, *, singles_uri: str | None, pairs_uri: str | None, seed: int = 0
) -> ProfileReport:
    """Store measured profiles, or, when no file is given, measure the zoo on the simulated GPU and say so.

    Without files, what was measured for the cluster stays: profiles of real GPUs, and those of a measurement
    table (`profile_workloads`), simulated or not. The same input twice leaves the same files. Raises
    BadInputError when only one of the two files is given.
    """
    with writing_profiles(site):
        if not singles_uri and not pairs_uri:
            measured = _measured_before(site)
            if measured is not None:
                return measured
        profiles = read_profiles_or_measure(singles_uri, pairs_uri, seed=seed)
        return write_profile_set(site, profiles)


@contextmanager
def writing_profiles(site: Site) -> Iterator[Lake]:
    """Be the only writer of the cluster; what is written within is one change of its profile tables."""
    lake = Lake(site.lake)
    with lake.writing(site.cluster, "a write of profiles", (PROFILES,)):
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


def write_profile_set(site: Site, profiles: ProfileSet) -> ProfileReport:
    """Replace the cluster's profile tables."""
    folder_uri = profiles_uri(site)
    with writing_profiles(site) as lake:
        lake.writes.changing(site.cluster, PROFILES)
        for frame, (name, schema) in zip((profiles.solo, profiles.pairs), _SCHEMAS.items(), strict=True):
            table = pa.Table.from_pandas(as_profile_frame(frame, schema), schema=schema, preserve_index=False)
            write_parquet(f"{folder_uri}/{name}.parquet", table)
    return _report(site, profiles)


def _report(site: Site, profiles: ProfileSet, *, kept: bool = False) -> ProfileReport:
    rows = len(profiles.solo), len(profiles.pairs)
    return ProfileReport(profiles_uri(site), *rows, profiles.any_simulated, kept)


def _measured_before(site: Site) -> ProfileReport | None:
    """The stored profiles, if they were measured for this cluster."""
    stored = stored_profile_set(site)
    if stored is None:
        return None
    fs, path = locate(f"{profiles_uri(site)}/measurements.parquet")
    campaign = fs.get_file_info(path).type == pafs.FileType.File
    real = not (stored.solo["simulated"].all() and stored.pairs["simulated"].all())
    return _report(site, stored, kept=True) if campaign or real else None


def read_profile_set(site: Site) -> ProfileSet:
    """Read the cluster's profile tables. Raises NotFoundError when none are stored."""
    profiles = stored_profile_set(site)
    if profiles is None:
        raise NotFoundError(
            f"The lake {site.lake} holds no profiles of cluster {site.cluster!r}.",
            remedy="Run the DAG ingest_logs, which stores measured or simulated profiles.",
        )
    return profiles


def stored_profile_set(site: Site) -> ProfileSet | None:
    """Read the cluster's profile tables; None where none are stored."""
    folder_uri = profiles_uri(site)
    Lake(site.lake).writes.check_readable(site.cluster, PROFILES)
    frames = []
    for name, schema in _SCHEMAS.items():
        payload = read_bytes(f"{folder_uri}/{name}.parquet")
        if payload is None:
            return None
        frames.append(as_profile_frame(pq.read_table(pa.BufferReader(payload)).to_pandas(), schema))
    return ProfileSet(solo=frames[0], pairs=frames[1])


def measured_or_simulated(site: Site) -> tuple[ProfileSet, list[str]]:
    """Return the cluster's profiles, the simulated GPU's where none are stored, and what to say of them."""
    profiles = stored_profile_set(site) or read_profiles_or_measure(None, None, seed=0)
    if profiles.any_simulated:
        return profiles, [
            "How jobs slow each other down on shared GPUs was measured on the simulated GPU, not a real one."
        ]
    return profiles, []


def profiles_uri(site: Site) -> str:
    """Return where the cluster's profiles and measurements are."""
    return f"{site.lake.rstrip('/')}/profiles/cluster={check_cluster_name(site.cluster)}"
