"""What the forms' fields may say: no place that a worker may not open, no free text unthought of."""

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import ParamValidationError
from airflow.sdk.exceptions import AirflowFailException

from lucid_airflow import form_fields
from lucid_airflow.dag_defaults import dag_ids
from lucid_airflow.operators.base import LucidOperator

DAGS = sorted(dag_ids())

# Free text that names nothing to open: words and patterns of names, looked up or compared and no more.
WORDS = {
    "evaluate_policies": {"rules", "source_format"},
    "plan_capacity": {"rules", "source_format"},
    "profile_workloads": {"workloads"},
    "publish_release": {"reason"},
    "rollback_release": {"reason"},
    "search_pareto_front": {"virtual_cluster"},
}
# Values by name. What of them names a file, as a policy's configuration may, is checked when it is opened.
OBJECTS = {
    "evaluate_policies": {"added_nodes", "node_sleep", "settings", "variants"},
    "ingest_logs": {"columns"},
    "monitor_live": {"settings"},
    "plan_capacity": {"node_sleep", "settings"},
    "tune_system": {"search"},
    "validate_release": {"rules"},
}


def is_free(schema: dict[str, Any], kind: str) -> bool:
    """Whether a field takes any text (or object) at all."""
    if "items" in schema and not is_free(schema["items"], kind):
        return False
    types = schema["items"]["type"] if "items" in schema else schema.get("type", "string")
    return kind in (types if isinstance(types, list) else [types]) and not {
        *("enum", "if", "pattern", "format", "reads_from"),
    } & {*schema, *schema.get("items", ())}


@pytest.mark.slow
@pytest.mark.parametrize("dag_id", DAGS)
def test_a_field_of_free_text_is_a_place_or_known_words(dag_bag: Any, dag_id: str) -> None:
    """A new text field must be declared: with `form_fields.place`, a pattern or an enum, or named above."""
    params = dag_bag.dags[dag_id].params
    schemas = {name: params.get_param(name).schema for name in params}
    for kind, known in (("string", WORDS), ("object", OBJECTS)):
        assert {name for name in schemas if is_free(schemas[name], kind)} == known.get(dag_id, set())
    places = {name for name in schemas if "reads_from" in schemas[name]}
    assert {name for name in schemas if name.endswith(("_uri", "_path", "_dir", "_file"))} <= places


MOST_ORDINARY = 6  # fields that are open at once; the others are folded in sections


def test_a_form_opens_with_few_fields_and_each_says_what_it_wants(dag_bag: Any) -> None:
    """Ordinary ones first, then sections; all are titled and described, with their bounds."""
    for dag_id, dag in dag_bag.dags.items():
        fields = {name: dag.params.get_param(name) for name in dag.params}
        sections = [field.schema.get("section") for field in fields.values()]
        if dag_id == "renew_publications":  # of every cluster, and nothing to say about it
            assert sections == []
            continue
        assert 1 <= sections.count(None) <= MOST_ORDINARY, dag_id
        in_order = list(dict.fromkeys(sections))
        assert in_order[0] is None, f"{dag_id} does not begin with ordinary fields"
        assert sections == sorted(sections, key=in_order.index), f"a section of {dag_id} is cut in two"
        for name, field in fields.items():
            place, schema = f"{dag_id}.{name}", field.schema
            assert schema["title"][0].isupper() or schema["title"][0].isdigit(), place
            assert field.description, place
            assert field.description[0].isupper() or field.description[0].isdigit(), place
            assert field.description.endswith("."), place
            assert "type" in schema, f"{place} could be cleared, and the run would be refused"
            assert field.value != "" or "null" in schema["type"], (
                f"{place} is empty and must not be: no Trigger"
            )
            for bound in ("minimum", "maximum", "minLength", "maxLength"):
                stated = f"{schema.get(bound, 1):,g}".removesuffix(".0")
                assert schema.get(bound, 1) == 1 or stated in field.description, f"{place}: {bound}"
            for text in schema.get("values_display", {}):
                assert text in [str(each) if each is not None else "null" for each in schema["enum"]], place


def test_defaults_and_what_a_form_offers_are_accepted(dag_bag: Any) -> None:
    for dag in dag_bag.dags.values():
        for name in dag.params:
            field = dag.params.get_param(name)
            offered = field.schema.get("enum", field.schema.get("examples", []))
            several = "array" in field.schema["type"]
            if field.has_value:
                field.resolve(field.value)
            for value in [offered] if several and offered else offered:
                field.resolve(value)


RULED = {
    "../other": form_fields.CLUSTER,
    "yesterday": form_fields.DAY_OR_TIME,
    "next week": form_fields.DAY_TIME_OR_NOW,
    "8 o'clock": form_fields.TIME_ZONE,
    "gpu0": form_fields.DEVICE,
    "speed": form_fields.OBJECTIVE,
    "the third": form_fields.FRONT_POINT,
}


def test_what_a_rule_refuses_is_refused_in_the_words_that_the_form_states(dag_bag: Any) -> None:
    """By Airflow's server, which knows the form as it was stored."""
    from airflow.serialization.serialized_objects import DagSerialization

    tried = set()
    for dag in dag_bag.dags.values():
        stored = DagSerialization.from_dict(DagSerialization.to_dict(dag)).params
        for name in dag.params:
            field = dag.params.get_param(name)
            several = "items" in field.schema
            rule = field.schema.get("items", field.schema).get("else", {}).get("const")
            assert "pattern" not in field.schema.get("items", field.schema), (
                "a pattern is refused without words"
            )
            for value, expected in RULED.items():
                if rule == expected.words:
                    tried.add(value)
                    assert expected.sentence in field.description
                    named = {"cluster": "small"} if "cluster" in dag.params else {}
                    given = named | {name: [value, value] if several else value}
                    with pytest.raises(ParamValidationError) as refused:
                        stored.deep_merge(given).validate()
                    first_line = str(refused.value).splitlines()[0]
                    assert first_line.startswith(f"Invalid input for param {name}: ")
                    assert expected.words in first_line
    assert tried == set(RULED)


def test_a_form_suggests_the_clusters_of_a_lake_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_lake: Path
) -> None:
    assert form_fields.another_cluster("Cluster", "Which.").schema["examples"] == ["small"]
    for elsewhere in ("s3://lucid-lake", str(tmp_path / "nothing")):
        monkeypatch.setenv("LUCID_LAKE_URI", elsewhere)
        assert "examples" not in form_fields.another_cluster("Cluster", "Which.").schema


def test_a_form_asks_for_the_cluster_where_there_are_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path))
    (tmp_path / "jobs" / "cluster=one").mkdir(parents=True)
    only = form_fields.the_cluster("Which.")
    assert only.resolve() is None
    assert "Empty: the lake's only one." in only.description
    (tmp_path / "jobs" / "cluster=two").mkdir()
    asked = form_fields.the_cluster("Which.")
    assert not asked.has_value
    assert asked.schema["examples"] == ["one", "two"]
    assert "Empty" not in asked.description
    with pytest.raises(ParamValidationError):
        asked.resolve()
    assert asked.resolve("two") == "two"


def test_the_form_of_ingest_names_no_made_cluster(dag_bag: Any) -> None:
    params = dag_bag.dags["ingest_logs"].params
    assert not params.get_param("cluster").has_value
    assert params["source_format"] == "sacct"


def places(dag_bag: Any) -> list[tuple[str, str]]:
    return [
        (dag_id, name)
        for dag_id, dag in dag_bag.dags.items()
        for name in dag.params
        if "reads_from" in dag.params.get_param(name).schema
    ]


@pytest.mark.slow
def test_no_task_begins_when_a_field_names_a_place_outside(
    dag_bag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "state" / "lake"))
    monkeypatch.setenv("LUCID_LIVE", "http://127.0.0.1:1")
    monkeypatch.setattr(LucidOperator, "log_progress", lambda self: pytest.fail("the task has begun"))
    fields = places(dag_bag)
    assert len(fields) >= 12
    outside = cycle(("/etc/passwd", "http://127.0.0.1:2/x", f"{tmp_path}/state/secrets/key"))
    for dag_id, name in fields:
        dag = dag_bag.dags[dag_id]
        title = dag.params.get_param(name).schema["title"]
        tasks = [task for task in dag.tasks if isinstance(task, LucidOperator)]
        assert tasks
        for task in tasks:
            value = next(outside)
            params = {**dag.params.dump(), name: value}
            caplog.clear()
            with pytest.raises(AirflowFailException, match="BadInputError"):
                task.execute({"dag": dag, "params": params})
            (reason,) = [entry.message for entry in caplog.records if entry.levelname == "ERROR"]
            assert reason.startswith(f"Field {title!r}: {value!r} lies outside")
            assert "LUCID_INPUT_ROOTS" in reason


def test_the_inbox_the_lake_and_the_live_scheduler_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucid_airflow import settings

    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", "s3://lucid-lake")
    monkeypatch.setenv("LUCID_INPUT_ROOTS", f"{tmp_path}/logs, s3://logs/")
    monkeypatch.setenv("LUCID_LIVE", "http://127.0.0.1:1")
    for place in (
        f"{tmp_path}/state/inbox/a.gz",
        f"{tmp_path}/logs/a",
        "s3://lucid-lake/jobs",
        "s3://logs/a",
    ):
        settings.input_roots().admit(place)
    for place in ("http://127.0.0.1:1", f"{tmp_path}/state/live/mine"):
        settings.live_roots().admit(place)
