"""`lucid live loans`: which inference nodes are on loan and why, or which ought to be."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError
from foundation.human_times import moment_here
from foundation.strict_json import StrictJsonError
from lucid_cli.live_asking import asking
from lucid_cli.options import existing_file
from lucid_cli.output import JsonFlag, print_lines, print_table, show

if TYPE_CHECKING:
    from live_scheduler.service.asking import ServiceCaller
    from parts.lending.live.loan_messages import LoanQuery, LoanStatus

_MOST_BYTES = 64 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(loans)


@asking
def loans(
    caller: "ServiceCaller",
    state_of: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A state as JSON (a LoanQuery); default: the cluster's own.",
            callback=existing_file,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say which nodes of inference are on loan to training jobs, and why.

    With a FILE: which of the servers in it to lend and which to take back, in which order, which jobs that
    preempts, and why, by the release's rules; nothing is changed or remembered.
    """
    if state_of is not None:
        from parts.lending.live.loan_messages import LoanAnswer

        answer = caller.ask_part("/v1/loans", _query(state_of), LoanAnswer)
        show(answer.model_dump(mode="json"), as_json=as_json, people=lambda: print_lines(answer.sentences))
        return
    status = caller.status()
    now: LoanStatus | None = status.of_part("loans")
    if now is None:
        raise NotFoundError(
            f"The live scheduler of {status.cluster} lends no nodes.",
            remedy="Add the table [loans] to its settings, or give a FILE with a state.",
        )
    show(now.model_dump(mode="json"), as_json=as_json, people=lambda: _print_loans(now))


def _query(path: Path) -> "LoanQuery":
    from pydantic import ValidationError

    from foundation.outside_names import read_regular
    from live_scheduler.service.problems import invalid
    from parts.lending.live.loan_messages import LoanQuery

    content = read_regular(path, _MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BadInputError(f"{path} holds more than {_MOST_BYTES:,} bytes.", remedy="Give fewer servers.")
    try:
        strict_json.loads(content)
        return LoanQuery.model_validate_json(content)
    except StrictJsonError as error:
        raise BadInputError(f"{path} is not JSON that can be read: {error}.") from None
    except ValidationError as error:
        raise invalid(str(path), error) from None


def _print_loans(seen: "LoanStatus") -> None:
    from parts.lending.live.live import LIVE

    print_lines([f"{seen.lender} to {seen.borrower}, {LIVE.in_words(seen)}", f"Rule: {seen.rule}"])
    print_lines(seen.reasons)
    if seen.on_loan:
        print_table(
            [
                {
                    "node": each.node,
                    "since": moment_here(each.since_s),
                    "jobs": ", ".join(each.jobs[:10]) or "none",
                    "state": "going back" if each.returning else "on loan",
                    "why": each.why,
                }
                for each in seen.on_loan
            ]
        )
