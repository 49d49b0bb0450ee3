"""How the keys of an installation come and go; each change is one replaced trust file.

A key is made and trusted before anything is signed with it, and trusted on for what it signed after it was
replaced. Schedulers learn of a change by their copy of the trust file.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from foundation.private_files import private_folder
from foundation.process_lock import ProcessLock, acquire_within
from foundation.replaced_files import create_file, replace_file
from lucid_models.signing.ed25519 import PUBLIC_BYTES, generate_private_key
from lucid_models.signing.signers import SOURCE_VARIABLES, Signer, open_signers, private_key_file
from lucid_models.signing.trust import ROLES, Role, Trust, TrustedKey, read_trust

READABLE = 0o644  # a trust file holds no secret
LOCK_WAIT_S = 60.0


class KeyStore:
    """The private keys in a folder, and the trust file that schedulers get a copy of.

    Every method raises BadInputError for a trust file that is damaged, OSError where the disk fails.
    """

    def __init__(self, trust_file: Path, keys_folder: Path) -> None:
        self.trust_file, self.keys_folder = trust_file, keys_folder

    @property
    def trust(self) -> Trust:
        """The trust file; one without keys where there is none."""
        return read_trust(self.trust_file) if self.trust_file.exists() else Trust()

    def create(self, roles: Sequence[Role] = ROLES) -> list[TrustedKey]:
        """Make the keys of these roles that are not there and trust them; returns the new ones.

        May be killed and called again: a key that was made and not trusted is trusted then.
        """
        with self._changing():
            made = []
            for role in roles:
                create_file(private_key_file(self.keys_folder, role), generate_private_key())
                public = self._signer(role, private_key_file(self.keys_folder, role)).public
                if all(key.public != public for key in self.trust.keys):
                    made.append(self._add(public, role))
            return made

    def add(self, public: bytes, role: Role) -> TrustedKey:
        """Trust a key whose private half is kept elsewhere: in a KMS, an HSM, on another machine."""
        if len(public) != PUBLIC_BYTES:
            raise BadInputError(f"A public key of Ed25519 holds {PUBLIC_BYTES} bytes, not {len(public)}.")
        with self._changing():
            if any(key.public == public for key in self.trust.keys):
                raise BadInputError("This key is in the trust file already.", remedy="See `lucid keys show`.")
            return self._add(public, role)

    def begin_rotation(self, role: Role) -> TrustedKey:
        """Make the next key of a role and trust it. Nothing is signed with it until `finish_rotation`, so
        that there is time to give schedulers the new trust file.
        """
        with self._changing():
            file = self._next_file(role)
            create_file(file, generate_private_key())
            public = self._signer(role, file).public
            known = next((key for key in self.trust.keys if key.public == public), None)
            return known or self._add(public, role)

    def finish_rotation(self, role: Role) -> TrustedKey:
        """Sign with the next key from now on. The one before is deleted; what it signed till now holds.

        Raises NotFoundError where no rotation was begun.
        """
        with self._changing():
            file, following = private_key_file(self.keys_folder, role), self._next_file(role)
            if not following.exists():
                raise NotFoundError(
                    f"There is no next {role}'s key.", remedy=f"Begin: `lucid keys rotate --role {role}`."
                )
            new = self._signer(role, following).id
            if file.exists():
                now = _now()
                self._change(self._signer(role, file).id, lambda key: replace(key, not_after=now))
            following.replace(file)
            return self._one(new)

    def revoke(self, keyid: str) -> TrustedKey:
        """Believe nothing that a key signed any more, whatever its date. `keyid`: its id, or how that begins.

        Raises NotFoundError unless it means one key.
        """
        with self._changing():
            now = _now()
            return self._change(self._one(keyid).id, lambda key: replace(key, revoked=key.revoked or now))

    def _one(self, keyid: str) -> TrustedKey:
        found = [key for key in self.trust.keys if keyid and key.id.startswith(keyid)]
        if len(found) != 1:
            raise NotFoundError(
                f"{len(found)} keys of {self.trust_file} have an id that begins with {keyid[:64]!r}.",
                remedy="See `lucid keys show`.",
            )
        return found[0]

    def _signer(self, role: Role, file: Path) -> Signer:
        """The signer in a key file, through the checks of every source."""
        return open_signers(role, self.keys_folder, {SOURCE_VARIABLES[role]: f"file:{file}"})[0]

    def _next_file(self, role: Role) -> Path:
        file = private_key_file(self.keys_folder, role)
        return file.with_name(f"{file.name}.next")

    def _add(self, public: bytes, role: Role) -> TrustedKey:
        key = TrustedKey(public, role, _now())
        trust = self.trust
        self._write(replace(trust, keys=(*trust.keys, key)))
        return key

    def _change(self, keyid: str, change: Callable[[TrustedKey], TrustedKey]) -> TrustedKey:
        trust = self.trust
        keys = tuple(change(key) if key.id == keyid else key for key in trust.keys)
        self._write(replace(trust, keys=keys))
        return self._one(keyid)

    def _write(self, trust: Trust) -> None:
        replace_file(self.trust_file, trust.to_text(), mode=READABLE, durable=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One at a time: `make up` and a person may both make what is not there."""
        private_folder(self.trust_file.parent, tighten=False)
        private_folder(self.keys_folder)
        lock = ProcessLock(self.keys_folder / ".lock")
        if not acquire_within(lock, LOCK_WAIT_S, waiting=lambda waited_s: None):
            raise ServiceUnavailableError(f"Another process changes the keys in {self.keys_folder}.")
        try:
            yield
        finally:
            lock.release()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
