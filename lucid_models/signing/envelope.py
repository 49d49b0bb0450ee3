"""DSSE envelopes (Dead Simple Signing Envelope, protocol 1.0.2): bytes, their type, and who signed both.

    {"payloadType": "application/vnd.lucid.publication+json", "payload": BASE64,
     "signatures": [{"keyid": "...", "sig": BASE64}]}

What is signed is the pre-authentication encoding of the payload *as it is stored*; nothing is ever written
anew to be verified. Needs the standard library only: the light client reads envelopes with it.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foundation import strict_json
from lucid_models.signing.refusals import Reason, StatementRefusedError

MOST_BYTES = 64 * 1024
MOST_SIGNATURES = 16


@dataclass(frozen=True)
class Signature:
    """64 bytes of Ed25519 by the key of this id."""

    keyid: str
    value: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload, its media type (ASCII) and its signatures; `to_text` and `parse_envelope` are inverse."""

    payload_type: str
    payload: bytes
    signatures: Sequence[Signature]

    def to_text(self) -> str:
        """As it is stored: one line of JSON."""
        document = {
            "payloadType": self.payload_type,
            "payload": base64.b64encode(self.payload).decode("ascii"),
            "signatures": [
                {"keyid": each.keyid, "sig": base64.b64encode(each.value).decode("ascii")}
                for each in self.signatures
            ],
        }
        return json.dumps(document, sort_keys=True, ensure_ascii=True)


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What is signed: the type and the payload, each with its length in bytes (DSSE protocol, "PAE")."""
    kind = payload_type.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def parse_envelope(text: str | bytes, *, source: str) -> Envelope:
    """Read an envelope; nothing is verified yet.

    Raises StatementRefusedError for what is none, or holds more than `MOST_BYTES` or `MOST_SIGNATURES`.
    """
    if len(text) > MOST_BYTES:
        raise StatementRefusedError(
            f"{source} holds {len(text)} bytes; an envelope holds at most {MOST_BYTES}.",
            Reason.UNREADABLE,
        )
    try:
        document = strict_json.loads(text)
        signatures = document["signatures"]
        if document.keys() != {"payloadType", "payload", "signatures"} or not isinstance(signatures, list):
            raise ValueError("its members are not payloadType, payload and signatures")
        if len(signatures) > MOST_SIGNATURES:
            raise ValueError(f"it has {len(signatures)} signatures, more than {MOST_SIGNATURES}")
        payload_type = document["payloadType"]
        if not isinstance(payload_type, str) or not payload_type.isascii():
            raise ValueError("its payloadType is no ASCII text")
        return Envelope(
            payload_type, _bytes_of(document["payload"]), tuple(_signature(each) for each in signatures)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StatementRefusedError(
            f"{source} is no DSSE envelope: {error}.",
            Reason.UNREADABLE,
            remedy="Publish the release again.",
        ) from error


def _signature(document: Any) -> Signature:
    keyid = document["keyid"]
    if not isinstance(keyid, str) or not keyid:
        raise ValueError("a signature names no key")
    return Signature(keyid, _bytes_of(document["sig"]))


def _bytes_of(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("what should be base64 is no text")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"what should be base64 is not: {error}") from error
