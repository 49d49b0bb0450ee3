"""Why a row was refused or skipped, by name, and the account that every ingest must balance.

    rows in = rows kept + rows quarantined + rows skipped by a named rule

A row of a file is a line that holds data: headers, comments and blank lines are none.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from foundation.errors import LucidError

# Reasons for quarantine: the row says something that cannot be true or cannot be read. Someone should look
# at it.
WRONG_COLUMN_COUNT = "wrong_column_count"
UNBALANCED_QUOTES = "unbalanced_quotes"
NON_UTF8_TEXT = "non_utf8_text"
NOT_A_JOB = "not_a_job"
UNREADABLE_NUMBER = "unreadable_number"
UNREADABLE_VALUE = "unreadable_value"
UNREADABLE_TIME = "unreadable_time"
IMPLAUSIBLE_TIME = "implausible_time"
MISSING_JOB_ID = "missing_job_id"
MISSING_VIRTUAL_CLUSTER = "missing_virtual_cluster"
MISSING_SUBMIT_TIME = "missing_submit_time"
MISSING_GPUS = "missing_gpus"
NEGATIVE_GPUS = "negative_gpus"
FRACTIONAL_GPUS = "fractional_gpus"
IMPLAUSIBLE_GPUS = "implausible_gpus"
IMPLAUSIBLE_GPU_SHARE = "implausible_gpu_share"
NEGATIVE_COUNT = "negative_count"
IMPLAUSIBLE_COUNT = "implausible_count"
MISSING_COUNT = "missing_count"
MISSING_NODE = "missing_node"
UNKNOWN_STATE = "unknown_state"
MISSING_DURATION = "missing_duration"
MISSING_MODEL = "missing_model"
NEGATIVE_DURATION = "negative_duration"
IMPLAUSIBLE_DURATION = "implausible_duration"
START_BEFORE_SUBMIT = "start_before_submit"
END_BEFORE_START = "end_before_start"
END_BEFORE_SUBMIT = "end_before_submit"
NO_WORKER = "no_worker"
FEWER_WORKERS_THAN_LEAST = "fewer_workers_than_least"
GPUS_OF_OTHER_WORKERS = "gpus_of_other_workers"
UNREADABLE_FLAG = "unreadable_flag"
IMPLAUSIBLE_DRAW = "implausible_draw"
DUPLICATE_CONFLICT = "duplicate_conflict"
PARTIAL_NODE = "partial_node"
MISSING_TIME = "missing_time"
MORE_NODES_THAN_TOTAL = "more_nodes_than_total"
UNREADABLE_LINE = "unreadable_line"
MISSING_GPU_UUID = "missing_gpu_uuid"
UNREADABLE_GPU_UUID = "unreadable_gpu_uuid"
UNKNOWN_GPU_INDEX = "unknown_gpu_index"
IMPLAUSIBLE_METRIC = "implausible_metric"
MISSING_USAGE = "missing_usage"
IMPLAUSIBLE_USAGE = "implausible_usage"

REASONS: Mapping[str, str] = {
    WRONG_COLUMN_COUNT: "The row has more or fewer columns than the header: a value may hold what separates "
    "them, or a line end.",
    UNBALANCED_QUOTES: "The row opens a quotation mark that it does not close.",
    NON_UTF8_TEXT: "The row holds bytes that are not UTF-8 text.",
    NOT_A_JOB: "The element is not an object with the fields of a job.",
    UNREADABLE_NUMBER: "A number was expected.",
    UNREADABLE_VALUE: "The value is none that the format knows.",
    UNREADABLE_TIME: "A time was expected, as YYYY-MM-DD HH:MM:SS with an optional zone (or, in formats that "
    "say so, as seconds).",
    IMPLAUSIBLE_TIME: "The time lies before 1970 or after 2099.",
    MISSING_JOB_ID: "The job has no id.",
    MISSING_VIRTUAL_CLUSTER: "The job belongs to no virtual cluster.",
    MISSING_SUBMIT_TIME: "The source does not say when the job was submitted.",
    MISSING_GPUS: "The source does not say how many GPUs the job asked for.",
    NEGATIVE_GPUS: "The job asks for fewer than zero GPUs.",
    FRACTIONAL_GPUS: "The number of GPUs is not whole.",
    IMPLAUSIBLE_GPUS: "The job asks for more than a million GPUs.",
    IMPLAUSIBLE_GPU_SHARE: "The share of a GPU is not in (0, 1].",
    NEGATIVE_COUNT: "A count is below zero.",
    IMPLAUSIBLE_COUNT: "A count is above a thousand million.",
    MISSING_COUNT: "A count is not there.",
    MISSING_NODE: "The node has no name.",
    UNKNOWN_STATE: "The state is none that the format knows.",
    MISSING_DURATION: "The source does not say how long the job ran or was expected to run.",
    MISSING_MODEL: "The source does not say which model the job trains, so it is unknown how it scales.",
    NEGATIVE_DURATION: "A run time is below zero.",
    IMPLAUSIBLE_DURATION: "A run time is above a hundred years.",
    START_BEFORE_SUBMIT: "The job started before it was submitted.",
    END_BEFORE_START: "The job ended before it started.",
    END_BEFORE_SUBMIT: "The job ended before it was submitted.",
    NO_WORKER: "The job has less than one worker, or workers without a GPU.",
    FEWER_WORKERS_THAN_LEAST: "The job can use fewer workers than it needs.",
    GPUS_OF_OTHER_WORKERS: "The job's GPUs are not those of the least workers that it runs on.",
    UNREADABLE_FLAG: "A flag is neither 0 nor 1.",
    IMPLAUSIBLE_DRAW: "A draw lies outside of 0 to 1 (an error: of -1 to 1).",
    DUPLICATE_CONFLICT: "An earlier row has the same job id and submission time and says something else.",
    PARTIAL_NODE: "The virtual cluster's GPUs do not fill whole nodes.",
    MISSING_TIME: "The source does not say when this was counted.",
    MORE_NODES_THAN_TOTAL: "More nodes are in some state than there are in all.",
    UNREADABLE_LINE: "The line is no sample of the text format: NAME{labels} VALUE [TIME].",
    MISSING_GPU_UUID: "The sample does not say which GPU it is of.",
    UNREADABLE_GPU_UUID: "The GPU's UUID is not one that the driver gives (GPU-...).",
    UNKNOWN_GPU_INDEX: "The map of GPUs does not name this node's GPU of this index.",
    IMPLAUSIBLE_METRIC: "The value lies outside of what the metric can be.",
    MISSING_USAGE: "The source says neither how much of the servers is used nor that this was not measured.",
    IMPLAUSIBLE_USAGE: "A usage is not within 0 and 1, or a rate of requests not within 0 and 1e12.",
}

# Rules for skipping: the row is fine, and another row (or another ingest) holds the same.
BESIDE_TABLE = "beside_table"
STEP_ROW = "step_row"
OTHER_CLUSTER = "other_cluster"
PARTIAL_EXECUTION = "partial_execution"
PROFILING_RUN = "profiling_run"
RESIZED = "resized"
EXACT_DUPLICATE = "exact_duplicate"
OUTSIDE_WINDOW = "outside_window"
SUPERSEDED = "superseded"
MIG_INSTANCE = "mig_instance"
NO_VALUE = "no_value"
OTHER_METRIC = "other_metric"
NO_GPU = "no_gpu"
NOT_STARTED = "not_started"
NO_END = "no_end"
UNKNOWN_NODES = "unknown_nodes"

SKIP_RULES: Mapping[str, str] = {
    BESIDE_TABLE: "A line above the header (a warning, say), or the header once more.",
    STEP_ROW: "A step of a job (.batch, .extern, .0): the job has a row of its own.",
    OTHER_CLUSTER: "A job of another cluster of the same accounting database.",
    PARTIAL_EXECUTION: "One of several partial runs of a job (SWF status 2, 3, 4); it has a summary row.",
    PROFILING_RUN: "A run on the profiling partition that the scheduler cut; the job ran again at home.",
    RESIZED: "A record of a job at a size that was changed while it ran: its last record stands for the job.",
    EXACT_DUPLICATE: "An earlier row of the same file says exactly the same.",
    OUTSIDE_WINDOW: "The job was submitted outside the window that was asked for.",
    SUPERSEDED: "Another row of the same file knows that the job has ended; this one shows it unfinished.",
    MIG_INSTANCE: "A sample of a part of a GPU: its utilisation says nothing of a whole one.",
    NO_VALUE: "The exporter had no value at that time (NaN, or DCGM's blank).",
    OTHER_METRIC: "A metric that is not read.",
    NO_GPU: "The job holds no GPU.",
    NOT_STARTED: "The job has not started, or the source does not say when.",
    NO_END: "The source does not say when the job, which no longer runs, ended.",
    UNKNOWN_NODES: "The lake does not know the nodes of the job's virtual cluster.",
}


# What is kept of a refused row as evidence, in bytes of UTF-8: together at most 4 KiB.
MAX_RAW_BYTES, MAX_VALUE_BYTES = 3_584, 512


def cut_evidence(text: str | bytes, most: int = MAX_RAW_BYTES) -> str:
    """A text as evidence: as it is when it has at most `most` bytes, else its beginning, marked as cut.

    Bytes that are not UTF-8 are shown as escapes. What was cut stays as it is when it is cut again.
    """
    data = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
    shown = data[: most + 1].decode(errors="backslashreplace")
    if len(data) <= most and len(shown.encode()) <= most:
        return shown
    mark = f"... [cut: {len(data):,} bytes]"
    return shown.encode()[: most - len(mark)].decode(errors="ignore") + mark


# The most rows of a log that may be bad, unless set otherwise (`cluster_logs.ingest_account`).
MAX_BAD_SHARE = 0.5

# What was noticed about rows that are kept: nothing was left out for it.
UNVERIFIED_MARK = "unverified_mark"
SHARED_BY_MPS = "shared_by_mps"
SHARED_BY_SHARD = "shared_by_shard"
SLICED_BY_MIG = "sliced_by_mig"

NOTES: Mapping[str, str] = {
    UNVERIFIED_MARK: "The job's comment holds what looks like a mark of the live scheduler and was not sealed"
    " with the given key (--mark-key): the log's own partition and submission count.",
    SHARED_BY_MPS: "The job shares GPUs by MPS (gres/mps): a whole GPU of each of its nodes is counted.",
    SHARED_BY_SHARD: "The job shares GPUs (gres/shard): a whole GPU of each of its nodes is counted.",
    SLICED_BY_MIG: "The job holds slices of GPUs (MIG): the whole GPUs that they make up are counted.",
}


@dataclass
class Accounting:
    """Where the rows of one input went."""

    rows_in: int = 0
    kept: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)  # rows that are counted above, too
    unknown_values: Counter[str] = field(default_factory=Counter)  # by optional fact, of rows that are kept

    def reasons(self) -> dict[str, int]:
        """Count by reason and rule, by name."""
        return dict(sorted((self.quarantined + self.skipped).items()))

    def add(self, more: "Accounting") -> None:
        """Count the rows of another input, too."""
        self.rows_in += more.rows_in
        self.kept += more.kept
        self.quarantined += more.quarantined
        self.skipped += more.skipped
        self.noted += more.noted
        self.unknown_values += more.unknown_values

    def totals(self) -> dict[str, int]:
        """The account as reports have it: rows_in, rows_kept, rows_quarantined, rows_skipped."""
        return {
            "rows_in": self.rows_in,
            "rows_kept": self.kept,
            "rows_quarantined": self.quarantined.total(),
            "rows_skipped": self.skipped.total(),
        }

    def check(self, what: str) -> None:
        """Raise LucidError when the account of `what` does not balance: a row was lost or counted twice."""
        out = self.kept + self.quarantined.total() + self.skipped.total()
        if self.rows_in != out:
            raise LucidError(
                f"{what}: {self.rows_in} rows went in, but {self.kept} kept + {self.quarantined.total()} "
                f"quarantined + {self.skipped.total()} skipped = {out}.",
                remedy="Nothing was written. This is a fault of the reader: please report it with the file.",
            )
