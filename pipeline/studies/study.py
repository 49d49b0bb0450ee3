"""A study: questions, each answered by a replay, as files that any worker may read and add to.

    URI/study.json, sweep.json   the plan: what is asked, and the digest that names it
    URI/inputs/                  what every evaluation replays, frozen
    URI/rounds/N.json            what round N asked for, chosen once
    URI/trials/, runs/, ...      one record an evaluation, written in one move when it is done

No database, nothing pickled. A record is known by its identity, a digest of all that the outcome depends on.
So a study that was interrupted goes on where it stopped, one that is enlarged computes what is new, and
workers on any machines may fill the same folder. An evaluation that fails leaves a record of status "failed"
and is tried again when the study is run again.

Tuning, Pareto searches, sweeps, what-ifs and capacity plans are studies: each says what it asks for, how one
evaluation is run, and what is made of the records. The loop is here: on this machine (`run_stages`), and
over the tasks of a DAG (`ask` and `evaluate`, which the steps of `pipeline.steps.studies` call).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, Work, silent
from foundation.worker_processes import WorkerLostError, WorkerPool
from pipeline.studies.store import digest, read_json, write_json

FORMAT_VERSION = 1
OK, FAILED = "ok", "failed"
ROUND = "round"  # the stage of numbered rounds

Record = Mapping[str, Any]
Item = TypeVar("Item")
Stage = tuple[str, Callable[[], Sequence[str]]]  # its name, and what asks for its evaluations


@dataclass(frozen=True)
class StoredStudy(ABC, Generic[Item]):
    """A study at `uri`; each of its evaluations is of an `Item`.

    A subclass says what its files are called, its words in errors, and what is abstract here.
    `opening_rounds` are asked for beside the rounds that a person names.
    """

    uri: str

    kind: ClassVar[str]
    unit: ClassVar[str]  # what is evaluated
    records: ClassVar[str]  # the folder of records
    how_to_begin: ClassVar[str]
    plan_file: ClassVar[str] = "study.json"
    opening_rounds: ClassVar[int] = 0

    # -- what a subclass says --------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read_fields(cls, uri: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields that a stored plan does not hold as they stand."""

    @abstractmethod
    def item(self, identity: str) -> Item | None:
        """Return what is evaluated under an identity; None: the study asked for nothing of that name."""

    @abstractmethod
    def run(self, identity: str, item: Item, progress: Progress = silent) -> Record:
        """Evaluate and return the record; a replay that fails is a record that says so.

        A service that does not answer is no result: ServiceUnavailableError is raised.
        """

    @abstractmethod
    def label(self, item: Item) -> str:
        """Name an evaluation for people."""

    def asked_in(self, stage: str, number: int) -> Sequence[str]:
        """Return the identities that a stage asks for: those of a round are chosen once."""
        raise NotImplementedError

    # -- the plan --------------------------------------------------------------------------------------------

    @classmethod
    def place(cls, plan: Mapping[str, Any], *, out_uri: str | None, folder_uri: str) -> tuple[str, str]:
        """Return where a study with this plan lies, and the plan's SHA-256.

        That is `out_uri`, by default below `folder_uri` by the digest. Raises BadInputError when another
        study lies there.
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
    def load(cls, uri: str) -> Self:
        """Read a stored study. Raises NotFoundError when there is none, BadInputError for another format."""
        uri = uri.rstrip("/")
        plan = read_json(f"{uri}/{cls.plan_file}")
        if plan is None:
            raise NotFoundError(f"There is no {cls.kind} at {uri}.", remedy=cls.how_to_begin)
        if plan["format_version"] != FORMAT_VERSION:
            raise BadInputError(
                f"The {cls.kind} at {uri} has format {plan['format_version']}, not {FORMAT_VERSION}.",
                remedy="Plan it again in a new folder.",
            )
        stored = {field.name: plan[field.name] for field in fields(cls) if field.name in plan}
        read = cls.read_fields(uri, plan)
        return cls(**{**stored, "uri": uri, "remarks": tuple(plan["remarks"]), **read})

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

    def ask(self, stage: str = ROUND, number: int = 0) -> list[str]:
        """Return the identities of what a stage asks for and of which there is no good record.

        Raises BadInputError when a round before it was not asked for or evaluated.
        """
        return [identity for identity in self.asked_in(stage, number) if not self.is_done(identity)]

    def tasks(self, identities: Iterable[str], size: int) -> list[dict[str, Any]]:
        """Divide evaluations among tasks of `size`: the arguments of `pipeline.steps.studies:evaluate`.

        With nothing to do there is one task without any: what is mapped over nothing would skip the rest.
        """
        remaining, step = list(identities), max(1, size)
        chunks = [remaining[i : i + step] for i in range(0, len(remaining), step)]
        study = f"{type(self).__module__}:{type(self).__qualname__}"
        return [{"study": study, "study_uri": self.uri, "identities": chunk} for chunk in chunks or [[]]]

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

    def keep(self, identity: str, record: Record) -> None:
        """Store a record in one move."""
        write_json(self.record_uri(identity), record)

    def answer(self, identity: str, item: Item, progress: Progress = silent) -> Record:
        """Evaluate, whether there is a record or not; store the record and return it."""
        record = self.run(identity, item, progress)
        self.keep(identity, record)
        return record

    def evaluate(self, identities: Sequence[str], progress: Progress = silent) -> list[Record]:
        """Run these evaluations, one after another, store each record, and return the new ones.

        What has a good record is not run again. Raises BadInputError for an identity that the study did not
        ask for.
        """
        records = []
        for position, identity in enumerate(identities):
            item = self.item(identity)
            if item is None:
                raise BadInputError(
                    f"The {self.kind} at {self.uri} has no {self.unit} {identity!r}.",
                    remedy="Plan it again, or ask for its round first.",
                )
            progress(position, len(identities), self.label(item))
            if not self.is_done(identity):
                records.append(self.answer(identity, item))
        return records


def answer_one(study: StoredStudy[Item], asked: tuple[str, Item], progress: Progress) -> Record:
    """Evaluate an identity with its item, whatever is stored: what processes of a `WorkerPool` do."""
    return study.answer(*asked, progress)


def run_stages(
    study: StoredStudy[Any],
    stages: Iterable[Stage],
    *,
    workers: int = 1,
    progress: Progress = silent,
    after_stage: Callable[[], object] | None = None,
) -> int:
    """Run a study on this machine: ask for each stage's evaluations once those before are done.

    The evaluations of a stage are divided among `workers` processes; what is known is not run again. Returns
    how many were run in all.
    """
    executed = 0
    with WorkerPool(partial(_evaluate_one, study), workers) as pool:
        for name, ask in stages:
            identities, work = ask(), Work(name, f"{study.unit}s")
            try:
                for done, (_, ran) in enumerate(pool.results(identities), start=1):
                    progress(done, len(identities), work)
                    executed += ran
            except WorkerLostError as error:
                error.advise("Run it again: what is finished is kept.")
                raise
            if after_stage is not None:
                after_stage()
    return executed


def _evaluate_one(study: StoredStudy[Any], identity: str, progress: Progress) -> int:
    return len(study.evaluate([identity]))
