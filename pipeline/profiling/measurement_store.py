"""The measurements of a cluster's GPUs in the lake, and the rule that keeps simulated ones apart.

    ROOT/profiles/cluster=C/measurements.parquet      of one kind of device: the cluster's GPUs, or the
                                                      simulated one until a GPU was measured
    ROOT/profiles/cluster=C/measurements-cpu.parquet  of a processor; never becomes profiles
    ROOT/profiles/cluster=C/parts/KIND/RUN/           of a run in progress, for each batch
        BATCH.json, BATCH.parquet                     its plan, and what was measured of it

Rows of a GPU replace simulated ones. Simulated rows never replace or join those of a GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import pyarrow.fs as pafs

from foundation.errors import BadInputError
from foundation.outside_names import check_cluster_name
from foundation.site import Site
from foundation.storage import list_files, locate
from pipeline.profiling.profile_store import (
    PROFILES,
    ProfileReport,
    profiles_uri,
    stored_profile_set,
    write_profile_set,
    writing_profiles,
)
from profiler_jobs.devices.device import DeviceKind
from profiler_jobs.measurement_table import FAILED, read_measurements, write_measurements
from profiler_jobs.profile_table import PAIR_SCHEMA, PROFILE_SCHEMA, ProfileSet, as_profile_frame

_PART, _PLAN = ".parquet", ".json"


@dataclass(frozen=True)
class Folded:
    """The cluster's table after parts were merged into it: its rows, and what to say of it."""

    uri: str
    rows: pd.DataFrame
    remarks: tuple[str, ...]


def measurements_uri(site: Site, kind: DeviceKind) -> str:
    """Return where the cluster's measurement table is."""
    name = "measurements-cpu" if kind == DeviceKind.CPU else "measurements"
    return f"{profiles_uri(site)}/{name}{_PART}"


def part_uris(site: Site, kind: DeviceKind, run: str, name: str) -> tuple[str, str]:
    """Return where a task of a run finds its plan, and where it measures into."""
    place = f"{_run_uri(site, kind, run)}/{name}"
    return f"{place}{_PLAN}", f"{place}{_PART}"


def fold_run(site: Site, kind: DeviceKind, run: str, *, replace: bool = False) -> Folded:
    """Merge the parts of a run into the cluster's table; again changes nothing.

    `replace`: rows of another device of this kind give way. Raises BadInputError when devices would mix.
    """
    uri = measurements_uri(site, kind)
    remarks: list[str] = []
    with writing_profiles(site) as lake:
        rows = before = read_measurements(uri)
        for part in _parts(_run_uri(site, kind, run)):
            rows, remarks_of_merge = merge_measurements(
                rows, read_measurements(part), cluster=site.cluster, replace=replace
            )
            remarks += remarks_of_merge
        if rows is not before:
            lake.writes.changing(site.cluster, PROFILES)
            write_measurements(uri, rows)
    return Folded(uri, rows, tuple(dict.fromkeys(remarks)))


def adopt_leftovers(site: Site, kind: DeviceKind, run: str) -> tuple[str, ...]:
    """Merge what earlier runs measured before they broke off, and return what to say of it.

    A leftover that does not fit the table (another device's) stays where it is.
    """
    fs, folder = locate(f"{profiles_uri(site)}/parts/{kind}")
    selector = pafs.FileSelector(folder, allow_not_found=True)
    runs = [info.base_name for info in fs.get_file_info(selector) if info.type == pafs.FileType.Directory]
    remarks = []
    for earlier_run in sorted(set(runs) - {run}):
        try:
            folded = fold_run(site, kind, earlier_run)
        except BadInputError as error:
            remarks.append(f"Left as it is: {_run_uri(site, kind, earlier_run)}. {error}")
            continue
        forget_run(site, kind, earlier_run)
        remarks.append(f"Went on from a run that broke off; the table holds {len(folded.rows):,} rows now.")
    return tuple(remarks)


def forget_run(site: Site, kind: DeviceKind, run: str) -> None:
    """Delete the parts of a run, which are in the table."""
    fs, folder = locate(_run_uri(site, kind, run))
    if fs.get_file_info(folder).type == pafs.FileType.Directory:
        fs.delete_dir(folder)


def merge_measurements(
    stored: pd.DataFrame, added: pd.DataFrame, *, cluster: str, replace: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """Return the stored rows with the added ones, and what to say of it.

    A task's newer run by the same method replaces the older one, unless it failed. Rows of a GPU replace all
    simulated ones; with `replace` those of another device give way too. Raises BadInputError when rows of
    two devices would mix otherwise.
    """
    if added.empty:
        return stored, []
    device, kind = added["device"].iloc[0], added["device_kind"].iloc[0]
    others = stored[stored["device"] != device]
    remarks: list[str] = []
    if len(others):
        kinds = set(others["device_kind"])
        names = ", ".join(sorted(set(others["device"])))
        if kind == DeviceKind.SIMULATED and kinds != {DeviceKind.SIMULATED}:
            raise _mixture(cluster, device, names)
        if kinds != {DeviceKind.SIMULATED} and not replace:
            raise BadInputError(
                f"Cluster {cluster!r} has measurements of {names}; those of {device} do not compare.",
                remedy="Name another cluster, or measure again what was measured before (again: everything).",
            )
        remarks.append(f"{len(others):,} rows of {names} gave way to those of {device}.")
        stored = stored[stored["device"] == device]
    keys = ["task", "method_id"]
    settled = pd.MultiIndex.from_frame(stored.loc[stored["outcome"] != FAILED, keys])
    useless = (added["outcome"] == FAILED) & pd.MultiIndex.from_frame(added[keys]).isin(settled)
    added = added[~useless]
    newer = pd.MultiIndex.from_frame(stored[keys]).isin(pd.MultiIndex.from_frame(added[keys]))
    parts = [part for part in (stored[~newer], added) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else stored, remarks


def refuse_simulated_over_measured(site: Site, device: str) -> None:
    """Raise BadInputError when the cluster has rows of a GPU, which a simulated `device` must not touch."""
    rows = read_measurements(measurements_uri(site, DeviceKind.GPU))
    measured = rows.loc[rows["device_kind"] != DeviceKind.SIMULATED, "device"]
    if len(measured):
        raise _mixture(site.cluster, device, ", ".join(sorted(set(measured))))
    profiles = stored_profile_set(site)
    if profiles is not None and (real := _real_devices(profiles)):
        raise _mixture(site.cluster, device, ", ".join(real))


def store_profiles(site: Site, profiles: ProfileSet) -> tuple[ProfileReport | None, list[str]]:
    """Store what was found; returns the report (None: too little to store) and what to say of it.

    A profile of the same device stays until it is measured anew; those of other devices go. Raises
    BadInputError when simulated profiles would replace or join measured ones.
    """
    with writing_profiles(site):
        return _store_profiles(site, profiles)


def _store_profiles(site: Site, profiles: ProfileSet) -> tuple[ProfileReport | None, list[str]]:
    remarks: list[str] = []
    stored = stored_profile_set(site)
    if stored is not None and len(profiles.solo):
        device, simulated = profiles.solo["device"].iloc[0], bool(profiles.solo["simulated"].any())
        real = _real_devices(stored)
        if simulated and real:
            raise _mixture(site.cluster, device, ", ".join(real))
        gone = sorted(set(stored.solo["device"]) - {device})
        if gone:
            remarks.append(f"Profiles of {', '.join(gone)} gave way to those of {device}.")
        profiles = ProfileSet(
            _with_older(profiles.solo, stored.solo, device, ["job_type"]),
            _with_older(profiles.pairs, stored.pairs, device, ["job_type_1", "job_type_2"]),
            profiles.out_of_memory,
            profiles.rejected,
        )
    if len(profiles.solo) < 2 or profiles.pairs.empty:
        remarks.append(
            f"{len(profiles.solo)} solo profiles and {len(profiles.pairs)} pairs teach nothing yet: the "
            "profile tables stay as they are."
        )
        return None, remarks
    solo = as_profile_frame(profiles.solo, PROFILE_SCHEMA)
    pairs = as_profile_frame(profiles.pairs, PAIR_SCHEMA)
    return write_profile_set(site, ProfileSet(solo, pairs)), remarks


def _with_older(new: pd.DataFrame, old: pd.DataFrame, device: str, key: list[str]) -> pd.DataFrame:
    def names(table: pd.DataFrame) -> pd.Series:
        return (
            table[key].apply(lambda row: tuple(sorted(row)), axis=1)
            if len(table)
            else pd.Series(dtype=object)
        )

    ours = old[old["device"] == device]
    unmeasured = ours[~names(ours).isin(set(names(new)))] if len(ours) else ours
    tables = [table for table in (unmeasured, new) if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else new


def _real_devices(profiles: ProfileSet) -> list[str]:
    devices = [
        table.loc[~table["simulated"].astype(bool), "device"] for table in (profiles.solo, profiles.pairs)
    ]
    return sorted({str(device) for device in pd.concat(devices)})


def _mixture(cluster: str, device: str, measured: str) -> BadInputError:
    return BadInputError(
        f"Cluster {cluster!r} has profiles measured on {measured}; simulated ones ({device}) must not "
        "replace or join them.",
        remedy="Name a GPU, or give the simulated device a cluster of its own.",
    )


def _parts(run_uri: str) -> Iterator[str]:
    fs, folder = locate(run_uri)
    for info in list_files(fs, folder):
        if info.base_name.endswith(_PART):
            yield f"{run_uri}/{info.base_name}"


def _run_uri(site: Site, kind: DeviceKind, run: str) -> str:
    return f"{profiles_uri(site)}/parts/{kind}/{check_cluster_name(run)}"
