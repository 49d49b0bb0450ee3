"""Text of users on a terminal: what would steer the terminal is shown instead of obeyed.

Names and comments of jobs may hold escape sequences (colours, titles, a screen wiped), carriage returns that
overwrite a line, and marks that turn the order of characters round. JSON needs none of this: it is escaped.
"""

import logging
import re

# Controls but tab and line feed, C1 controls, line separators, marks of direction, halves of surrogate pairs.
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def on_screen(text: str) -> str:
    r"""Return text with what would steer a terminal as its code, such as \x1b."""
    return _STEERS.sub(_code, text)


def _code(found: "re.Match[str]") -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class ScreenFormatter(logging.Formatter):
    """Formats log records for a terminal or a log that is read on one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as `on_screen` text."""
        return on_screen(super().format(record))
