"""Private keys, by where they are kept: who may sign as the judge, and who as the publisher.

A source is a text:

    file:PATH         PEM in a file that its owner alone may read
    env:NAME          PEM in an environment variable
    command:ARGV      PEM on the standard output of a command (age, pass, a vault)
    signer:HEX:ARGV   a command that signs, so that the private key never leaves it (a KMS, an HSM): given the
                      message on standard input it answers with 64 bytes in base64; HEX is the public key

Commands run without a shell. Several sources are separated by line breaks: each signs.
"""

import base64
import binascii
import os
import shlex
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import read_regular
from lucid_models.signing.ed25519 import (
    PUBLIC_BYTES,
    SIGNATURE_BYTES,
    is_signed_by,
    load_private_key,
    public_bytes,
)
from lucid_models.signing.envelope import Envelope, Signature, pre_authentication_encoding
from lucid_models.signing.trust import Role, key_id

SOURCE_VARIABLES: Mapping[Role, str] = {"judge": "LUCID_JUDGE_KEY", "publisher": "LUCID_PUBLISHER_KEY"}
COMMAND_LIMIT_S = 60.0
_MOST_PEM_BYTES = 16 * 1024


@dataclass(frozen=True)
class Signer:
    """Signs for one role; `public` are the 32 bytes that verify it."""

    role: Role
    public: bytes
    sign: Callable[[bytes], bytes]

    @property
    def id(self) -> str:
        """The id of its key."""
        return key_id(self.public)


def seal(payload_type: str, payload: bytes, signers: list[Signer]) -> str:
    """The envelope of a payload, signed by each, as it is stored."""
    message = pre_authentication_encoding(payload_type, payload)
    return Envelope(
        payload_type, payload, tuple(Signature(signer.id, signer.sign(message)) for signer in signers)
    ).to_text()


def open_signers(role: Role, keys_folder: Path, environment: Mapping[str, str] | None = None) -> list[Signer]:
    """Who signs for a role: LUCID_JUDGE_KEY or LUCID_PUBLISHER_KEY, else the key in `keys_folder`; empty
    where there is neither. Raises BadInputError for a source that cannot be used.
    """
    environment = os.environ if environment is None else environment
    sources = environment.get(SOURCE_VARIABLES[role], "").split("\n")
    sources = [source.strip() for source in sources if source.strip()]
    own = private_key_file(keys_folder, role)
    if not sources and own.exists():
        sources = [f"file:{own}"]
    return [_open(role, source, environment) for source in sources]


def private_key_file(keys_folder: Path, role: Role) -> Path:
    """Where an installation keeps the private key of a role unless it is set otherwise."""
    return keys_folder / f"{role}.key"


def local_signer(role: Role, pem: bytes, *, source: str) -> Signer:
    """Signs with a private key in memory; raises BadInputError for what holds none."""
    key = load_private_key(pem, source=source)
    return Signer(role, public_bytes(key), key.sign)


def _open(role: Role, source: str, environment: Mapping[str, str]) -> Signer:
    kind, _, rest = source.partition(":")
    variable = SOURCE_VARIABLES[role]
    if kind == "file":
        return local_signer(role, _private_file(Path(rest)), source=f"The key file {rest}")
    if kind == "env":
        if rest not in environment:
            raise NotFoundError(f"{variable} names the variable {rest}, which is not set.")
        return local_signer(role, environment[rest].encode(), source=f"The variable {rest}")
    if kind == "command":
        argv = _argv(variable, rest)
        return local_signer(role, _run(variable, argv, b""), source=f"What {argv[0]} prints")
    if kind == "signer":
        text, _, command = rest.partition(":")
        return _external_signer(role, text, _argv(variable, command))
    raise BadInputError(
        f"{variable} starts with {kind[:20]!r}, which is no kind of key source.",
        remedy="Write file:PATH, env:NAME, command:ARGV or signer:PUBLIC_KEY_IN_HEX:ARGV.",
    )


def _external_signer(role: Role, text: str, argv: list[str]) -> Signer:
    variable = SOURCE_VARIABLES[role]
    try:
        public = bytes.fromhex(text)
    except ValueError:
        public = b""
    if len(public) != PUBLIC_BYTES:
        raise BadInputError(
            f"{variable}: signer: is followed by no public key of {PUBLIC_BYTES} bytes in hexadecimal."
        )

    def sign(message: bytes) -> bytes:
        answer = _run(variable, argv, message)
        try:
            signature = base64.b64decode(answer.strip(), validate=True)
        except binascii.Error:
            signature = b""
        # Else the first to notice would be every scheduler.
        if len(signature) != SIGNATURE_BYTES or not is_signed_by(public, message, signature):
            raise BadInputError(
                f"What {argv[0]} answered is no signature in base64 by the key {key_id(public)[:12]}....",
                remedy=f"See its documentation for Ed25519 without pre-hashing, and {variable}.",
            )
        return signature

    return Signer(role, public, sign)


def _private_file(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadInputError(
                f"The private key {path} may be read by others than its owner ({stat.filemode(mode)}).",
                remedy=f"chmod 600 {path}; or make another: `lucid keys rotate --role ROLE`.",
            )
        return read_regular(path, _MOST_PEM_BYTES)
    except FileNotFoundError:
        raise NotFoundError(
            f"There is no private key at {path}.", remedy="Make one: `lucid keys create`."
        ) from None
    except OSError as error:
        raise BadInputError(f"The private key {path} cannot be read: {error}.") from error


def _argv(variable: str, command: str) -> list[str]:
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise BadInputError(f"The command of {variable} cannot be split into words: {error}.") from error
    if not argv:
        raise BadInputError(f"{variable} names no command.")
    return argv


def _run(variable: str, argv: list[str], message: bytes) -> bytes:
    """What a command prints. What it writes to standard error is not repeated: it may hold a secret."""
    try:
        done = subprocess.run(argv, input=message, capture_output=True, timeout=COMMAND_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        why = (
            f"ended with {error.returncode}"
            if isinstance(error, subprocess.CalledProcessError)
            else str(error)
        )
        raise BadInputError(f"The command {argv[0]} of {variable} gave no key: {why}.") from error
    return done.stdout
