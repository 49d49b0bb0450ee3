"""`make demo`: the stack up, a log in, the whole chain of DAGs followed to a published release.

With LUCID_REFERENCE_DATA the log is Philly's, with Venus' throughput and profiles measured on RTX 3090;
without, a synthetic cluster and the simulated GPU. Exit code 0 only when the release is published, 2 when
the gate refused it.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from foundation.errors import LucidError, NotFoundError, ServiceUnavailableError
from foundation.exit_codes import ERROR, REFUSED, CommandLine
from foundation.screen_text import on_screen
from local_stack.airflow_client import AirflowClient
from local_stack.stack import add_stack_options, config_from, connect, login_lines, say, up
from local_stack.stack_config import StackConfig, log_in, running_stack

CHAIN = ("ingest_logs", "retrain_models", "validate_release", "publish_release")
OVER = ("success", "failed")
POLL_S = 2.0
# After a DAG has handed over, the scheduler makes the next run within seconds.
HANDOVER_TIMEOUT_S = 90.0
TASK_STATES = ("running", "success", "failed", "skipped", "up_for_retry", "upstream_failed", "awaiting_input")

Tell = Callable[[str], None]


@dataclass
class ChainOutcome:
    """How the chain ended: the run of each DAG, the states of its tasks."""

    runs: dict[str, str] = field(default_factory=dict)
    tasks: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def published(self) -> bool:
        """Whether the last task of the chain did its work."""
        return self.tasks.get(("publish_release", "publish_release")) == "success"


# The end of Philly's most loaded week: of all weeks that end at midnight (UTC) and have four weeks of log
# before them to learn from, the one in which queuing is the largest share of the completion time when the
# whole log is replayed first in, first out. That is all that an order of the queue can change, and what the
# gate asks of a window.
PHILLY_AS_OF = "2017-12-13"


def demo_parameters(reference: str | None, days: int, hold_out_days: int) -> dict[str, Any]:
    """Return the parameters of `ingest_logs`: Philly's log with reference data, else a synthetic cluster.

    Raises NotFoundError when a file of the reference data is missing.
    """
    if not reference:
        return {
            "source_format": "synthetic:helios-venus",
            "cluster": "synthetic-venus",
            "days": days,
            "hold_out_days": hold_out_days,
        }
    root = Path(reference).absolute()
    data = root / "data" if (root / "data").is_dir() else root
    files = {
        "input_uri": data / "philly" / "philly_jobs.csv.gz",
        "nodes_uri": data / "philly" / "philly_vc_nodes.csv",
        "throughput_uri": data / "venus" / "cluster_throughput.csv.gz",
        "singles_uri": data / "packing" / "single_jobs_rtx3090.csv",
        "pairs_uri": data / "packing" / "colocated_pairs_rtx3090.csv",
    }
    for file in files.values():
        if not file.is_file():
            raise NotFoundError(
                f"LUCID_REFERENCE_DATA={reference} holds no {file.relative_to(data)}.",
                remedy="Unset it for the synthetic cluster.",
            )
    return {
        "source_format": "philly-csv",
        "cluster": "philly",
        "throughput_cluster": "venus",
        "hold_out_days": hold_out_days,
        "as_of": PHILLY_AS_OF,
        **{name: str(file) for name, file in files.items()},
    }


def follow_chain(
    airflow: AirflowClient, run_id: str, *, tell: Tell = say, timeout_s: float = 3600.0
) -> ChainOutcome:
    """Follow a run of `ingest_logs` and the runs that its assets start, one line a task's change of state.

    Raises ServiceUnavailableError when a run fails (with the failed task's last lines), when a DAG hands over
    to no run, or when time is up.
    """
    outcome = ChainOutcome(runs={CHAIN[0]: run_id})
    started_s = last_change_s = time.monotonic()
    finished: set[str] = set()
    while True:
        for dag_id in [dag_id for dag_id in outcome.runs if dag_id not in finished]:
            if _follow_run(airflow, dag_id, outcome, started_s, tell):
                finished.add(dag_id)
                last_change_s = time.monotonic()
        if CHAIN[-1] in finished:
            return outcome
        following = CHAIN[len(outcome.runs)] if len(outcome.runs) < len(CHAIN) else None
        if following is not None:
            next_run = _run_caused_by(airflow, following, outcome)
            if next_run:
                outcome.runs[following] = next_run
                last_change_s = time.monotonic()
            elif len(finished) == len(outcome.runs) and time.monotonic() - last_change_s > HANDOVER_TIMEOUT_S:
                raise ServiceUnavailableError(
                    f"{CHAIN[len(outcome.runs) - 1]} is done, but {following} has not started.",
                    remedy="Is it paused? Look at the asset graph in the Airflow UI.",
                )
        if time.monotonic() - started_s > timeout_s:
            raise ServiceUnavailableError(
                f"The chain was not done after {timeout_s:.0f} s.",
                remedy="Look at the runs in the Airflow UI.",
            )
        time.sleep(POLL_S)


def _follow_run(
    airflow: AirflowClient, dag_id: str, outcome: ChainOutcome, started_s: float, tell: Tell
) -> bool:
    """Tell what changed in one run; say whether it is over."""
    run_id = outcome.runs[dag_id]
    state = airflow.run(dag_id, run_id)["state"]
    tasks = airflow.tasks(dag_id, run_id)
    for task in sorted(tasks, key=lambda task: (task["end_date"] or "9", task["start_date"] or "9")):
        key, task_state = (dag_id, task["task_id"]), task["state"]
        if task_state in TASK_STATES and outcome.tasks.get(key) != task_state:
            outcome.tasks[key] = task_state
            took_s = task["duration"] if task_state in OVER else None
            tell(progress_line(time.monotonic() - started_s, dag_id, task["task_id"], task_state, took_s))
            if task_state == "awaiting_input":
                tell("         waits for a person: answer under Required Actions in the Airflow UI")
    if state == "failed":
        failed = [task for task in tasks if task["state"] == "failed"]
        lines = [
            line
            for task in failed[:1]
            for line in airflow.log_tail(dag_id, run_id, task["task_id"], task["try_number"])
        ]
        for line in lines:
            tell(f"    {on_screen(line)}")
        names = ", ".join(task["task_id"] for task in failed) or "no task (the run timed out)"
        raise ServiceUnavailableError(
            f"{dag_id} failed: {names}.", remedy="Its log is above and in the Airflow UI."
        )
    return state in OVER


def progress_line(
    elapsed_s: float, dag_id: str, task_id: str, state: str, took_s: float | None = None
) -> str:
    """Say that a task changed its state, and how long it took."""
    took = f"{took_s:.1f} s" if took_s else ""
    return f"[{elapsed_s:4.0f} s] {dag_id:17} {task_id:20} {state:15} {took}".rstrip()


def _run_caused_by(airflow: AirflowClient, dag_id: str, outcome: ChainOutcome) -> str | None:
    """Return the run of `dag_id` that this chain's asset events started, or None when there is none yet."""
    ours = set(outcome.runs.items())
    for run in airflow.runs(dag_id)[:10]:
        # Airflow cannot tell the causes of a run that has not started.
        if run["state"] != "queued" and airflow.causes(dag_id, run["dag_run_id"]) & ours:
            return str(run["dag_run_id"])
    return None


def print_outcome(account: Mapping[str, Any], verdict: Mapping[str, Any], champion: str | None) -> None:
    """Print what became of the rows, the verdict with its tables, and where the champion is.

    `account` and `verdict`: what the tasks `ingest_jobs` and `validate_release` returned.
    """
    from lucid_cli.output import print_facts
    from lucid_cli.verdict_output import print_verdict_tables

    counts = ("rows_in", "rows_kept", "rows_quarantined", "rows_skipped", "reasons")
    print_facts({name: account.get(name) for name in counts}, title=f"Rows of {account.get('cluster')}")
    print_verdict_tables(verdict)
    print(f"Verdict on release {verdict.get('version')}. {verdict.get('sentence')}")
    if champion:
        print(f"Champion: {champion}")


def _champion(config: StackConfig, cluster: str) -> str:
    """The release that is live, and its page in MLflow."""
    from lucid_models.releases.lifecycle import show_release

    champion = show_release(tracking_uri=config.mlflow_url, cluster=cluster)
    return f"{champion.name} version {champion.version}, {config.mlflow_url}/#/models/{champion.name}"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; leave the stack up."""
    parser = CommandLine(prog="python -m lucid_cli.demo", description=__doc__)
    add_stack_options(parser)
    parser.add_argument(
        "--synthetic", action="store_true", help="the synthetic cluster even with reference data"
    )
    parser.add_argument("--days", type=int, default=30, help="days of the synthetic log (default 30)")
    parser.add_argument("--hold-out-days", type=int, default=7, help="days that the gate replays (default 7)")
    parser.add_argument(
        "--timeout-s", type=float, default=3600.0, help="give up after this long (default 3600)"
    )
    arguments = parser.parse_args(argv)
    try:
        reference = None if arguments.synthetic else os.environ.get("LUCID_REFERENCE_DATA")
        parameters = demo_parameters(reference, arguments.days, arguments.hold_out_days)
        config = config_from(arguments)
        running = running_stack(config.state_dir)
        if running is not None:  # its ports; that a person must approve is asked for, or refused by `up`
            config = replace(running, require_approval=running.require_approval or config.require_approval)
        up(config)
        log_in(config)
        with connect(config) as airflow:
            say(f"ingest_logs of {parameters['source_format']} as cluster {parameters['cluster']!r}")
            run_id = airflow.trigger(CHAIN[0], parameters)
            outcome = follow_chain(airflow, run_id, timeout_s=arguments.timeout_s)
            account = airflow.xcom(CHAIN[0], run_id, "ingest_jobs") or {}
            verdict = airflow.xcom("validate_release", outcome.runs["validate_release"], "validate_release")
        champion = _champion(config, account["cluster"]) if outcome.published else None
        print_outcome(account, verdict or {}, champion)
    except LucidError as error:
        print(f"error: {on_screen(str(error))}", file=sys.stderr)
        return ERROR
    for line in login_lines(config):
        print(line)
    if not outcome.published:
        print(
            "The release is not published; its verdict, or the person that was asked, says why.",
            file=sys.stderr,
        )
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
