"""Our errors as answers of the server, in words."""

from collections.abc import Iterator
from contextlib import contextmanager

from foundation.errors import BadInputError, DiskError, LucidError, NotFoundError, ServiceRefusedError

_STATUS = {NotFoundError: 404, ServiceRefusedError: 409, BadInputError: 422, DiskError: 507}


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Answer an error of ours by its sentence.

    404; 409 for what MLflow refuses, 422 for bad input, 507 for a full disk; else 503.
    """
    from fastapi import HTTPException

    try:
        yield
    except LucidError as error:
        status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 503)
        raise HTTPException(status, str(error)) from error
