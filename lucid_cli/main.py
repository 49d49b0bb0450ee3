"""`lucid`: cluster logs in, proven scheduler models out."""

import logging
import os
import sys
from typing import Annotated, Any

import typer

from foundation.disk_errors import storage_error
from foundation.errors import LucidError, ReleaseRefusedError
from foundation.exit_codes import ERROR, INTERRUPTED, REFUSED
from foundation.extras import missing_extra
from foundation.parts import lacking, missing_part
from foundation.screen_text import ScreenFormatter
from lucid_cli.command_loading import ProgramGroup
from lucid_cli.help_pages import import_renderer
from lucid_cli.output import say

# A command line that cannot be read: typer gives the base of such errors no name.
UsageError: Any = typer.BadParameter.__base__
HELP_OPTIONS = ("-h", "--help")
app = typer.Typer(
    name="lucid",
    cls=ProgramGroup,
    help=__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": list(HELP_OPTIONS)},
)


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"lucid {version('lucid-mlops')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Say which version this is.", callback=_say_version, is_eager=True),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and library logs.")] = False,
) -> None:
    """Apply what holds for every command."""
    os.environ["LUCID_DEBUG"] = "1" if debug else ""
    level = logging.INFO if debug else logging.WARNING
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(ScreenFormatter(logging.BASIC_FORMAT))
    shown.setLevel(level)  # the handler's own level holds for libraries that set their loggers' levels
    logging.basicConfig(handlers=[shown], level=level)
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "INFO" if debug else "WARNING")
    if not debug:
        for chatty in ("mlflow", "urllib3", "alembic", "great_expectations", "matplotlib"):
            logging.getLogger(chatty).setLevel(logging.ERROR)


def main() -> None:
    """Run the program; an error is one line on standard error. Its exit codes: foundation/exit_codes.py."""
    try:
        if len(sys.argv) == 1 or not set(HELP_OPTIONS).isdisjoint(sys.argv):
            import_renderer()
        code = typer.main.get_command(app)(standalone_mode=False)
    except UsageError as error:
        of_a_part = lacking().get(f"option {getattr(error, 'option_name', '')}")
        if of_a_part is not None:
            say(f"Error: {of_a_part}")
            raise SystemExit(ERROR) from None
        import_renderer().rich_format_error(error)
        raise SystemExit(ERROR) from None
    except (KeyboardInterrupt, typer.Abort):
        say("Interrupted.")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output went away
        raise SystemExit(ERROR) from None
    except Exception as error:
        if os.environ.get("LUCID_DEBUG"):
            raise
        explained = error if isinstance(error, LucidError) else storage_error(error) or missing_extra(error)
        explained = explained or missing_part(error, "This")
        if explained is not None:
            say(f"Error: {explained}")
        else:
            first_line = (str(error).strip().splitlines() or [""])[0]
            say(f"Error: {type(error).__name__}: {first_line} (unexpected: see `lucid --debug`)")
        raise SystemExit(REFUSED if isinstance(error, ReleaseRefusedError) else ERROR) from None
    raise SystemExit(code)


if __name__ == "__main__":
    main()
