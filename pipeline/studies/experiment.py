"""An experiment as files that any worker may read and add to; no database, nothing pickled.

    URI/study.json, sweep.json   the plan: what is asked, and the digest that names it
    URI/inputs/                  what every evaluation replays, frozen
    URI/rounds/N.json            what round N asked for, chosen once
    URI/trials/, runs/, ...      one record an evaluation, written in one move when it is done

A record is known by its identity, a digest of all that the outcome depends on. So an experiment that was
interrupted goes on where it stopped, one that is enlarged computes what is new, and workers on any machines
may fill the same folder. An evaluation that fails leaves a record of status "failed" and is tried again when
the experiment is run again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from pipeline.studies.store import digest, read_json, write_json

FORMAT_VERSION = 1
OK, FAILED = "ok", "failed"

Record = Mapping[str, Any]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Experiment:
    """An experiment at `uri`. A subclass says what its files are called, and its words in errors."""

    uri: str

    kind: ClassVar[str]
    unit: ClassVar[str]  # what is evaluated
    records: ClassVar[str]  # the folder of records
    how_to_begin: ClassVar[str]
    items_argument: ClassVar[str]  # of the function that evaluates a task's share
    uri_argument: ClassVar[str] = "study_uri"
    plan_file: ClassVar[str] = "study.json"

    # -- the plan --------------------------------------------------------------------------------------------

    @classmethod
    def place(cls, plan: Mapping[str, Any], *, out_uri: str | None, folder_uri: str) -> tuple[str, str]:
        """Return where an experiment with this plan lies, and the plan's SHA-256.

        That is `out_uri`, by default below `folder_uri` by the digest. Raises BadInputError when another
        experiment lies there.
        """
        sha256 = digest(plan)
        uri = (out_uri or f"{folder_uri.rstrip('/')}/{sha256[:12]}").rstrip("/")
        stored = read_json(f"{uri}/{cls.plan_file}")
        if stored is not None and stored.get("sha256") != sha256:
            raise BadInputError(
                f"{uri} holds another {cls.kind} ({str(stored.get('sha256'))[:12]}): its log, what is asked "
                "or its seed differs.",
                remedy="Give another folder.",
            )
        return uri, sha256

    @classmethod
    def write_plan(cls, uri: str, plan: Mapping[str, Any]) -> None:
        """Store a plan."""
        write_json(f"{uri}/{cls.plan_file}", {"format_version": FORMAT_VERSION, **plan})

    @classmethod
    def read_plan(cls, uri: str) -> dict[str, Any]:
        """Read a stored plan. Raises NotFoundError when there is none, BadInputError for another format."""
        plan = read_json(f"{uri}/{cls.plan_file}")
        if plan is None:
            raise NotFoundError(f"There is no {cls.kind} at {uri}.", remedy=cls.how_to_begin)
        if plan["format_version"] != FORMAT_VERSION:
            raise BadInputError(
                f"The {cls.kind} at {uri} has format {plan['format_version']}, not {FORMAT_VERSION}.",
                remedy="Plan it again in a new folder.",
            )
        return plan

    @classmethod
    def load(cls, uri: str, read: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Self:
        """Return a stored experiment: fields of the plan as they stand, and those that `read` makes of it.

        Raises as `read_plan`.
        """
        uri = uri.rstrip("/")
        plan = cls.read_plan(uri)
        stored = {field.name: plan[field.name] for field in fields(cls) if field.name in plan}
        return cls(**{**stored, "uri": uri, "remarks": tuple(plan["remarks"]), **read(plan)})

    # -- rounds ----------------------------------------------------------------------------------------------

    def stored_rounds(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return what each round asked for, up to the first that was not asked for yet."""
        rounds: list[dict[str, Any]] = []
        while most is None or len(rounds) < most:
            stored = read_json(f"{self.uri}/rounds/{len(rounds)}.json")
            if stored is None:
                break
            rounds.append(stored)
        return rounds

    def stored_round(self, number: int, choose: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return what a round asks for, which `choose` says once.

        Raises BadInputError when a round before it was not asked for.
        """
        rounds = self.stored_rounds(number + 1)
        if number > len(rounds):
            raise BadInputError(
                f"Round {number} of {self.uri} cannot be asked for: there are {len(rounds)} before it.",
                remedy="Ask for the rounds in order.",
            )
        if number < len(rounds):
            return rounds[number]
        chosen_round = choose()
        write_json(f"{self.uri}/rounds/{number}.json", chosen_round)
        return chosen_round

    def check_evaluated(self, number: int, missing: int) -> None:
        """Raise BadInputError when evaluations that a round goes by are missing."""
        if missing:
            raise BadInputError(
                f"Round {number} of {self.uri} cannot be asked for: {missing} {self.unit}s of earlier rounds "
                "have no result.",
                remedy="Evaluate them first.",
            )

    # -- records ---------------------------------------------------------------------------------------------

    def record_uri(self, identity: str) -> str:
        """Return where a record lies, once it is there."""
        return f"{self.uri}/{self.records}/{identity}.json"

    def record(self, identity: str) -> dict[str, Any] | None:
        """Return a record; None when there is none of this format yet."""
        record = read_json(self.record_uri(identity))
        foreign = record is not None and record.get("format_version", FORMAT_VERSION) != FORMAT_VERSION
        return None if foreign else record

    def is_done(self, identity: str) -> bool:
        """Whether there is a good record."""
        record = self.record(identity)
        return record is not None and record.get("status", OK) == OK

    def evaluate(
        self,
        identities: Sequence[str],
        evaluations: Mapping[str, Item],
        run: Callable[[str, Item], Record],
        *,
        label: Callable[[Item], str],
        progress: Progress = silent,
    ) -> list[Record]:
        """Run these evaluations, one after another, store each record, and return the new ones.

        What has a good record is not run again. Raises BadInputError for an identity that is not among the
        experiment's `evaluations`.
        """
        records = []
        for position, identity in enumerate(identities):
            if identity not in evaluations:
                raise BadInputError(
                    f"The {self.kind} at {self.uri} has no {self.unit} {identity!r}.",
                    remedy="Plan it again, or ask for its round first.",
                )
            evaluation = evaluations[identity]
            progress(position, len(identities), label(evaluation))
            if not self.is_done(identity):
                record = run(identity, evaluation)
                write_json(self.record_uri(identity), record)
                records.append(record)
        return records

    # -- tasks -----------------------------------------------------------------------------------------------

    def tasks(self, items: Iterable[Any], size: int) -> list[dict[str, Any]]:
        """Divide what is to be evaluated among tasks of `size`: the arguments of each.

        With nothing to do there is one task without any: what is mapped over nothing would skip the rest.
        """
        remaining, step = list(items), max(1, size)
        chunks = [remaining[i : i + step] for i in range(0, len(remaining), step)]
        return [{self.uri_argument: self.uri, self.items_argument: chunk} for chunk in chunks or [[]]]
