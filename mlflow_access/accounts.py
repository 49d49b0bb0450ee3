"""Accounts of MLflow: names, what each may do, and digests of their passwords.

Those of the installation's own services come from the environment, one variable each; all others from a file
that `python -m mlflow_access add` writes, which is read again when it changes. Passwords of that file are
made here, of 32 random bytes: no list of likely passwords finds one from its digest, so that SHA-256 is
enough and a request costs microseconds. (MLflow's own `basic-auth` derives a key from the password at each
request: some hundred milliseconds.)
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError
from foundation.private_files import private_folder
from foundation.process_lock import ProcessLock, acquire_within
from foundation.replaced_files import replace_file
from mlflow_access.roles import ADMIN, JUDGE, PUBLISH, READ, ROLES, SCHEDULE, TRAIN, UPKEEP

FILE_VARIABLE = "LUCID_MLFLOW_ACCOUNTS_FILE"
ACCOUNTS_FILE = "mlflow_accounts.json"  # in a local stack's folder of secrets
# The installation's own accounts and their roles; the password of each is in LUCID_MLFLOW_<NAME>_PASSWORD.
OWN_ACCOUNTS = {
    "admin": (ADMIN,),
    "train": (TRAIN,),
    "judge": (JUDGE,),
    "publish": (PUBLISH,),
    "pages": (READ,),
    "upkeep": (UPKEEP,),
    "tasks": (TRAIN, JUDGE, PUBLISH),  # where one process runs all tasks, as LocalExecutor does
}
LEAST_PASSWORD = 12
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class MlflowAccount:
    """One account; a scheduler's may read releases of `cluster` alone, which is None for other roles."""

    name: str
    roles: tuple[str, ...]
    password_sha256: str
    cluster: str | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise BadInputError(
                f"{self.name!r} cannot name an account.",
                remedy="Use a letter or digit, then letters, digits, '.', '_' and '-', at most 64 in all.",
            )
        unknown = sorted(set(self.roles) - ROLES.keys())
        if unknown or not self.roles:
            raise BadInputError(
                f"Account {self.name} has the roles {list(self.roles)}.",
                remedy=f"Give it some of: {', '.join(ROLES)}.",
            )
        if (self.cluster is not None) != (self.roles == (SCHEDULE,)):
            raise BadInputError(
                f"Account {self.name} with the roles {', '.join(self.roles)} and cluster {self.cluster!r}.",
                remedy=f"One for {SCHEDULE} has that role alone and names its cluster; others name none.",
            )
        if self.cluster is not None and not _CLUSTER.fullmatch(self.cluster):
            raise BadInputError(f"{self.cluster!r} cannot name a cluster.")


def digest(password: str) -> str:
    """The digest by which a password is known again."""
    return hashlib.sha256(password.encode()).hexdigest()


class Accounts:
    """All accounts of a server; asked at each request."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises BadInputError for a short password, two accounts with one, none at all, or a wrong file."""
        self._own = {account.name: account for account in _own_accounts(environment)}
        path = environment.get(FILE_VARIABLE, "")
        self._file = AccountsFile(Path(path)) if path else None
        self._stamp: tuple[int, int] | None = None
        self._kept: dict[str, MlflowAccount] = {}
        if self._file is not None:
            self._look(self._file)
        if not self._own and not self._kept:
            raise BadInputError(
                "No account is set: nobody could use this MLflow.",
                remedy=f"Set {password_variable('admin')}, or {FILE_VARIABLE}.",
            )

    def authenticate(self, authorization: str | None) -> MlflowAccount | None:
        """The account of a request's header `Authorization` (Basic); None for none or a wrong one."""
        word, _, encoded = (authorization or "").partition(" ")
        if word.lower() != "basic":
            return None
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        if self._file is not None:
            self._look(self._file)
        account = self._own.get(name) or self._kept.get(name)
        known = account.password_sha256 if account else ""
        same = hmac.compare_digest(digest(password), known)
        return account if same and colon else None

    def _look(self, file: "AccountsFile") -> None:
        """Read the file again if it is another one than before; a broken one changes nothing."""
        stamp = file.stamp()
        if stamp == self._stamp:
            return
        first, self._stamp = self._stamp is None, stamp
        try:
            self._kept = file.read()
        except BadInputError:
            if first:
                raise


class AccountsFile:
    """The file of the accounts besides the services' own; it holds digests, no password."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> tuple[int, int]:
        """What differs when the file was written anew."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (status.st_mtime_ns, status.st_ino)

    def read(self) -> dict[str, MlflowAccount]:
        """The accounts by name, none where there is no file; raises BadInputError for another kind."""
        try:
            document = strict_json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise self._broken(str(error)) from error
        try:
            accounts = [
                MlflowAccount(
                    str(row["name"]),
                    tuple(map(str, row["roles"])),
                    str(row["password_sha256"]),
                    row["cluster"],
                )
                for row in document["accounts"]
            ]
        except (KeyError, TypeError) as error:
            raise self._broken(repr(error)) from error
        return {account.name: account for account in accounts}

    def add(self, name: str, roles: tuple[str, ...], cluster: str | None = None) -> str:
        """Make an account, or give the one of this name a new password and these roles; returns the password.

        The old password is good no longer. Raises BadInputError for a service's name.
        """
        if name in OWN_ACCOUNTS:
            raise BadInputError(
                f"The account {name} is one of the installation's own.",
                remedy=f"Set {password_variable(name)}.",
            )
        password = secrets.token_urlsafe(32)
        account = MlflowAccount(name, roles, digest(password), cluster)
        self._change(lambda accounts: {**accounts, name: account})
        return password

    def remove(self, name: str) -> None:
        """Take an account away; raises NotFoundError."""
        if name not in self.read():
            raise NotFoundError(f"There is no account {name!r} in {self.path}.")
        self._change(lambda accounts: {key: each for key, each in accounts.items() if key != name})

    def _change(self, change: Callable[[dict[str, MlflowAccount]], dict[str, MlflowAccount]]) -> None:
        private_folder(self.path.parent, tighten=False)
        with ProcessLock(self.path.with_suffix(".lock")) as lock:
            acquire_within(lock, None, lambda waited_s: None)
            rows = [asdict(account) for _, account in sorted(change(self.read()).items())]
            replace_file(self.path, json.dumps({"accounts": rows}, indent=2) + "\n", durable=True)

    def _broken(self, why: str) -> BadInputError:
        return BadInputError(
            f"{self.path} does not hold accounts: {why}.", remedy="Write it by `python -m mlflow_access add`."
        )


def password_variable(name: str) -> str:
    """The environment variable that holds the password of one of the installation's own accounts."""
    return f"LUCID_MLFLOW_{name.upper()}_PASSWORD"


def _own_accounts(environment: Mapping[str, str]) -> Iterator[MlflowAccount]:
    owners: dict[str, str] = {}
    for name, roles in OWN_ACCOUNTS.items():
        variable = password_variable(name)
        password = environment.get(variable, "")
        if not password:
            continue
        if len(password) < LEAST_PASSWORD:
            raise BadInputError(
                f"{variable} has {len(password)} characters.",
                remedy=f"Give it {LEAST_PASSWORD} or more: `openssl rand -hex 32`.",
            )
        other = owners.setdefault(digest(password), variable)
        if other != variable:
            raise BadInputError(
                f"{variable} and {other} are one password: each account could be the other.",
                remedy="Give each its own.",
            )
        yield MlflowAccount(name, roles, digest(password))
