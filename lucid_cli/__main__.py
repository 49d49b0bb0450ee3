"""Starts `lucid`, or says which extra it lacks: an installation of the light client has no command line."""

import sys

from foundation.extras import missing_extra


def main() -> None:
    """Run the program; without the command line's libraries one line on standard error and exit code 1."""
    try:
        from lucid_cli.main import main as run
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        sys.stderr.write(f"Error: {missing}\n")
        raise SystemExit(1) from None
    run()


if __name__ == "__main__":
    main()
