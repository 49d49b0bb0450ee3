"""A log is brought by hand: what is shown before it is ingested, and what stands against it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.slurm_words import EXPORT_COMMAND
from tests.browser.driver import expect
from tests.browser.filling import HOSTILE

HEADER = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)
TIMES = "2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 01:00:00,3600,0"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two virtual clusters, one with a nasty name, and a row that cannot be used."""
    names = ("vc0", HOSTILE)
    rows = [f"j{i},u1,{names[i % 2]},{HOSTILE},4,8,1,COMPLETED,{TIMES}" for i in range(30)]
    rows.append(f"j99,u1,vc0,net,many,8,1,COMPLETED,{TIMES}")
    path = tmp_path / "a log; of ours.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def test_a_log_is_shown_checked_and_ingested(visit: Callable[..., Any], log: Path) -> None:
    page = visit("/plugin/lucid/ingest")
    page.get_by_text("Export the accounting of a Slurm").click()
    expect(page.get_by_label("Command that exports Slurm's accounting")).to_have_text(EXPORT_COMMAND)
    page.get_by_label("Upload: Log").set_input_files(log)
    how = page.get_by_role("region", name="2. How it will be read")
    expect(how).to_contain_text("can be read as helios")
    expect(how).to_contain_text("31 rows = 30 kept + 1 quarantined + 0 skipped")
    expect(how).to_contain_text("gpu_num = many")
    expect(how).to_contain_text(HOSTILE)  # text, not markup

    page.get_by_label("Format", exact=True).select_option("swf")
    expect(page.get_by_text("The file cannot be ingested as it is")).to_be_visible()
    page.get_by_label("Format", exact=True).select_option("")
    cluster = page.get_by_role("region", name="3. The cluster")
    expect(cluster).to_contain_text("known neither to the log nor to the lake")
    page.get_by_label("Name", exact=True).fill("two words")
    expect(cluster).to_contain_text("cannot name a cluster")
    page.get_by_label("Name", exact=True).fill("brought")
    ingest = page.get_by_role("button", name="as brought")
    expect(ingest).to_be_disabled()
    page.get_by_label("Nodes of vc0").fill("20")
    page.get_by_role("button", name="Fill in the least").click()
    expect(page.get_by_label("Nodes of vc0")).to_have_value("20")  # what was typed in stays
    expect(page.get_by_label(f"Nodes of {HOSTILE}")).to_have_value(
        "15"
    )  # jobs of 4 GPUs at once, on a node each
    expect(ingest).to_be_enabled()
    ingest.click()
    page.wait_for_url("**/dags/ingest_logs/runs/**")


def test_what_is_no_log_is_refused_with_its_columns_and_the_formats(
    visit: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,<b>who</b>,cards\n1,2,3\n")
    page = visit("/plugin/lucid/ingest", scheme="dark")
    page.get_by_label("Upload: Log").set_input_files(path)
    how = page.get_by_role("region", name="2. How it will be read")
    expect(how).to_contain_text("No format fits.")
    expect(how).to_contain_text("when, <b>who</b>, cards")
    expect(how).to_contain_text("philly-csv")
    expect(page.get_by_role("button", name="Ingest")).to_be_disabled()

    page.get_by_label("Format", exact=True).select_option("jobs-csv")
    expect(how).to_contain_text("has no column 'job_id'")
    expect(how).not_to_contain_text("Formats that are read")  # one has been chosen
    for ours, theirs in (("job_id", "<b>who</b>"), ("submit_time", "when"), ("gpus", "cards")):
        page.get_by_label(f"Column of the file for {ours}", exact=True).select_option(theirs)
    expect(how).to_contain_text("1 row = 1 kept + 0 quarantined + 0 skipped")
    sizes = page.get_by_role("region", name="3. The cluster").get_by_role("row", name="default 1")
    expect(sizes).to_contain_text("not knownnot known")  # neither the largest job that ran nor GPUs at once
