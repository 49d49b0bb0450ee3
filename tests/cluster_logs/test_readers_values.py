"""What each reader makes of its source's traps, row by row (the rows lie in data/)."""

from math import isnan
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.ingest import ingest_log, read_jobs_file, read_throughput_file
from cluster_logs.lake import Lake
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.slurm_words import DEFAULT_FIELDS, SLURM_STATES, elapsed_s, gpus_of_tres, slurm_state
from foundation.errors import BadInputError

DATA = Path(__file__).parent / "data"


def read(name: str, suffix: str = "csv", **options: str) -> pd.DataFrame:
    """The fixture's jobs by id."""
    jobs, _ = read_jobs_file(str(DATA / f"{name}.{suffix}"), name, **options)
    return jobs


def job(jobs: pd.DataFrame, job_id: str) -> pd.Series:
    (index,) = jobs.index[jobs["job_id"] == job_id]
    return jobs.loc[index]


def utc(text: str) -> pd.Timestamp:
    return pd.Timestamp(text, tz="UTC")


# Helios ------------------------------------------------------------------------------------------------


def test_helios_times_are_shanghai_clock_times() -> None:
    first = job(read("helios"), "1")
    assert first["submit_time"] == utc("2020-03-31 16:00:10")
    assert (first["duration_s"], first["service_s"], first["queuing_delay_s"]) == (3600, 3600, 60)
    assert (first["gpus"], first["cpus"], first["nodes"], first["gpu_share"]) == (8, 32, 1, 1.0)
    assert (first["virtual_cluster"], first["user"], first["name"]) == ("vcEwI", "u1", "train_resnet50")
    assert first["source_row"] == 1
    assert job(read("helios", time_zone="UTC"), "1")["submit_time"] == utc("2020-04-01 00:00:10")


@pytest.mark.parametrize(
    ("zone", "reading", "kept"),
    [
        ("Asia/Shanghai", "1970-01-01 00:00:10", False),  # 1969 in UTC
        ("Asia/Shanghai", "1970-01-01 08:00:00", True),
        ("UTC", "1970-01-01 00:00:00", True),
        ("America/Los_Angeles", "2099-12-31 20:00:00", False),  # 2100 in UTC
        ("America/Los_Angeles", "2099-12-31 15:00:00", True),
    ],
)
def test_the_plausible_years_are_those_of_the_instant(
    tmp_path: Path, zone: str, reading: str, kept: bool
) -> None:
    header = (
        "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    )
    start = pd.Timestamp(reading)
    rows = f"1,u,vc,a,1,4,1,COMPLETED,{start},{start},{start + pd.Timedelta(minutes=1)},60,0"
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n{rows}\n")
    jobs, account = read_jobs_file(str(path), "helios", time_zone=zone, max_bad_share=1.0)
    assert len(jobs) == kept
    assert account.rows_quarantined == (not kept)
    if kept:
        assert 1970 <= jobs["submit_time"].iloc[0].year <= 2099


def test_helios_states_and_cpu_jobs() -> None:
    jobs = read("helios")
    assert job(jobs, "2")["gpus"] == 0
    assert [job(jobs, str(number))["state"] for number in (1, 2, 3, 4)] == [
        "COMPLETED",
        "FAILED",
        "FAILED",
        "CANCELLED",
    ]
    assert job(jobs, "3")["source_state"] == "NODE_FAIL"
    assert job(jobs, "3")["name"] == "eval, with a comma"
    pending = job(jobs, "6")
    assert pending["state"] == "PENDING"
    assert pd.isna(pending["start_time"])
    assert pd.isna(pending["duration_s"])


def test_of_two_rows_of_one_job_the_one_that_knows_its_end_stands() -> None:
    fifth = job(read("helios"), "5")
    assert (fifth["state"], fifth["duration_s"], fifth["source_row"]) == ("COMPLETED", 1800, 24)


def test_helios_without_users_or_job_names_has_nulls_there(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(
        "job_id,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "9,vc1,1,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:10,2020-04-01 01:01:10,3600,60\n"
    )
    jobs, _ = read_jobs_file(str(path), "helios")
    assert jobs[["name", "user"]].isna().all(axis=None)


def test_published_run_time_is_recomputed(tmp_path: Path) -> None:
    """Whatever `duration` says, run time is end - start."""
    path = tmp_path / "cluster_log.csv"
    path.write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "9,u1,vc1,1,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:10,2020-04-01 01:01:10,9999,1\n"
    )
    jobs, _ = read_jobs_file(str(path), "helios")
    assert (jobs.loc[0, "duration_s"], jobs.loc[0, "queuing_delay_s"]) == (3600, 60)


def test_helios_throughput_is_published_in_utc() -> None:
    path = DATA / "helios-throughput.csv"
    with pytest.raises(BadInputError, match="row 3"):
        read_throughput_file(str(path))


def test_helios_nodes_by_day(tmp_path: Path) -> None:
    ingest_log(
        source_format="helios-nodes",
        input_uri=str(DATA / "helios-nodes.csv"),
        cluster="venus",
        lake_uri=str(tmp_path),
    )
    lake = Lake(str(tmp_path))
    first_day = lake.read_nodes("venus", pd.Timestamp("2020-04-01").date())
    assert first_day.to_dict("list") == {"virtual_cluster": ["vcEwI"], "nodes": [9], "gpus_per_node": [8]}
    last = lake.read_nodes("venus").set_index("virtual_cluster")["nodes"].to_dict()
    assert last == {"103959": 2, "vcEwI": 8}


# Philly ------------------------------------------------------------------------------------------------


def test_philly_csv_ids_are_ranks_and_names_are_text() -> None:
    jobs = read("philly-csv")
    # By time: row 4 (refused), rows 2 and 3 (a tie, in the file's order), 1, 6; then those without: 5 and 7.
    assert jobs["job_id"].tolist() == ["2", "3", "4", "5"]
    assert jobs["source_row"].tolist() == [2, 3, 1, 6]
    assert jobs["virtual_cluster"].tolist() == ["103959", "11cb48", "6214e9", "6214e9"]
    assert jobs["duration_s"].tolist() == [2951.0, 10.5, 66.0, 60.0]
    assert jobs["state"].isna().all()
    assert jobs["start_time"].isna().all()
    assert jobs["end_time"].isna().all()


def test_philly_clock_is_pacific_with_the_first_of_two_equal_hours() -> None:
    jobs = read("philly-csv")
    assert job(jobs, "2")["submit_time"] == utc("2017-10-09 13:13:03")  # summer time, UTC-7
    assert job(jobs, "4")["submit_time"] == utc("2017-11-05 08:30:00")  # 01:30 occurs twice: the first
    assert job(jobs, "5")["submit_time"] == utc("2017-12-25 20:00:00")  # winter time, UTC-8


def test_philly_json_keeps_wall_time_and_service_apart() -> None:
    first = job(read("philly-json", "json"), "application_1")
    assert first["duration_s"] == 80 * 60
    assert first["service_s"] == 20 * 60
    assert first["queuing_delay_s"] == 600
    assert (first["gpus"], first["nodes"], first["state"]) == (4, 2, "COMPLETED")
    assert first["submit_time"] == utc("2017-10-07 08:11:16")


def test_philly_json_null_last_end_is_still_running() -> None:
    second = job(read("philly-json", "json"), "application_2")
    assert (second["state"], second["source_state"]) == ("RUNNING", "Killed")
    assert pd.isna(second["end_time"])
    assert pd.isna(second["duration_s"])
    assert pd.isna(second["service_s"])


def test_philly_json_none_texts_and_unstarted_attempts() -> None:
    fourth = job(read("philly-json", "json"), "application_4")
    assert (fourth["state"], fourth["gpus"], fourth["duration_s"], fourth["user"]) == ("FAILED", 1, 30, "é")


def test_philly_json_run_time_across_the_end_of_summer_time() -> None:
    assert job(read("philly-json", "json"), "application_9")["duration_s"] == 5 * 3600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jobid": 1}', "not a JSON array"),
        ('[{"jobid": 1, "attempts": [', "middle of job 1"),
        ('[{"jobid": 1} oops', "middle of job 2"),
        ('[{"jobid": 1}', "middle of job 2"),
    ],
)
def test_broken_json_is_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(text)
    with pytest.raises(BadInputError, match=message):
        read_jobs_file(str(path), "philly-json")


# Slurm -------------------------------------------------------------------------------------------------


def test_sacct_one_row_a_run_and_no_steps() -> None:
    jobs = read("sacct", "txt", cluster="venus")
    assert jobs["job_id"].tolist() == ["101", "102", "103", "104", "105", "105", "106", "109"]
    assert jobs.loc[jobs["job_id"] == "105", "state"].tolist() == ["FAILED", "COMPLETED"]


def test_sacct_gpus_are_not_added_up() -> None:
    jobs = read("sacct", "txt", cluster="venus").drop_duplicates("job_id")
    gpus = jobs.set_index("job_id")["gpus"].to_dict()
    assert gpus == {"101": 8, "102": 2, "103": 3, "104": 0, "105": 1, "106": 4, "109": 4}


def test_sacct_jobs_that_share_gpus_are_gpu_jobs(tmp_path: Path) -> None:
    tres = {
        "1": ("cpu=2,gres/mps=25,node=1", 1),
        "2": ("cpu=2,gres/mps:a100=50,gres/mps=50,node=1", 1),
        "3": ("cpu=2,gres/shard=4", 2),  # a GPU of each of its nodes
        "4": ("cpu=2,gres/gpu=2,node=1", 1),
        "5": ("cpu=2,gres/gpu:1g.5gb=7,node=1", 1),
    }
    log = tmp_path / "sacct.txt"
    log.write_text(
        "JobIDRaw|Partition|State|Submit|Start|End|ElapsedRaw|AllocTRES|NNodes\n"
        + "".join(
            f"{job_id}|gpu|COMPLETED|2026-06-03T08:58:01|2026-06-03T08:58:17|2026-06-03T09:58:17|3600|{held}|{nodes}\n"
            for job_id, (held, nodes) in tres.items()
        )
    )
    jobs, _ = read_jobs_file(str(log), "sacct")
    assert dict(zip(jobs["job_id"], jobs["gpus"], strict=True)) == {"1": 1, "2": 1, "3": 2, "4": 2, "5": 1}


def test_sacct_times_states_and_limits() -> None:
    jobs = read("sacct", "txt", cluster="venus").drop_duplicates("job_id").set_index("job_id")
    assert jobs.loc["101", "duration_s"] == 93_784
    assert jobs.loc["101", "time_limit_s"] == 2880 * 60
    never = jobs.loc["102"]
    assert (never["state"], never["source_state"]) == ("CANCELLED", "CANCELLED by 1000")
    assert pd.isna(never["start_time"])
    assert pd.isna(never["duration_s"])
    assert pd.isna(never["time_limit_s"])
    assert never["end_time"] == utc("2026-01-01 01:05:00")
    running = jobs.loc["104"]
    assert running["state"] == "RUNNING"
    assert pd.isna(running["end_time"])
    assert pd.isna(running["duration_s"])
    assert jobs.loc["109", "name"] == 'oom "half quoted'


def test_sacct_ends_in_the_second_of_two_equal_hours_as_elapsed_tells(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    rows = (
        ("1", "01:50:00", "01:10:00", "00:20:00"),  # ends before it starts, by the clock
        ("2", "00:30:00", "01:30:00", "02:00:00"),
        ("3", "00:30:00", "01:30:00", "01:00:00"),  # in the first
        ("4", "00:30:00", "02:30:00", "02:00:00"),  # suspended for an hour
        ("5", "01:50:00", "01:10:00", "00:10:00"),  # no hour explains it
    )
    lines = ["JobIDRaw|Partition|State|Submit|Start|End|Elapsed|AllocTRES\n"]
    for name, start, end, elapsed in rows:
        times = f"2017-11-05T00:10:00|2017-11-05T{start}|2017-11-05T{end}"
        lines.append(f"{name}|vc1|COMPLETED|{times}|{elapsed}|gres/gpu=1\n")
    path.write_text("".join(lines))
    jobs, report = read_jobs_file(str(path), "sacct", time_zone="America/Los_Angeles")
    ran_s = jobs.set_index("job_id")["duration_s"].to_dict()
    assert ran_s == {"1": 1_200, "2": 7_200, "3": 3_600, "4": 10_800}
    assert job(jobs, "1")["end_time"] == utc("2017-11-05 09:10:00")
    assert job(jobs, "4")["service_s"] == 7_200
    assert report.reasons == {"end_before_start": 1}


def test_sacct_starts_in_the_second_of_two_equal_hours_as_elapsed_tells(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    rows = (
        ("1", "01:55:00", "01:05:00", "02:30:00", "01:25:00"),  # starts before it was submitted, by the clock
        ("2", "00:50:00", "01:05:00", "02:30:00", "01:25:00"),  # suspended for an hour
        ("3", "02:45:00", "01:35:00", "03:00:00", "01:25:00"),  # an hour later is still too early
        ("4", "01:55:00", "01:05:00", "02:30:00", "02:25:00"),  # it did run so long
    )
    lines = ["JobIDRaw|Partition|State|Submit|Start|End|Elapsed|AllocTRES\n"]
    for name, *times, elapsed in rows:
        moments = "|".join(f"2017-11-05T{time}" for time in times)
        lines.append(f"{name}|vc1|COMPLETED|{moments}|{elapsed}|gres/gpu=1\n")
    path.write_text("".join(lines))
    jobs, report = read_jobs_file(str(path), "sacct", time_zone="America/Los_Angeles")
    assert job(jobs, "1")["start_time"] == utc("2017-11-05 09:05:00")
    assert jobs.set_index("job_id")["duration_s"].to_dict() == {"1": 5_100, "2": 8_700}
    assert report.reasons == {"start_before_submit": 2}


def test_sacct_without_header_reads_the_documented_order(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    values = dict.fromkeys(DEFAULT_FIELDS, "1") | {
        "Cluster": "c",
        "JobIDRaw": "7",
        "JobID": "7_1",
        "Partition": "",
        "State": "COMPLETED",
        "Submit": "2026-01-01T00:00:00",
        "Start": "2026-01-01T00:00:00",
        "End": "2026-01-01T00:01:00",
        "ElapsedRaw": "60",
        "AllocTRES": "gres/gpu=2",
    }
    path.write_text("|".join(values[name] for name in DEFAULT_FIELDS) + "\n")
    jobs, _ = read_jobs_file(str(path), "sacct", cluster="other-name")
    assert jobs[["job_id", "gpus", "duration_s", "virtual_cluster"]].to_numpy().tolist() == [
        ["7", 2, 60.0, "default"]
    ]
    east, _ = read_jobs_file(str(path), "sacct", time_zone="Asia/Shanghai")
    assert east.loc[0, "submit_time"] == utc("2025-12-31 16:00:00")


def test_sacct_without_header_reads_what_was_asked_for_before_facts_were_added(tmp_path: Path) -> None:
    """A name that holds the delimiter does not decide which order it is."""
    older = "c|7|7|ann|vc1|{}|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|60|9|"
    older = older + "gres/gpu=2|gres/gpu=2|4|1\n"
    path = tmp_path / "sacct.txt"
    path.write_text(older.format("a|b|c|d") + older.format("x") + older.replace("7|7", "8|8").format("y"))
    jobs, report = read_jobs_file(str(path), "sacct")
    assert jobs[["job_id", "gpus", "time_limit_s"]].to_numpy().tolist() == [["7", 2, 540], ["8", 2, 540]]
    assert report.reasons == {"wrong_column_count": 1}
    assert jobs["queue"].tolist() == ["vc1", "vc1"]
    assert jobs[["account", "group", "qos"]].isna().all(axis=None)


def test_whose_a_job_is_and_how_it_was_submitted(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobIDRaw|Partition|State|Submit|Start|End|AllocTRES|Account|Group|QOS\n"
        "1|vc1|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|gres/gpu=2|phys|users|\n"
    )
    jobs, _ = read_jobs_file(str(path), "sacct")
    assert jobs[["account", "group", "queue"]].to_numpy().tolist() == [["phys", "users", "vc1"]]
    assert jobs["qos"].isna().all()
    swf = read("swf", "swf").set_index("job_id")
    assert swf.loc["2", ["group", "queue"]].tolist() == ["1", "1"]
    assert pd.isna(swf.loc["1", "queue"])
    assert swf[["account", "qos"]].isna().all(axis=None)


def test_what_a_job_asked_for_not_what_it_was_given(tmp_path: Path) -> None:
    """Memory of the whole job: as ReqTRES has it, else ReqMem, which older versions tell of a node or a
    core; the type of GPU only where it was asked for.
    """
    path = tmp_path / "sacct.txt"
    head = "JobIDRaw|Partition|State|Submit|Start|End|AllocTRES|ReqTRES|ReqMem|ReqGRES|NCPUS|NNodes\n"
    when = (
        "|vc1|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|gres/gpu:a100=2,mem=9G|"
    )
    asked = {
        "1": ("gres/gpu=2,gres/gpu:V100=2,mem=64G||gpu:2|8|2", 65_536.0, "v100"),
        "2": ("gres/gpu=2,mem=500M|9Gn|gpu:p100:2|8|2", 500.0, "p100"),
        "3": ("gres/gpu=2|4Gn|gpu:2|8|2", 8_192.0, None),
        "4": ("gres/gpu=2|1.5Gc|gpu:k80:1,gpu:a100:1|8|2", 12_288.0, "a100+k80"),
        "5": ("gres/gpu=2|1000M||8|2", 1_000.0, None),
        "6": ("gres/gpu=2|0n||8|2", None, None),
        "7": ("gres/gpu=2|?||8|2", None, None),
        "8": ("||gpu:2080:1|8|2", None, "2080"),
        "9": ("mem=lots|||8|2", None, None),
        "10": ("|-5G||8|2", None, None),
        "11": ("mem=1000T|||8|2", None, None),
    }
    path.write_text(head + "".join(f"{job}{when}{row}\n" for job, (row, _, _) in asked.items()))
    jobs, report = read_jobs_file(str(path), "sacct")
    assert (report.reasons, report.unknown_values) == ({}, {"requested_memory_mib": 3})
    told = jobs[["job_id", "requested_memory_mib", "gpu_type"]].astype(object).where(jobs.notna(), None)
    assert told.to_numpy().tolist() == [[job, memory, kind] for job, (_, memory, kind) in asked.items()]
    given = "1" + when.replace("|gres", "|gres", 1)
    path.write_text(head.replace("ReqTRES|ReqMem|ReqGRES|", "") + given + "8|2\n")
    assert read_jobs_file(str(path), "sacct")[0][["requested_memory_mib", "gpu_type"]].isna().all(axis=None)


def test_memory_and_gpu_types_of_other_formats() -> None:
    swf = read("swf", "swf").set_index("job_id")["requested_memory_mib"]
    assert swf["2"] == 64 * 2_048 / 1_024
    assert swf.drop("2").isna().all()
    kalos = read("acme-kalos", "csv")
    assert kalos["requested_memory_mib"].tolist() == [1_024_000.0, 32 * 1_024_000.0]
    pods = read("alibaba-v2023", "csv").set_index("job_id")
    told = ["requested_memory_mib", "gpu_type", "qos"]
    assert pods.loc["openb-pod-0001", told].tolist() == [12_288.0, "V100M16|V100M32", "LS"]
    assert pods.loc["openb-pod-0002", "gpu_type"] is None or pd.isna(pods.loc["openb-pod-0002", "gpu_type"])
    assert read("acme-seren", "csv")["requested_memory_mib"].isna().all()


def test_sacct_of_several_clusters_needs_the_right_name() -> None:
    with pytest.raises(BadInputError, match=r"several clusters.*mars, venus"):
        read("sacct", "txt", cluster="pluto")
    assert read("sacct", "txt", cluster="mars")["user"].tolist() == ["eve"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("05:09", 309),
        ("01:05:09", 3909),
        ("2-01:05:09", 176_709),
        ("00:00:01.500", 1),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_elapsed(text: str, seconds: float | None) -> None:
    assert elapsed_s(text) == seconds


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("", 0),
        ("cpu=4,mem=1G", 0),
        ("gres/gpu=8,gres/gpu:a100=8", 8),
        ("gres/gpu:a100=8,gres/gpu=8", 8),
        ("gres/gpu:a100=2,gres/gpu:v100=1", 3),
        ("gres/gpumem=80G,gres/gpu=1", 1),
        ("gres/gpu=-1", -1),
        # A job of shares has them of one GPU of each of its nodes.
        ("billing=2,cpu=2,gres/mps=25,node=1", 1),
        ("gres/mps:a100=50,gres/mps=50,node=2", 2),
        ("gres/shard=4", 1),
        ("gres/shard=0,node=2", 0),
        # Slices of a GPU (MIG) are not whole ones, as Slurm counts them.
        ("gres/gpu:1g.5gb=7", 1),
        ("gres/gpu:1g.5gb=8", 2),
        ("gres/gpu=4,gres/gpu:a100=2,gres/gpu:a100_1g.5gb=2", 3),
        ("gres/gpu:3g.40gb=2,node=2", 2),
        ("gres/gpu=4,gres/gpu:v100-32g=4", 4),
    ],
)
def test_gpus_of_tres(tres: str, gpus: float) -> None:
    assert gpus_of_tres(tres) == gpus


def test_an_amount_of_gpus_that_is_no_number_is_not_read() -> None:
    assert all(
        map(isnan, map(gpus_of_tres, ("gres/gpu=x", "gres/gpu=", "gres/gpu:1g.5gb=x", "gres/mps=1,node=x")))
    )


def test_every_slurm_state_is_known() -> None:
    words = (
        "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PENDING PREEMPTED RUNNING "
        "REQUEUED RESIZING REVOKED SUSPENDED TIMEOUT"
    )
    assert set(words.split()) <= set(SLURM_STATES)
    assert slurm_state("CANCELLED+") == "CANCELLED"
    assert slurm_state("GONE") is None


# SWF, Acme, Alibaba, reference -------------------------------------------------------------------------


def test_swf_columns() -> None:
    jobs = read("swf", "swf").set_index("job_id")
    assert jobs.loc["1", "submit_time"] == utc("1993-10-01 07:00:03")
    assert jobs.loc["1", ["start_time", "end_time", "state", "time_limit_s"]].isna().all()
    assert jobs.loc["1", "duration_s"] == 1451
    second = jobs.loc["2"]
    assert (second["gpus"], second["virtual_cluster"], second["name"], second["user"]) == (64, "2", "3", "1")
    assert second["start_time"] - second["submit_time"] == pd.Timedelta(seconds=10)
    assert (second["state"], second["time_limit_s"]) == ("COMPLETED", 7200)
    assert jobs.loc["3", "state"] == "FAILED"
    cancelled = jobs.loc["4"]
    assert cancelled["state"] == "CANCELLED"
    assert pd.isna(cancelled["start_time"])


def test_acme_times_carry_their_offset() -> None:
    seren = read("acme-seren").set_index("job_id")
    assert seren.loc["5778432", "submit_time"] == utc("2023-02-28 16:00:13")
    assert seren.loc["5778433", "gpus"] == 0
    assert pd.isna(seren.loc["5778434", "start_time"])
    assert pd.isna(seren.loc["5778434", "nodes"])


def test_kalos_run_time_is_end_minus_start() -> None:
    kalos = read("acme-kalos").set_index("job_id")
    assert kalos.loc["dlctk696s0jbvitv", "duration_s"] == 10
    assert kalos.loc["dlc1t2ypl5kmgsl8", "duration_s"] == 86_400
    assert kalos.loc["dlc1t2ypl5kmgsl8", "submit_time"] == utc("2023-05-17 11:02:58")


def test_alibaba_shares_and_phases() -> None:
    pods = read("alibaba-v2023").set_index("job_id")
    assert pods["state"].tolist() == ["RUNNING", "COMPLETED", "FAILED", "CANCELLED", "RUNNING"]
    shared = pods.loc["openb-pod-0001"]
    assert (shared["gpus"], shared["gpu_share"], shared["cpus"], shared["queuing_delay_s"]) == (
        1,
        0.46,
        7,
        39,
    )
    assert (pods.loc["openb-pod-0002", "gpus"], pods.loc["openb-pod-0002", "gpu_share"]) == (0, 1.0)
    assert pd.isna(pods.loc["openb-pod-0003", "start_time"])
    assert pd.isna(pods.loc["openb-pod-0004", "duration_s"])


def test_reference_keeps_ids_order_and_job_types() -> None:
    jobs = read("reference-csv")
    assert jobs["job_id"].tolist() == ["14567", "14569"]
    assert jobs["job_type"].tolist() == ["LSTM/Wikitext2/128/0", "VGG/CIFAR-10/128/1"]
    assert jobs["estimated_duration_s"].tolist() == [668_362, 144_629]
    assert jobs["order_in_vc"].tolist() == [0, 1]


# Text that is not UTF-8, nodes ------------------------------------------------------------------------


def test_only_the_row_with_an_undecodable_id_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    text = (DATA / "helios.csv").read_bytes().replace(b"train_resnet50", b"caf\xe9", 1)
    path.write_bytes(text.replace(b"vcEwI", b"vcEw\xe9", 1))
    report = ingest_log(
        source_format="helios", input_uri=str(path), cluster="venus", lake_uri=str(tmp_path / "l")
    )
    assert report.reasons["non_utf8_text"] == 1
    quarantine = Lake(str(tmp_path / "l")).read_quarantine("venus")
    row = quarantine[quarantine["reason"] == "non_utf8_text"].iloc[0]
    assert (row["source_row"], row["column"], row["value"]) == (1, "vc", "vcEw\\xe9")
    assert row["raw_row"].startswith("1,u1,vcEw\\xe9,caf\\xe9,8")


def test_a_name_that_is_no_utf8_text_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_bytes((DATA / "helios.csv").read_bytes().replace(b"train_resnet50", b"caf\xe9", 1))
    jobs, report = read_jobs_file(str(path), "helios")
    assert report.unknown_values == {"name": 1}
    assert pd.isna(job(jobs, "1")["name"])


def test_a_malformed_row_may_hold_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_bytes((DATA / "helios.csv").read_bytes().replace(b"18,u4,vcEwI,too short", b"18,\xff\xfe"))
    _, report = read_jobs_file(str(path), "helios")
    assert report.reasons["wrong_column_count"] == 1
    assert report.rows_in == 25


@pytest.mark.parametrize("header", ["virtual_cluster,nodes", "vc,node num", ",num"])
def test_nodes_file_whatever_its_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"{header}\n6214e9,64\n103959,8\n0e4a51,2\n")
    nodes = read_nodes_file(str(path), gpus_per_node=4)
    assert nodes["virtual_cluster"].tolist() == ["6214e9", "103959", "0e4a51"]
    assert nodes["nodes"].tolist() == [64, 8, 2]
    assert set(nodes["gpus_per_node"]) == {4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vc,num\na,1\na,2\n", "twice"),
        ("vc,num\na,-1\n", "row 1"),
        ("vc,num\na,nan\n", "row 1"),
        ("vc,num\na,1.5\n", "row 1"),
        ("vc,num\n,1\n", "row 1"),
        ("vc;num\na;1\n", "one column"),
        ("vc,num\n", "no virtual cluster"),
    ],
)
def test_bad_nodes_file_is_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(BadInputError, match=message):
        read_nodes_file(str(path))
