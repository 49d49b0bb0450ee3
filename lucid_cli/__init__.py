"""The command line `lucid`: one file a group of commands, no logic of its own.

What is kept is the commands and their JSON (`--json`), not these modules; `app` is the Typer program.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from lucid_cli.main import app as app

__getattr__, __dir__ = lazy_names(__name__)
