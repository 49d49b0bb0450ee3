"""Where private keys come from, and how keys come and go."""

import shlex
import stat
import sys
from pathlib import Path

import pytest

from foundation.errors import BadInputError, NotFoundError
from lucid_models.signing.ed25519 import generate_private_key, is_signed_by
from lucid_models.signing.installation import Signing, trust_place
from lucid_models.signing.key_store import KeyStore
from lucid_models.signing.signers import local_signer, open_signers
from lucid_models.signing.trust import read_trust

PEM = generate_private_key()
SIGNS = """
import base64, sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key
key = load_pem_private_key(open(sys.argv[1], "rb").read(), None)
sys.stdout.write(base64.b64encode(key.sign(sys.stdin.buffer.read())).decode())
"""


@pytest.fixture
def pem_file(tmp_path: Path) -> Path:
    file = tmp_path / "a key.pem"
    file.write_bytes(PEM)
    file.chmod(0o600)
    return file


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "state" / "trust.json", tmp_path / "state" / "keys")


def command(*argv: str) -> str:
    return shlex.join([sys.executable, *argv])


def test_the_same_key_signs_from_each_source(pem_file: Path, tmp_path: Path) -> None:
    own = local_signer("publisher", PEM, source="it")
    signs = tmp_path / "signs.py"
    signs.write_text(SIGNS)
    sources = {
        "file": f"file:{pem_file}",
        "env": "env:A_KEY",
        "command": f"command:{command('-c', f'print(open({str(pem_file)!r}).read())')}",
        "signer": f"signer:{own.public.hex()}:{command(str(signs), str(pem_file))}",
    }
    for source in sources.values():
        (signer,) = open_signers(
            "publisher", tmp_path, {"LUCID_PUBLISHER_KEY": source, "A_KEY": PEM.decode()}
        )
        assert signer.id == own.id
        assert is_signed_by(own.public, b"what is live", signer.sign(b"what is live"))
    several = "\n".join([sources["file"], sources["env"]])
    environment = {"LUCID_PUBLISHER_KEY": several, "A_KEY": PEM.decode()}
    assert len(open_signers("publisher", tmp_path, environment)) == 2
    assert open_signers("judge", tmp_path, environment) == []


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("pem:x", "no kind of key source"),
        ("file:/nowhere", "no private key at"),
        ("file:", "a folder, not a file"),
        ("env:NOT_SET", "not set"),
        ("env:NOT_A_KEY", "no private key in PEM"),
        ("command:", "names no command"),
        ("command:'", "cannot be split"),
        ("command:/nowhere", "gave no key"),
        (f"command:{command('-c', 'raise SystemExit(3)')}", "ended with 3"),
        ("signer:00:true", "no public key of 32 bytes"),
        (f"signer:{'00' * 32}:{command('-c', 'print(1)')}", "no signature in base64"),
    ],
)
def test_a_source_that_cannot_be_used_says_why(source: str, word: str, tmp_path: Path) -> None:
    secret = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----"
    environment = {"LUCID_PUBLISHER_KEY": source, "NOT_A_KEY": secret}
    with pytest.raises((BadInputError, NotFoundError), match=word) as refused:
        [signer.sign(b"x") for signer in open_signers("publisher", tmp_path, environment)]
    assert "c2VjcmV0" not in str(refused.value)


def test_a_private_key_that_others_may_read_is_not_used(pem_file: Path, tmp_path: Path) -> None:
    pem_file.chmod(0o640)
    with pytest.raises(BadInputError, match="may be read by others"):
        open_signers("judge", tmp_path, {"LUCID_JUDGE_KEY": f"file:{pem_file}"})


def test_keys_are_made_once_for_their_owner_alone(store: KeyStore) -> None:
    made = store.create()
    assert [key.role for key in made] == ["judge", "publisher"]
    assert store.create() == []
    assert list(read_trust(store.trust_file).keys) == made
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in store.keys_folder.glob("*.key")}
    assert modes == {"judge.key": 0o600, "publisher.key": 0o600}
    # Killed between the key and the trust file.
    store.trust_file.unlink()
    assert [key.id for key in store.create()] == [key.id for key in made]


def test_a_key_that_is_kept_elsewhere_is_trusted_once(store: KeyStore) -> None:
    public = local_signer("judge", PEM, source="it").public
    assert store.add(public, "judge").role == "judge"
    with pytest.raises(BadInputError, match="already"):
        store.add(public, "judge")
    with pytest.raises(BadInputError, match="32 bytes"):
        store.add(b"short", "judge")


def test_a_key_that_is_not_valid_now_does_not_sign(
    store: KeyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("LUCID_TRUST")
    _, publisher = store.create()
    assert [signer.id for signer in Signing.of_environment().signers("publisher")] == [publisher.id]
    with pytest.raises(NotFoundError, match="0 keys"):
        store.revoke("no such key")
    with pytest.raises(NotFoundError, match="0 keys"):
        store.revoke("")
    store.revoke(publisher.id[:12])
    with pytest.raises(BadInputError, match="not valid now"):
        Signing.of_environment().signers("publisher")


def test_where_the_trust_file_is(tmp_path: Path) -> None:
    assert trust_place(tmp_path, {}) == tmp_path / "trust.json"
    assert trust_place(tmp_path, {"LUCID_TRUST": "/etc/trust.json"}) == Path("/etc/trust.json")
    assert trust_place(tmp_path, {"LUCID_TRUST": "unsigned"}) is None
