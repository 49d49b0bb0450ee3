"""The messages, what is said of them in the OpenAPI document, and what of them is refused."""

import types
import typing
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from live_scheduler.capability import capabilities
from live_scheduler.cluster_state import OTHER_FACTS
from live_scheduler.service import live_messages, schema
from live_scheduler.service.metrics import ServiceMetrics
from live_scheduler.service.operations import Operations
from live_scheduler.service.problems import invalid
from live_scheduler.service.web import web_app
from tests.live_scheduler.pushing import pushed_cluster

BASES = (schema.Message, schema.Pushed)


def with_inner(kind: type[schema.Message]) -> dict[str, type[schema.Message]]:
    """A message and those that it holds, by name."""
    found = {kind.__name__: kind}
    for info in kind.model_fields.values():
        _, inner = described(info.annotation)
        if isinstance(inner, type) and issubclass(inner, schema.Message):
            found |= with_inner(inner)
    return found


def of_parts() -> dict[str, type[schema.Message]]:
    """The messages that installed parts bring."""
    parts = capabilities().values()
    kinds = [kind for part in parts if (kind := part.status_type()) is not None]
    kinds += [kind for part in parts for route in part.routes() for kind in (route.query, route.answer)]
    return {name: inner for kind in kinds for name, inner in with_inner(kind).items()}


ZEROS = ("", 0, False, (), {}, 0.0)


def without_bounds(annotation: object) -> object:
    """`Annotated[str, ...]` and a choice of texts are a string."""
    if typing.get_origin(annotation) is typing.Annotated:
        return without_bounds(typing.get_args(annotation)[0])
    return str if typing.get_origin(annotation) is typing.Literal else annotation


def described(annotation: object) -> tuple[str, object]:
    """(one / optional / repeated / map, type) of a field of the schema."""
    annotation = without_bounds(annotation)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (part for part in inner if part is not type(None))
        return "optional", without_bounds(kind)
    if origin is tuple:
        return "repeated", without_bounds(inner[0])
    if origin is dict:
        assert without_bounds(inner[0]) is str
        return "map", without_bounds(inner[1])
    return "one", annotation


MESSAGES = of_parts() | {
    name: kind
    for name, kind in vars(schema).items()
    if isinstance(kind, type) and issubclass(kind, schema.Message) and kind not in BASES
}


@pytest.fixture(scope="module")
def document() -> dict[str, typing.Any]:
    """The OpenAPI document that is served; it asks nothing of what it describes."""
    app: typing.Any = web_app(typing.cast(Operations, None), typing.cast(ServiceMetrics, None), "token")
    while not hasattr(app, "openapi"):
        app = app._app
    return app.openapi()


def test_every_message_is_in_the_openapi_document(document: dict[str, typing.Any]) -> None:
    told = document["components"]["schemas"]
    assert set(told) == set(MESSAGES) - {"Problem", "JobQuery", "QueueQuery"}
    for name, described_there in told.items():
        assert sorted(described_there["properties"]) == sorted(MESSAGES[name].model_fields), name
    assert document["info"]["version"] == schema.VERSION


def test_every_request_has_an_answer_a_problem_and_a_token(document: dict[str, typing.Any]) -> None:
    for path, methods in document["paths"].items():
        for request in methods.values():
            assert request["responses"].keys() == {"200", "default"}, path
            (content,) = request["responses"]["200"]["content"].values()
            assert content["schema"].keys() & {"$ref", "type"}, path
            problem = request["responses"]["default"]["content"]["application/problem+json"]["schema"]
            assert problem["properties"].keys() == schema.Problem.model_fields.keys()
            assert ("security" in request) == (path != "/healthz")
            assert request["summary"]


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_a_field_that_may_be_missing_means_what_was_meant_before_it_was_added(name: str) -> None:
    for field, info in MESSAGES[name].model_fields.items():
        how, _ = described(info.annotation)
        if how == "optional":
            assert info.default is None, field
        elif not info.is_required():
            assert info.get_default(call_default_factory=True) in ZEROS, field


# Round trips


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)
times = st.floats(min_value=1.0, max_value=4e9, allow_subnormal=False)
small = st.integers(min_value=0, max_value=1_000)
facts = st.fixed_dictionaries(
    {}, optional={name: times.map(str) if fact.is_number else texts for name, fact in OTHER_FACTS.items()}
)


def messages(kind: type[schema.Message]) -> st.SearchStrategy[schema.Message]:
    """Any message of a kind whose fields have no rules beyond their bounds."""
    values: dict[str, st.SearchStrategy[typing.Any]] = {}
    for field, info in kind.model_fields.items():
        how, inner = described(info.annotation)
        if how == "one" and typing.get_origin(info.annotation) is typing.Literal:
            one: st.SearchStrategy[typing.Any] = st.sampled_from(typing.get_args(info.annotation))
        elif isinstance(inner, type) and issubclass(inner, schema.Message):
            one = st.deferred(lambda inner=inner: messages(inner))
        elif inner is float and "le=1)" in repr(info):
            one = st.floats(min_value=0.0, max_value=1.0, allow_subnormal=False)
        elif inner is float and "le=5)" in repr(info):
            one = st.floats(min_value=0.0, max_value=5.0, allow_subnormal=False)
        else:
            one = {str: texts, int: small, float: times, bool: st.booleans()}[inner]
        if how == "optional":
            one = st.none() | one
        elif how == "repeated":
            by = {"jobs": lambda m: getattr(m, "job_id", None) or m.job.job_id, "nodes": lambda m: m.name}
            by["servers"] = by["nodes"]
            unique = by.get(field) if isinstance(inner, type) and issubclass(inner, schema.Message) else None
            unique = str if field == "partitions" and inner is str else unique
            one = st.lists(one, max_size=3, unique_by=unique).map(tuple)
        elif how == "map":
            one = facts if field == "facts" else st.dictionaries(texts, one, max_size=3)
        values[field] = one
    made = st.fixed_dictionaries(values)
    if kind is schema.EndedJob:
        made = made.map(lambda v: {**v, "end_time_s": max(v["end_time_s"], v["start_time_s"] or 0.0)})
    if {"gpus", "base", "flexible"} <= values.keys():  # no more GPUs are used than there are
        made = made.map(
            lambda v: {**v, "gpus": sum((*v["base"].values(), *v["flexible"].values()), v["gpus"])}
        )
    return made.map(lambda found: kind(**found))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MESSAGES))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_message_survives_json(name: str, data: st.DataObject) -> None:
    message = data.draw(messages(MESSAGES[name]))
    assert MESSAGES[name].model_validate_json(message.model_dump_json()) == message


@given(state=messages(schema.ClusterState))
@settings(max_examples=25, deadline=None)
def test_a_pushed_cluster_is_read_as_it_was_pushed(state: schema.ClusterState) -> None:
    read = live_messages.live_cluster(state)
    again = live_messages.live_cluster(pushed_cluster(read))
    assert again == read
    assert [job.job_id for job in read.jobs] == [job.job_id for job in state.jobs]
    assert all(job.partition for job in read.jobs)


JOB = {"job_id": "1", "virtual_cluster": "vc1", "gpus": 1, "submit_time_s": 1e9}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at_s": float("nan")}, "ClusterState.at_s is nan"),
        ({"at_s": -1.0}, "ClusterState.at_s is -1.0"),
        ({"jobs": [JOB | {"gpus": -2}]}, "ClusterState.jobs.0.gpus is -2"),
        ({"jobs": [JOB | {"job_id": ""}]}, "ClusterState.jobs.0.job_id is ''"),
        ({"jobs": [JOB, JOB]}, "job '1' is given 2 times"),
        ({"nodes": [{"name": "n", "gpus": 1, "gpus_used": 0, "available": True, "partitions": []}] * 2},
         "node 'n' is given 2 times"),
        ({"nodes": [{"name": "n", "gpus": 1, "gpus_used": 0, "available": True, "partitions": ["a", "a"]}]},
         "partition 'a' is given 2 times"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(change: Mapping[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        schema.ClusterState.model_validate({"at_s": 1e9} | change)
    assert said in str(invalid("ClusterState", raised.value))


def test_unknown_facts_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="'acount' is no such fact"):
        schema.Job(**JOB, facts={"acount": "physics"})
    with pytest.raises(ValidationError, match="could not convert string to float: 'lots'"):
        schema.Job(**JOB, facts={"requested_memory_mib": "lots"})


def test_unknown_fields_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="gpu_count"):
        schema.Job(**JOB, gpu_count=3)


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        schema.Job(**JOB).gpus = 3
