"""A site's scheduling policy, read of Slurm's own files or of the Slurm that runs here, into a site.toml."""

from pathlib import Path

from cluster_logs.site.site_file import write_site
from cluster_logs.slurm_site.associations import ASSOC_COMMAND, QOS_COMMAND
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.reading import SacctmgrAnswers, SiteReading, read_slurm_files, site_of
from cluster_logs.slurm_site.scontrol_answers import (
    CONFIG,
    NODES,
    PARTITIONS,
    RESERVATIONS,
    declared_by_scontrol,
    read_reservations,
)
from foundation.disk_errors import disk_error
from foundation.errors import BadInputError
from live_scheduler.slurm.commands import call

_UTC = {"TZ": "UTC"}


def read_site_files(out: Path, conf: str, assoc: str | None, qos: str | None) -> SiteReading:
    """Write the site that a slurm.conf and what sacctmgr printed declare. Raises as `read_slurm_files`."""
    return _written(read_slurm_files(conf, assoc, qos), out)


def read_live_site(out: Path) -> SiteReading:
    """Write the site that the Slurm of this machine tells of.

    Raises ServiceUnavailableError where slurmctld or slurmdbd does not answer, BadInputError for what Slurm
    refuses.
    """
    config, nodes, partitions, reservations = (
        call(command, settings=_UTC) for command in (CONFIG, NODES, PARTITIONS, RESERVATIONS)
    )
    declared = declared_by_scontrol(config, nodes, partitions)
    account = KeyAccount()
    kept = read_reservations(reservations, " ".join(RESERVATIONS), account)
    storage = declared.settings.get("accountingstoragetype")
    accounting = SacctmgrAnswers()
    if storage is not None and storage.value.endswith("slurmdbd"):
        assoc, qos = (call(command.split(), settings=_UTC) for command in (ASSOC_COMMAND, QOS_COMMAND))
        accounting = SacctmgrAnswers(assoc, qos, ASSOC_COMMAND, QOS_COMMAND)
    site = site_of(declared, accounting, " ".join(CONFIG), reservations=kept, account=account, tells_all=True)
    return _written(site, out)


def _written(site: SiteReading, out: Path) -> SiteReading:
    try:
        write_site(site.rules, out)
    except OSError as error:
        raise disk_error(error) or BadInputError(
            f"{out} cannot be written: {error.strerror or error}.",
            remedy="Name a file in a folder that exists.",
        ) from error
    return site
