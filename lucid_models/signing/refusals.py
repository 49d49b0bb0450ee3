"""Why a statement is refused: a word for programs, a sentence for people."""

from enum import StrEnum

from foundation.errors import ReleaseRefusedError


class Reason(StrEnum):
    """Why a statement is refused."""

    UNREADABLE = "unreadable"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    WRONG_ROLE = "wrong_role"
    REVOKED_KEY = "revoked_key"
    KEY_OUTSIDE_VALIDITY = "key_outside_validity"
    BAD_SIGNATURE = "bad_signature"
    BELOW_THRESHOLD = "below_threshold"
    OTHER_RELEASE = "other_release"
    OTHER_CLUSTER = "other_cluster"
    NOT_APPROVED = "not_approved"
    FROM_THE_FUTURE = "from_the_future"
    EXPIRED = "expired"
    LOWER_SEQUENCE = "lower_sequence"
    FILE_CHANGED = "file_changed"


class StatementRefusedError(ReleaseRefusedError):
    """A statement is not believed; `reason` says why in a word, the message in a sentence."""

    def __init__(self, message: str, reason: Reason, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason
