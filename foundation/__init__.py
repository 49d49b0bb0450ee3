"""What every package stands on: errors, files, locks, bounded HTTP, progress. It knows nothing of clusters.

All errors that the product raises on purpose are a `LucidError`: a sentence with the value, the place and the
remedy. Long work reports to a `Progress`. The rest of this package is for the packages above it, and may
change with them.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from foundation.errors import BadInputError as BadInputError
    from foundation.errors import LucidError as LucidError
    from foundation.errors import NotFoundError as NotFoundError
    from foundation.errors import ReleaseRefusedError as ReleaseRefusedError
    from foundation.errors import ServiceUnavailableError as ServiceUnavailableError
    from foundation.errors import UnknownNameError as UnknownNameError
    from foundation.errors import ValidationFailedError as ValidationFailedError
    from foundation.progress import Progress as Progress

__getattr__, __dir__ = lazy_names(__name__)
