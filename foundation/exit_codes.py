"""What the programs say by their exit codes (0: done), each meaning one thing in all of them."""

import argparse
import sys
from typing import NoReturn

ERROR = 1  # it could not be done, and why not; also a command line that cannot be read
REFUSED = 2  # the gate, or the check of a release, says no
NOT_REACHED = 3  # it was looked at, and is not so: measurements differ, an order is not back, no stack runs
INTERRUPTED = 130


class CommandLine(argparse.ArgumentParser):
    """Reads the words of a program beside `lucid`; words that cannot be read end it with ERROR."""

    def error(self, message: str) -> NoReturn:
        """Say how the program is used and what is wrong; argparse's own exit code is that of a refusal."""
        self.print_usage(sys.stderr)
        self.exit(ERROR, f"{self.prog}: error: {message}\n")
