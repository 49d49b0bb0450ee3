"""The grade of a replay in a characterisation: of a cluster, of a file, and where there is none."""

import json
from pathlib import Path

from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import synthesize, write_to_lake
from foundation.site import Site
from parts.characterisation.inputs import (
    LogFiles,
    View,
    grade_of_cluster,
    grade_of_files,
    read_lake_log,
    read_log_files,
)
from parts.characterisation.records import write_report
from parts.characterisation.report import report_on


def test_the_page_of_a_cluster_tells_the_grade_and_its_rule_once(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    write_to_lake(synthesize("helios-venus", days=2, seed=0), lake, "one")
    log = read_lake_log(Site(lake=lake.uri, cluster="one"), View())
    grade = grade_of_cluster(Site(lake=lake.uri, cluster="one"), log)
    assert grade is not None
    assert grade.grade == "A"
    page = write_report(report_on(log, grade=grade), tmp_path / "out").read_text()
    assert page.count(grade.to_data()["rule"].replace("'", "&#39;")) == 1
    assert json.loads((tmp_path / "out" / "report.json").read_text())["grade"]["grade"] == "A"


def test_a_log_file_without_starts_or_nodes_is_not_graded_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s\na,vc,1,0,60,60\nb,vc,1,30,60,60\n"
    )
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc,1\n")
    for nodes, said in ((None, "nodes are not given"), (str(tmp_path / "nodes.csv"), "when jobs started")):
        files = LogFiles(str(tmp_path / "log.csv"), "reference-csv", nodes=nodes)
        grade = grade_of_files(files, View(), read_log_files(files, View()))
        assert grade is not None
        assert grade.grade is None
        assert said in grade.sentence
