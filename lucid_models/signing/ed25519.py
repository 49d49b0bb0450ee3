"""Ed25519 signatures (RFC 8032) by the library `cryptography`, which the extra `verify` brings.

The library is imported where it is used: a light client that is set to believe unsigned releases does
without it.
"""

from typing import TYPE_CHECKING

from foundation.errors import BadInputError, NotFoundError
from foundation.extras import missing_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_BYTES, SIGNATURE_BYTES = 32, 64


def is_signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the key of these 32 bytes signed the message; raises NotFoundError without the library."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError as error:
        if missing_extra(error) is None:
            raise
        raise NotFoundError(
            "Signatures are verified by the library cryptography, which is not installed.",
            remedy="pip install 'lucid-mlops[verify]', or believe unsigned releases (LUCID_TRUST=unsigned).",
        ) from error
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def generate_private_key() -> bytes:
    """A new private key as PEM (PKCS 8, not encrypted)."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_private_key(pem: bytes, *, source: str) -> "Ed25519PrivateKey":
    """A private key from PEM; raises BadInputError for anything but an Ed25519 key without a passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The library's own text may quote what it read.
        raise BadInputError(
            f"{source} holds no private key in PEM that can be read without a passphrase.",
            remedy="Move a damaged file away and make a key by `lucid keys create`; decrypt one by a command "
            "(command:...).",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInputError(
            f"{source} holds a key of another kind than Ed25519.", remedy="Make one with `lucid keys create`."
        )
    return key


def public_bytes(key: "Ed25519PrivateKey") -> bytes:
    """The 32 bytes of the public key that belongs to a private one."""
    return key.public_key().public_bytes_raw()
