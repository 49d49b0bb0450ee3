"""What one installation signs with and believes.

Below the state folder lie `keys/judge.key` and `keys/publisher.key` (private, PEM, their owner's alone) and
`trust.json`, the trust file that schedulers are given a copy of. LUCID_TRUST names another trust file, or is
the word `unsigned`: then nothing is signed and nothing signed is asked for.
"""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from foundation import strict_json
from foundation.environment import state_dir
from foundation.errors import BadInputError
from foundation.outside_names import read_regular
from foundation.private_files import private_folder
from foundation.replaced_files import replace_file
from lucid_models.signing.key_store import KeyStore
from lucid_models.signing.signers import SOURCE_VARIABLES, Signer, open_signers
from lucid_models.signing.trust import TRUST_VARIABLE, UNSIGNED, Role, Trust, read_trust, trust_place

KEYS_FOLDER = "keys"
NEWEST_FILE = "newest-live.json"  # cluster -> number, beside the keys
_MOST_BYTES = 1024 * 1024
logger = logging.getLogger("lucid.releases")


@dataclass(frozen=True)
class Signing:
    """What an installation signs with and believes. `trust_file` None: it signs nothing."""

    trust_file: Path | None
    keys_folder: Path

    @classmethod
    def of_environment(cls, folder: Path | None = None) -> "Signing":
        """As the environment says, in a state folder (None: which one it says, too)."""
        folder = folder or state_dir()
        return cls(trust_place(folder), folder / KEYS_FOLDER)

    @property
    def trust(self) -> Trust | None:
        """The trust file as it is now; None: unsigned. Raises as `read_trust`."""
        return None if self.trust_file is None else read_trust(self.trust_file)

    def newest_live(self, cluster: str) -> int:
        """The highest number that was seen live here of a cluster; 0: none is remembered."""
        try:
            numbers = strict_json.loads(read_regular(self.keys_folder / NEWEST_FILE, _MOST_BYTES))
            return int(numbers[cluster])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def remember_live(self, cluster: str, sequence: int) -> None:
        """Remember a number, so that an older statement is not renewed though the registry lost the newer;
        where the disk does not take it the registry's history alone says which is the newest.
        """
        if sequence <= self.newest_live(cluster):
            return
        file = self.keys_folder / NEWEST_FILE
        try:
            private_folder(self.keys_folder)
            numbers = strict_json.loads(read_regular(file, _MOST_BYTES)) if file.exists() else {}
            replace_file(file, json.dumps({**numbers, cluster: sequence}, sort_keys=True), durable=True)
        except (OSError, ValueError, TypeError) as error:
            logger.warning("%s does not remember publication %d of %s: %s", file, sequence, cluster, error)

    @property
    def key_store(self) -> KeyStore:
        """Where its keys come and go; raises BadInputError where nothing is signed."""
        if self.trust_file is None:
            raise BadInputError(
                f"{TRUST_VARIABLE}={UNSIGNED} says that nothing is signed here.",
                remedy=f"Unset {TRUST_VARIABLE}.",
            )
        return KeyStore(self.trust_file, self.keys_folder)

    def signers(self, role: Role) -> list[Signer]:
        """Who signs for a role; empty where nothing is signed.

        Raises BadInputError where fewer keys are here than must sign, or where the trust file does not have
        them as valid: schedulers would refuse what they sign.
        """
        trust = self.trust
        if trust is None:
            return []
        signers = open_signers(role, self.keys_folder)
        now = datetime.now(UTC)
        for signer in signers:
            key = trust.key(signer.id)
            if key is None or key.role != role or key.revoked is not None or not key.is_valid_at(now):
                raise BadInputError(
                    f"The {role}'s key {signer.id[:12]}... is not valid now by {self.trust_file}.",
                    remedy="Add it there (`lucid keys show`), or sign with another.",
                )
        if len({signer.id for signer in signers}) < trust.threshold[role]:
            raise BadInputError(
                f"{len(signers)} of the {trust.threshold[role]} {role}'s keys that must sign are here.",
                remedy=f"Make one (`lucid keys create`), say where it is ({SOURCE_VARIABLES[role]}), or set "
                f"{TRUST_VARIABLE}={UNSIGNED} here and for schedulers.",
            )
        return signers
