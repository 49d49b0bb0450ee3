"""What a disk or an object store refuses a file, as one sentence with a remedy: a full disk is not a bug."""

import errno
import os
import re

from foundation.errors import DiskError, LucidError, ServiceUnavailableError

_REMEDIES = {
    errno.ENOSPC: "Make room (TMPDIR names the folder for scratch files), then do the same again.",
    errno.EDQUOT: "The account's quota is used up: make room, then do the same again.",
    errno.EFBIG: "Files may not grow so large here (ulimit -f): raise the limit, then do the same again.",
    errno.EROFS: "Choose a place that can be written to.",
    errno.EACCES: "Let the account that runs this read and write there, or choose another place.",
    errno.EPERM: "Let the account that runs this read and write there, or choose another place.",
    errno.EIO: "The disk or its connection fails: check it before anything else is written.",
    errno.EMFILE: "Too many files are open: raise the limit (ulimit -n).",
    errno.ENFILE: "Too many files are open on this machine.",
    errno.ENOENT: "A file or a folder on the way is not there: check the path.",
    errno.ENOTDIR: "A file stands where a folder is needed: choose another place.",
    errno.EISDIR: "A folder stands where a file is needed: choose another place.",
    errno.ENAMETOOLONG: "No file has so long a name: choose a shorter one.",
}

# How pyarrow tells of S3: one OSError for all, without a number.
_OF_OBJECT_STORE = re.compile(r"AWS Error (?P<code>[A-Z_]+)( \(HTTP status (?P<status>\d+)\))?")
_NOT_ADMITTED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "EXPIRED_TOKEN")


def storage_error(error: BaseException) -> LucidError | None:
    """Return the sentence for what a disk or an object store refused; None for any other error."""
    if known := disk_error(error):
        return known
    said = _OF_OBJECT_STORE.search(str(error)) if isinstance(error, OSError) else None
    if said is None:
        return None
    if said["code"] in _NOT_ADMITTED or said["status"] in ("401", "403"):
        remedy = "Its credentials are wrong, expired or lack a right: renew them, then do the same again."
    else:
        remedy = "It is away, busy or at fault: do the same again when it answers."
    return ServiceUnavailableError(f"The object store refused: {error}.", remedy=remedy)


def disk_error(error: BaseException) -> DiskError | None:
    """Return the sentence for what the operating system refused a file; None for any other error."""
    if not isinstance(error, OSError) or error.errno not in _REMEDIES:
        return None
    places = [
        os.fsencode(name).decode(errors="backslashreplace")
        for name in (error.filename, error.filename2)
        if isinstance(name, str)
    ]
    where = f" ({' to '.join(places)})" if places else ""
    return DiskError(f"{os.strerror(error.errno)}{where}.", remedy=_REMEDIES[error.errno])
