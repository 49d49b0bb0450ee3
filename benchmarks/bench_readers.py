"""Rows per second and peak memory of every log reader, each in a process of its own.

    python benchmarks/bench_readers.py [--rows N] [--format F ...] [--json FILE]

Times are wall-clock, "CPU s" all threads together. "read" is reading and checking alone; "ingest" is reading
into an empty lake, throughput table included. The rows are made up (seeded) in the layout of each format and
spread over 183 days, in order of submission.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

DEFAULT_ROWS = 200_000
FIRST_S = 1_585_699_200  # 2020-04-01
SPAN_S = 183 * 86_400
SEED = 20_200_401


class Columns:
    """Made-up jobs, column by column."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(SEED)
        self.rows = rows
        self.number = np.arange(1, rows + 1)
        self.submit = np.sort(rng.integers(0, SPAN_S, rows)) + FIRST_S
        self.wait = rng.integers(0, 600, rows)
        self.run = np.ceil(rng.lognormal(5.3, 2.2, rows)).clip(1, 4e6).astype(np.int64)
        self.gpus = rng.choice([0, 1, 1, 1, 2, 4, 8, 16], rows)
        self.nodes = np.maximum(1, self.gpus // 8)
        self.user = self._word(rng, "u", 300)
        self.vc = self._word(rng, "vc", 27)
        self.name = self._word(rng, "resnet50_lr", 5_000)
        self.state = rng.choice(np.array(["COMPLETED", "COMPLETED", "CANCELLED", "FAILED"]), rows)

    def _word(self, rng: np.random.Generator, stem: str, many: int) -> np.ndarray:
        words = np.array([f"{stem}{index}" for index in range(many)])
        return words[rng.integers(0, many, self.rows)]

    def times(self, pattern: str = "%Y-%m-%d %H:%M:%S") -> tuple[pa.Array, pa.Array, pa.Array]:
        instants = (self.submit, self.submit + self.wait, self.submit + self.wait + self.run)
        submit, start, end = (
            pc.strftime(pa.array(values).cast(pa.timestamp("s")), pattern) for values in instants
        )
        return submit, start, end


def _write(path: Path, columns: dict[str, object], *, delimiter: str = ",", header: bool = True) -> None:
    options = pacsv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    with path.open("wb") as sink:
        if header:
            sink.write(delimiter.join(columns).encode() + b"\n")
        pacsv.write_csv(pa.table(columns), sink, options)


def write_helios(path: Path, jobs: Columns) -> None:
    submit, start, end = jobs.times()
    columns = {"job_id": jobs.number, "user": jobs.user, "vc": jobs.vc, "jobname": jobs.name}
    columns |= {
        "gpu_num": jobs.gpus,
        "cpu_num": jobs.gpus * 4 + 4,
        "node_num": jobs.nodes,
        "state": jobs.state,
    }
    columns |= {"submit_time": submit, "start_time": start, "end_time": end}
    _write(path, columns | {"duration": jobs.run, "queue": jobs.wait})


def write_philly_csv(path: Path, jobs: Columns) -> None:
    duration = jobs.run.astype(float)
    columns = {"timestamp": jobs.times()[0], "duration": duration, "num_gpus": jobs.gpus}
    _write(path, columns | {"gpu_time": duration * jobs.gpus, "cluster": jobs.vc})


def write_philly_json(path: Path, jobs: Columns) -> None:
    submit, start, end = (column.to_pylist() for column in jobs.times())
    with path.open("w") as sink:
        for index in range(jobs.rows):
            detail = [{"ip": "m1", "gpus": [f"gpu{gpu}" for gpu in range(max(1, jobs.gpus[index]))]}]
            job = {
                "status": "Pass",
                "vc": str(jobs.vc[index]),
                "jobid": f"application_{index}",
                "attempts": [{"start_time": start[index], "end_time": end[index], "detail": detail}],
                "submitted_time": submit[index],
                "user": str(jobs.user[index]),
            }
            sink.write(("[" if index == 0 else ",\n") + json.dumps(job))
        sink.write("]\n")


def write_sacct(path: Path, jobs: Columns) -> None:
    submit, start, end = jobs.times("%Y-%m-%dT%H:%M:%S+0000")
    gpus = pa.array(jobs.gpus).cast(pa.string())
    tres = pc.binary_join_element_wise(pa.scalar("billing=8,cpu=8,gres/gpu"), gpus, "=")
    columns = {"Cluster": np.full(jobs.rows, "venus"), "JobIDRaw": jobs.number, "JobID": jobs.number}
    columns |= {"User": jobs.user, "Partition": jobs.vc, "JobName": jobs.name, "State": jobs.state}
    columns |= {"Submit": submit, "Start": start, "End": end, "ElapsedRaw": jobs.run}
    columns |= {"TimelimitRaw": np.full(jobs.rows, 1440), "AllocTRES": tres, "ReqTRES": tres}
    _write(path, columns | {"NCPUS": np.full(jobs.rows, 8), "NNodes": jobs.nodes}, delimiter="|")


def write_swf(path: Path, jobs: Columns) -> None:
    unknown = np.full(jobs.rows, -1)
    columns = [jobs.number, jobs.submit - FIRST_S, jobs.wait, jobs.run, jobs.gpus + 1, unknown, unknown]
    columns += [jobs.gpus + 1, jobs.run * 2, unknown, np.ones(jobs.rows, dtype=int), jobs.number % 300]
    columns += [unknown, jobs.number % 5_000, unknown, jobs.number % 5, unknown, unknown]
    _write(path, {f"c{i}": column for i, column in enumerate(columns)}, delimiter=" ", header=False)
    path.write_bytes(f"; UnixStartTime: {FIRST_S}\n".encode() + path.read_bytes())


def write_acme(path: Path, jobs: Columns) -> None:
    submit, start, end = jobs.times("%Y-%m-%d %H:%M:%S+08:00")
    columns = {"job_id": jobs.number, "user": jobs.user, "node_num": jobs.nodes, "gpu_num": jobs.gpus}
    columns |= {"cpu_num": jobs.gpus * 4, "type": jobs.name, "state": jobs.state}
    columns |= {"submit_time": submit, "start_time": start, "end_time": end}
    _write(path, columns | {"duration": jobs.run, "queue": jobs.wait, "gpu_time": jobs.run * jobs.gpus})


def write_alibaba(path: Path, jobs: Columns) -> None:
    start = jobs.submit + jobs.wait - FIRST_S
    columns = {"name": jobs.number, "cpu_milli": jobs.gpus * 4000 + 4000, "memory_mib": jobs.gpus * 1024}
    columns |= {"num_gpu": jobs.gpus, "gpu_milli": np.minimum(jobs.gpus, 1) * 1000}
    columns |= {"gpu_spec": np.full(jobs.rows, "V100M16"), "qos": np.full(jobs.rows, "LS")}
    columns |= {"pod_phase": np.full(jobs.rows, "Succeeded"), "creation_time": jobs.submit - FIRST_S}
    _write(path, columns | {"deletion_time": start + jobs.run, "scheduled_time": start})


def write_reference(path: Path, jobs: Columns) -> None:
    columns = {"job_id": jobs.number, "virtual_cluster": jobs.vc, "order_in_vc": jobs.number}
    columns |= {"gpus": jobs.gpus, "submit_time": jobs.times()[0], "duration_s": jobs.run}
    columns |= {"estimated_duration_s": jobs.run * 2, "model": np.full(jobs.rows, "VGG")}
    columns |= {"dataset": np.full(jobs.rows, "CIFAR-10"), "batchsize": np.full(jobs.rows, 128)}
    _write(path, columns | {"amp": np.zeros(jobs.rows, dtype=int)})


def write_lake(path: Path, jobs: Columns) -> None:
    stamp = pa.timestamp("us", tz="UTC")
    submit, start = jobs.submit * 1_000_000, (jobs.submit + jobs.wait) * 1_000_000
    columns = {
        "job_id": jobs.number.astype(str),
        "virtual_cluster": jobs.vc,
        "gpus": jobs.gpus.astype(np.int32),
    }
    columns |= {"gpu_share": np.ones(jobs.rows), "state": jobs.state, "user": jobs.user, "name": jobs.name}
    columns |= {"submit_time": pa.array(submit).cast(stamp), "start_time": pa.array(start).cast(stamp)}
    columns |= {"end_time": pa.array(start + jobs.run * 1_000_000).cast(stamp)}
    columns |= {"source_file": np.full(jobs.rows, "x.csv"), "source_row": jobs.number}
    pq.write_table(pa.table(columns), path, row_group_size=100_000)


def write_throughput(path: Path, jobs: Columns) -> None:
    bins = pa.array(np.arange(jobs.rows) * 600 + FIRST_S).cast(pa.timestamp("s"))
    names = [
        f"{event}_{what}"
        for what in ("job_all", "gpu_job", "gpu_num")
        for event in ("submit", "start", "end")
    ]
    _write(path, {"time": pc.strftime(bins, "%Y-%m-%d %H:%M:%S")} | dict.fromkeys(names, jobs.gpus))


WRITERS: dict[str, Callable[[Path, Columns], None]] = {
    "helios": write_helios,
    "philly-csv": write_philly_csv,
    "philly-json": write_philly_json,
    "sacct": write_sacct,
    "swf": write_swf,
    "acme-seren": write_acme,
    "acme-kalos": write_acme,
    "alibaba-v2023": write_alibaba,
    "reference-csv": write_reference,
    "lake": write_lake,
    "helios-throughput": write_throughput,
}
# A throughput table of a row a bin is small by nature.
MOST_ROWS = {"helios-throughput": 100_000}


def measure(source_format: str, file: str, lake: str | None) -> dict[str, float]:
    """Read (or ingest) one file in this process; rows, seconds, peak resident memory in MiB."""
    from cluster_logs.ingest import ingest_log
    from cluster_logs.readers.base import ReadOptions, load_reader, read_chunks

    started = time.perf_counter()
    if lake is None:
        chunks = read_chunks(load_reader(source_format), file, ReadOptions("venus"))
        rows = sum(chunk.rows.num_rows for chunk in chunks)
    else:
        rows = ingest_log(
            source_format=source_format, input_uri=file, cluster="venus", lake_uri=lake
        ).rows_kept
    seconds = time.perf_counter() - started
    return {
        "rows": rows,
        "seconds": seconds,
        "cpu_seconds": time.process_time(),
        "rows_per_s": rows / seconds,
        "peak_rss_mib": peak_rss_mib(),
    }


def peak_rss_mib() -> float:
    """This process's own peak; getrusage would count what its parent held before the start as well."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("/proc/self/status has no VmHWM: peak memory is measured on Linux only")


def bench(source_format: str, rows: int, folder: Path) -> dict[str, object]:
    """Write the file, then measure reading and ingesting it in a fresh process each."""
    rows = min(rows, MOST_ROWS.get(source_format, rows))
    file = folder / f"{source_format}.data"
    WRITERS[source_format](file, Columns(rows))
    row: dict[str, object] = {"reader": source_format, "rows": rows, "file_mib": file.stat().st_size / 2**20}
    for what, lake in (("read", None), ("ingest", str(folder / f"lake-{source_format}"))):
        arguments = [
            sys.executable,
            __file__,
            "--measure",
            source_format,
            str(file),
            *([lake] if lake else []),
        ]
        answer = subprocess.run(arguments, check=True, capture_output=True, text=True)
        measured = json.loads(answer.stdout)
        if measured["rows"] != rows:
            raise SystemExit(f"{source_format}: {rows} rows were written and {measured['rows']} were kept")
        row |= {f"{what}_{name}": value for name, value in measured.items() if name != "rows"}
    file.unlink()
    return row


def main() -> None:
    """Print the table; write it as JSON when asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS)
    parser.add_argument("--format", nargs="+", choices=sorted(WRITERS), default=list(WRITERS))
    parser.add_argument("--json", type=Path, help="also write the table there")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--write-log", nargs=3, metavar=("FORMAT", "ROWS", "FILE"), help="write one, no more")
    arguments = parser.parse_args()
    if arguments.write_log:
        source_format, rows, path = arguments.write_log
        WRITERS[source_format](Path(path), Columns(int(rows)))
        return
    if arguments.measure:
        source_format, file, *lake = arguments.measure
        print(json.dumps(measure(source_format, file, lake[0] if lake else None)))
        return
    heads = ("reader", "rows", "MiB", "read s", "rows/s", "ingest s", "CPU s", "rows/s", "peak MiB")
    print("{:<18}{:>10}{:>7}{:>8}{:>11}{:>10}{:>8}{:>11}{:>10}".format(*heads), flush=True)
    table = []
    with tempfile.TemporaryDirectory(prefix="lucid-bench-") as folder:
        for source_format in arguments.format:
            row = bench(source_format, arguments.rows, Path(folder))
            table.append(row)
            print(
                f"{row['reader']:<18}{row['rows']:>10,}{row['file_mib']:>7.0f}{row['read_seconds']:>8.2f}"
                f"{row['read_rows_per_s']:>11,.0f}{row['ingest_seconds']:>10.2f}{row['ingest_cpu_seconds']:>8.2f}"
                f"{row['ingest_rows_per_s']:>11,.0f}{row['ingest_peak_rss_mib']:>10.0f}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
