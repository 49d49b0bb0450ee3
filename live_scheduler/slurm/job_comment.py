"""A job's comment: its user's own words, and behind them what this product writes there.

    fine-tuning, second try | lucid: starts 14:05 to 14:20

Where the user's words end is known from what was written down before ours was put behind them
(`overwritten.py`): a user may write anything, also what looks like ours, and gets it back as it was. The
spaces in ours, the one before the bar included, are no-break spaces (U+00A0): `scontrol` on standard input
splits its lines at plain ones, and keeps the quotes that would prevent it.

The mark of a profiled job (`cluster_logs.slurm_mark`) stands here too where AdminComment may not be written:
Slurm leaves that to adminlevel=Admin.
"""

from collections.abc import Callable
from dataclasses import dataclass

_SPACE = "\u00a0"
_SEPARATOR = f"{_SPACE}|{_SPACE}"
_ADVICE = f"lucid:{_SPACE}"


@dataclass(frozen=True, slots=True)
class JobComment:
    """The parts of a comment; `mark` is the text of a mark (`SlurmMark`), `advice` what people read."""

    words: str = ""
    mark: str = ""
    advice: str = ""

    @classmethod
    def parse(cls, text: str, words: str | None, is_mark: Callable[[str], bool]) -> "JobComment":
        """Return the parts of a comment.

        `words` stood there before ours was written behind them; None: nothing of ours was. A comment that
        does not begin so, or goes on otherwise than ours does, was written anew: it is its user's as a whole.
        """
        whole = cls(words=text)
        if words is None or text == words or not text.startswith(words):
            return whole
        rest = text[len(words) :]
        if words:
            if not rest.startswith(_SEPARATOR):
                return whole
            rest = rest.removeprefix(_SEPARATOR)
        mark = ""
        if not rest.startswith(_ADVICE):
            mark, _, rest = rest.partition(_SEPARATOR)
            if not is_mark(mark) or (rest and not rest.startswith(_ADVICE)):
                return whole
        return cls(words, mark, rest.removeprefix(_ADVICE).replace(_SPACE, " "))

    def to_text(self) -> str:
        """Return the comment as it is written."""
        advice = f"{_ADVICE}{_one_line(self.advice)}" if self.advice else ""
        return _SEPARATOR.join(part for part in (self.words, self.mark, advice) if part)


def _one_line(text: str) -> str:
    return _SPACE.join(text.split())
