"""The DAG `forecast_inference_load` in Airflow's graph of assets."""

from typing import Any

from tests.dags.test_dag_policies import conditions, met


def test_a_load_that_is_ingested_starts_it_and_nothing_of_the_chain_waits_for_it(dag_bag: Any) -> None:
    dag = dag_bag.dags["forecast_inference_load"]
    assert met(conditions(dag_bag)["forecast_inference_load"], {"inference_load_table"})
    assert {asset.name for task in dag.tasks for asset in task.outlets} == {"inference_load_model"}
    ingest = dag_bag.dags["ingest_logs"]
    assert "inference_load_table" in {asset.name for task in ingest.tasks for asset in task.outlets}


def test_it_is_daily_by_default(dag_bag: Any) -> None:
    timetable = dag_bag.dags["forecast_inference_load"].timetable
    assert timetable.timetable.expression in ("@daily", "0 0 * * *")
