"""A job's comment: its user's own words, and behind them what this product writes there.

    fine-tuning, second try | lucid: starts 14:05 to 14:20

Ours begins at a marker that nobody types by chance, so it can be replaced and taken away again, and the
user's words stay as they were. The spaces in ours, the one before the marker's bar included, are no-break
spaces (U+00A0): `scontrol` on standard input splits its lines at plain ones, and keeps the quotes that would
prevent it.

The mark of a profiled job (`cluster_logs.slurm_mark`) stands here too where AdminComment may not be written:
Slurm leaves that to adminlevel=Admin. So does the nice value of a job that was given a priority: Slurm sets
it to 0 then, and the job is to have it back.
"""

import re
from dataclasses import dataclass

from cluster_logs.slurm_mark import read_mark

_SPACE = "\u00a0"
_SEPARATOR = f"{_SPACE}|{_SPACE}"
_OURS = re.compile(rf"(?:^|{re.escape(_SEPARATOR)})(lucid:(?:{_SPACE}|home=|nice=).*)", re.DOTALL)
_ADVICE = f"lucid:{_SPACE}"
_NICE = re.compile(r"lucid:nice=(-?\d+)")


@dataclass(frozen=True, slots=True)
class JobComment:
    """The parts of a comment; `mark` is the text of a mark (`SlurmMark`), `advice` what people read.

    `nice` is what the job is to have again, 0: nothing.
    """

    words: str = ""
    mark: str = ""
    advice: str = ""
    nice: int = 0

    @classmethod
    def parse(cls, text: str) -> "JobComment":
        """Return the parts of a comment; one that this product never touched is its user's as a whole."""
        found = _OURS.search(text)
        if found is None:
            return cls(words=text)
        mark, advice, nice = "", "", 0
        for part in found[1].split(_SEPARATOR):
            if part.startswith(_ADVICE):
                advice = part.removeprefix(_ADVICE).replace(_SPACE, " ")
            elif (number := _NICE.fullmatch(part)) is not None:
                nice = int(number[1])
            elif read_mark(part) is not None:
                mark = part
        return cls(text[: found.start()], mark, advice, nice)

    def to_text(self) -> str:
        """Return the comment as it is written."""
        nice = f"lucid:nice={self.nice}" if self.nice else ""
        ours = [self.mark, nice, f"{_ADVICE}{_one_line(self.advice)}" if self.advice else ""]
        return _SEPARATOR.join(part for part in (self.words, *ours) if part)


def _one_line(text: str) -> str:
    return _SPACE.join(text.split())
