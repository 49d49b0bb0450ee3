"""All models beside their rivals, on the public data and on a synthetic log: `lucid evaluate all`.

The tables of docs/model_quality.md are made of what `measure` returns (tables.py).
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cluster_logs.ingest import read_jobs_file, read_throughput_file
from cluster_logs.synthetic.generator import synthesize
from experiments.model_quality.duration_comparison import DurationComparison, compare_durations
from experiments.model_quality.duration_rivals import add_duration_rivals
from experiments.model_quality.packing_rivals import CONTENDERS
from experiments.model_quality.throughput_clusters import FILES as CLUSTER_FILES
from experiments.model_quality.throughput_clusters import measure_clusters
from experiments.model_quality.throughput_comparison import ThroughputComparison, compare_throughput
from experiments.model_quality.throughput_rivals import read_published, throughput_rivals
from experiments.model_quality.utilisation import UtilisationQuality, measure_utilisation
from experiments.pages import commit_text, machine_text
from foundation.errors import NotFoundError
from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Row
from lucid_models.evaluation.packing import evaluate_packing
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

# The public files, under the folder that holds `data`; their protocols.
THROUGHPUT = "data/venus/cluster_throughput.csv.gz"
PUBLISHED = "data/venus/lucid_september_predictions.csv"
DURATION = "data/swf/NASA-iPSC-1993-3.1-cln.swf.gz"
SINGLES = "data/packing/single_jobs_rtx3090.csv"
PAIRS = "data/packing/colocated_pairs_rtx3090.csv"
FILES = (THROUGHPUT, PUBLISHED, DURATION, SINGLES, PAIRS, *CLUSTER_FILES)
TEST_DAYS, TRAIN_DAYS = 28, 61
# Leads besides those of the main tables, measured for the model and the naive forecasts only.
LEADS = ("g1", "g2", "g5", "g12", "g36", "g144")
SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_TRAIN_DAYS, SYNTHETIC_SEED = "helios-venus", 14, 7, 5
COMMAND = "lucid evaluate all --write docs/model_quality.md"


@dataclass(frozen=True)
class ModelQuality:
    """What was measured, where, and the CPU seconds that it took."""

    throughput: ThroughputComparison
    by_lead: Sequence[Row]
    clusters: Sequence[Row]
    duration: DurationComparison
    synthetic: DurationComparison
    packing: Sequence[Row]
    utilisation: UtilisationQuality
    digests: Mapping[str, str]
    commit: str
    machine: str
    cpu_s: float

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "throughput": {"rows": self.throughput.rows, "by_lead": list(self.by_lead)},
            "throughput_clusters": {"rows": list(self.clusters)},
            "duration": {"rows": self.duration.rows, "by_group": self.duration.by_group},
            "duration_synthetic": {"rows": self.synthetic.rows, "by_group": self.synthetic.by_group},
            "packing": {"rows": list(self.packing)},
            "utilisation": {
                "rows": list(self.utilisation.measured),
                "simulated": list(self.utilisation.simulated),
            },
            "digests": dict(self.digests),
            "commit": self.commit,
            "machine": self.machine,
            "cpu_s": self.cpu_s,
        }


def measure(data: Path, *, out_dir: Path | None = None, progress: Progress = silent) -> ModelQuality:
    """Measure everything; `data` is the folder of the public data, `out_dir` gets pictures.

    Raises NotFoundError when one of the files is missing.
    """
    missing = [name for name in FILES if not (data / name).is_file()]
    if missing:
        raise NotFoundError(
            f"{str(data)!r} lacks {', '.join(missing)}.", remedy="Name the folder of the public data."
        )
    began = time.process_time()
    table = read_throughput_file(str(data / THROUGHPUT), time_zone="UTC")
    throughput = compare_throughput(
        table,
        test_days=TEST_DAYS,
        rivals=throughput_rivals(published=read_published(data / PUBLISHED)),
        progress=progress,
    )
    others = tuple(lead for lead in LEADS if lead not in {row["lead"] for row in throughput.rows})
    by_lead = compare_throughput(table, test_days=TEST_DAYS, leads=others, progress=progress)
    clusters = measure_clusters(data, progress)
    jobs, _ = read_jobs_file(str(data / DURATION), "swf")
    duration = compare_durations(
        jobs, TRAIN_DAYS, rivals=add_duration_rivals, progress=partial(_of, progress, "NASA iPSC")
    )
    made = synthesize(SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED)
    synthetic = compare_durations(
        made.jobs,
        SYNTHETIC_TRAIN_DAYS,
        rivals=add_duration_rivals,
        progress=partial(_of, progress, "synthetic"),
    )
    packing = evaluate_packing(
        read_solo_profiles(data / SINGLES),
        read_pair_profiles(data / PAIRS),
        contenders=CONTENDERS,
        progress=progress,
    )
    utilisation = measure_utilisation(data, partial(_of, progress, "graphs"))
    if out_dir is not None:
        from experiments.model_quality.plots import draw_durations, draw_error_by_lead, draw_throughput

        draw_throughput(throughput, out_dir)
        draw_error_by_lead([*throughput.rows, *by_lead.rows], out_dir / "throughput_error_by_lead.png")
        draw_durations(duration, out_dir)
    return ModelQuality(
        throughput,
        [*throughput.rows, *by_lead.rows],
        clusters,
        duration,
        synthetic,
        packing,
        utilisation,
        {name: hashlib.sha256((data / name).read_bytes()).hexdigest() for name in FILES},
        commit_text(),
        machine_text(),
        time.process_time() - began,
    )


def _of(progress: Progress, log: str, done: int, total: int | None, what: str) -> None:
    progress(done, total, f"{log}: {what}")
