"""Predictions before a job has run: what they keep to, and how they do on models that nobody profiled."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.model_quality.utilisation_rivals import all_contenders
from experiments.profiling.zoo_graphs import measure_zoo
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from lucid_models.model_format import (
    load_model,
    save_model,
)
from lucid_models.scoring import load_scorer
from lucid_models.serving_frames import score_frame, serving_frame
from parts.horus.evaluation import TARGETS, evaluate_utilisation
from parts.horus.formulas import Margins, level_of_cost, model_quantile
from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures
from parts.horus.model import (
    UtilisationModel,
    UtilisationSettings,
    fit_memory,
    fit_step,
    join_graphs,
    read_features_table,
    read_zoo_features,
)
from parts.horus.scorer import FIGURES, TERMS
from pipeline.overview.model_figures import main_figures
from profiler_jobs.workloads import all_job_types
from tests.lucid_models.model_conformance import Case, ModelConformance

pytestmark = pytest.mark.slow

GRAPHS = read_zoo_features()
NAMES = sorted(GRAPHS)
UTIL = [name for name in FIGURES if name.endswith("_pct")]


SMALL_GRAPH = GraphFeatures.from_data(dict.fromkeys(FEATURE_NAMES, 3))


# What every kind of model promises -------------------------------------------------------------------


def graphs_of(solo):
    rows = join_graphs(solo)
    return rows.graphs, [bool(amp) for amp in rows.amp]


def all_figures(predictions):
    return np.array([[getattr(one, name) for name in FIGURES] for one in predictions])


CASE = Case(
    "utilisation",
    "utilisation_model",
    lambda model, data: all_figures(model.predict(*graphs_of(data))),
    lambda scorer, data: all_figures(scorer.predict(*graphs_of(data))),
    lambda model, data: model.explain_local(*(column[0] for column in graphs_of(data))),
    "zoo_profiles",
    {"global_importances.png", "local_explanation.png"},
    """
from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures
from parts.horus.scorer import FIGURES
graph = GraphFeatures.from_data(dict.fromkeys(FEATURE_NAMES, 3))
found = scorer.predict([graph, graph.at_batch(9)], [False, True])
assert all(one.reason for one in found)
numbers = [[getattr(one, name) for name in FIGURES] for one in found]
""",
)


class TestUtilisationModel(ModelConformance):
    """The Utilisation Model is held to what all models are."""

    @pytest.fixture
    def case(self, request):
        return CASE, request.getfixturevalue(CASE.fixture), request.getfixturevalue(CASE.table)


def test_it_has_no_main_figures() -> None:
    assert main_figures("utilisation", {"mae_log10": 0.3, "kendall_tau": 0.7, "coverage_p90": 0.88}) == []


# The zoo's table -------------------------------------------------------------------------------------


def test_the_table_holds_the_whole_zoo() -> None:
    assert list(GRAPHS) == [one.name for one in all_job_types()]
    assert all(GRAPHS[one.name].batch_size == one.batch_size for one in all_job_types())


@pytest.mark.parametrize(
    ("job_type", "gmacs", "parameters"),
    [
        ("ResNet50/ImageNet/32/0", 4.1, 25.6e6),  # He et al.; the figures of torchvision's model zoo
        ("MobileNetV3/ImageNet/32/0", 0.22, 5.5e6),
        ("ResNet18/CIFAR-10/32/0", 0.56, 11.2e6),
        ("VGG/CIFAR-10/32/0", 0.153, 9.2e6),
        # 12 layers x (12 x 768^2 weights + 2 x 384 x 768 of attention) x 384 tokens
        ("BERT/SQuAD/32/0", 35.3, 109e6),
    ],
)
def test_published_figures_are_met(job_type: str, gmacs: float, parameters: float) -> None:
    graph = GRAPHS[job_type]
    assert graph.macs / graph.batch_size / 1e9 == pytest.approx(gmacs, rel=0.02)
    assert graph.parameters == pytest.approx(parameters, rel=0.01)


@pytest.mark.thorough("PyTorch")
def test_rows_are_what_the_exporter_gives(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnx")
    from experiments.profiling.onnx_export import export_zoo

    chosen = [one for one in all_job_types() if one.name in ("NeuMF/MovieLens/64/0", "LSTM/Wikitext2/64/1")]
    export_zoo(chosen, tmp_path)
    names = [one.name for one in chosen]
    assert measure_zoo(tmp_path, names) == {name: GRAPHS[name] for name in names}
    with pytest.raises(NotFoundError, match="TD3_32_0"):
        measure_zoo(tmp_path, ["TD3/BipedalWalker/32/0"])


def test_a_bad_table_is_refused_by_its_row(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    with pytest.raises(NotFoundError):
        read_features_table(file)
    file.write_text("job_type,batch_size\na,1\n", encoding="utf-8")
    with pytest.raises(BadInputError, match="lacks the columns"):
        read_features_table(file)
    columns = ",".join(["job_type", *FEATURE_NAMES])
    file.write_text(f"{columns}\na{',1' * (len(FEATURE_NAMES) - 1)},x\n", encoding="utf-8")
    with pytest.raises(BadInputError, match="'a'"):
        read_features_table(file)


# Margins ---------------------------------------------------------------------------------------------


def test_the_level_follows_from_the_costs() -> None:
    assert level_of_cost(1) == 0.5
    assert level_of_cost(3) == 0.75
    # The quantile at that level is the cheapest guess.
    values = np.random.default_rng(0).gamma(2.0, size=2_000)
    guesses = np.linspace(0, 8, 400)
    costs = [np.where(values > guess, 3 * (values - guess), guess - values).mean() for guess in guesses]
    assert guesses[int(np.argmin(costs))] == pytest.approx(np.quantile(values, 0.75), abs=0.05)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(-5, 5)), min_size=3, max_size=60),
    st.floats(0.5, 0.95),
)
def test_a_quantile_covers_its_share_of_models_each_counted_once(rows, level: float) -> None:
    models = [f"m{model}" for model, _ in rows]
    residuals = np.array([value for _, value in rows])
    found = model_quantile(residuals, models, level)
    assert found in residuals
    share = np.mean(
        [
            np.mean([r <= found for m, r in zip(models, residuals, strict=True) if m == one])
            for one in set(models)
        ]
    )
    assert share >= level - 1e-9
    assert model_quantile(residuals, models, 1 - level) <= found
    margins = Margins.of(residuals, models, level=level, range_share=0.8)
    assert margins.low <= margins.careful <= margins.high


def test_one_model_of_many_configurations_does_not_decide() -> None:
    residuals = np.array([9.0] * 50 + [0.0, 1.0, 2.0, 3.0])
    models = ["large"] * 50 + ["a", "b", "c", "d"]
    assert model_quantile(residuals, models, 0.5) == 2.0


# Predictions -----------------------------------------------------------------------------------------


def figures(model, graph: GraphFeatures, amp: bool = False) -> dict[str, float]:
    (found,) = model.predict([graph], [amp])
    return {name: getattr(found, name) for name in FIGURES}


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(NAMES), batch=st.integers(1, 2_000), more=st.integers(1, 100), amp=st.booleans())
def test_more_examples_never_ask_for_less(utilisation_model, name, batch, more, amp) -> None:
    graph = GRAPHS[name]
    one = figures(utilisation_model, graph.at_batch(batch), amp)
    two = figures(utilisation_model, graph.at_batch(batch + more), amp)
    assert all(two[figure] >= one[figure] - 1e-9 for figure in FIGURES)
    assert two["gpu_mem_mib"] > one["gpu_mem_mib"] or graph.activation_elements == 0


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(NAMES), factor=st.floats(1.0, 1e3), amp=st.booleans())
def test_utilisation_rises_with_the_work_an_operator_brings(utilisation_model, name, factor, amp) -> None:
    graph = GRAPHS[name]
    for changed in ("dense_macs", "activation_elements"):
        heavier = replace(graph, **{changed: getattr(graph, changed) * factor})
        one, two = figures(utilisation_model, graph, amp), figures(utilisation_model, heavier, amp)
        assert two["gpu_util_pct"] >= one["gpu_util_pct"] - 1e-9
    # Longer pauses between kernels: the same work over more operators.
    split = replace(graph, elementwise=graph.elementwise * 3 + 10)
    if utilisation_model.scorer.step.per_kernel < 1.0 and graph.flops_per_operator > 1e8:
        assert (
            figures(utilisation_model, split, amp)["gpu_util_pct"]
            < figures(utilisation_model, graph, amp)["gpu_util_pct"]
        )


@settings(max_examples=60, deadline=None)
@given(
    values=st.fixed_dictionaries(
        {
            name: (
                st.integers(1, 10**6)
                if name in ("batch_size", "elementwise")
                else st.integers(0, 10**5)
                if name
                in (
                    "convolutions",
                    "depthwise_convolutions",
                    "matrix_products",
                    "normalisations",
                    "recurrent",
                )
                else st.floats(0, 1e15)
            )
            for name in FEATURE_NAMES
        }
    ),
    amp=st.booleans(),
)
def test_any_graph_gets_figures_in_bounds_and_in_order(utilisation_model, values, amp) -> None:
    found = figures(utilisation_model, GraphFeatures.from_data(values), amp)
    assert all(np.isfinite(value) and value >= 0 for value in found.values())
    assert all(found[name] <= 100 for name in UTIL)
    for figure, unit in (("gpu_util", "pct"), ("gpu_mem_util", "pct"), ("gpu_mem", "mib")):
        low, mid, high = (found[f"{figure}{end}_{unit}"] for end in ("_low", "", "_high"))
        assert low <= mid <= high
    assert found["gpu_mem_util_pct"] <= found["gpu_util_pct"] + 1e-9


def test_accounts_add_up_and_reasons_say_them(utilisation_model) -> None:
    for name in NAMES:
        for amp in (False, True):
            account = utilisation_model.explain_local(GRAPHS[name], amp)
            (found,) = utilisation_model.predict([GRAPHS[name]], [amp])
            assert {term["term"] for term in account["terms"]} == set(TERMS)
            assert sum(term["contribution"] for term in account["terms"]) == pytest.approx(found.gpu_util_pct)
            assert sum(account["memory_mib"].values()) == pytest.approx(found.gpu_mem_mib)
            assert f"{found.gpu_util_pct:.0f} %" in account["reason"]
            assert ("mixed precision" in account["reason"]) == amp


def test_what_is_unlike_all_that_was_measured_is_said(utilisation_model) -> None:
    known = GRAPHS["ResNet18/CIFAR-10/64/0"]
    strange = replace(known, parameters=7e9, dense_macs=known.dense_macs * 1e4)
    (one, two) = utilisation_model.predict([known, strange], [False, False])
    assert one.beyond == ()
    assert two.beyond == ("parameters", "macs_per_operator")
    assert "take this as a guess" in two.reason


def test_one_amp_switch_a_graph(utilisation_model) -> None:
    assert utilisation_model.predict([], []) == []
    with pytest.raises(BadInputError, match="1 graphs come with 2"):
        utilisation_model.predict([GRAPHS[NAMES[0]]], [True, False])


# Learning --------------------------------------------------------------------------------------------


def test_learning_twice_or_in_another_order_gives_the_same(zoo_profiles, utilisation_model) -> None:
    again = UtilisationModel().fit(zoo_profiles).to_data()
    assert again == utilisation_model.to_data()
    shuffled = UtilisationModel().fit(zoo_profiles.sample(frac=1.0, random_state=3)).to_data()
    graph = GRAPHS["BERT/SQuAD/32/0"]
    one = figures(UtilisationModel.from_data(again), graph)
    two = figures(UtilisationModel.from_data(shuffled), graph)
    assert one == pytest.approx(two, rel=1e-5)


def test_saved_and_loaded_it_is_the_same_to_the_last_bit(utilisation_model, tmp_path: Path) -> None:
    digest = save_model(utilisation_model.to_data(), tmp_path / "one.json")
    scorer = load_scorer(tmp_path / "one.json", kind="utilisation")
    assert save_model(scorer.to_data(), tmp_path / "two.json") == digest
    graphs, amp = list(GRAPHS.values()), [False] * len(GRAPHS)
    assert scorer.predict(graphs, amp) == utilisation_model.predict(graphs, amp)
    assert load_model(tmp_path / "one.json")["kind"] == "utilisation"


def test_a_table_is_served_row_for_row(utilisation_model) -> None:
    table = pd.DataFrame([{**GRAPHS[name].to_data(), "amp": 1.0} for name in NAMES[:5]])
    assert set(table.columns) == set(serving_frame("utilisation").inputs)
    found = score_frame(utilisation_model.scorer, table)
    assert list(found.columns) == list(serving_frame("utilisation").outputs)
    assert found["gpu_util_pct"].tolist() == [
        figures(utilisation_model, GRAPHS[name], True)["gpu_util_pct"] for name in NAMES[:5]
    ]


def test_too_little_to_learn_from_is_refused(zoo_profiles) -> None:
    few = zoo_profiles[zoo_profiles["model"].isin(["VGG", "PPO", "BERT"])]
    with pytest.raises(BadInputError, match="Profiles of 3 models"):
        UtilisationModel().fit(few)
    with pytest.raises(BadInputError, match="of 2 devices"):
        join_graphs(zoo_profiles.assign(device=["a", "b"] * (len(zoo_profiles) // 2)))
    with pytest.raises(BadInputError, match="None of the 66"):
        join_graphs(zoo_profiles.assign(job_type="x"))
    with pytest.raises(BadInputError, match="memory_under_cost"):
        UtilisationSettings(memory_under_cost=0.5)
    with pytest.raises(BadInputError, match="has not been fitted"):
        UtilisationModel().to_data()


def test_profiles_without_a_graph_are_counted(zoo_profiles) -> None:
    extra = zoo_profiles.iloc[[0]].assign(job_type="Own/data/8/0", model="Own")
    joined = join_graphs(pd.concat([zoo_profiles, extra], ignore_index=True))
    assert (len(joined), joined.without_graph, joined.simulated) == (66, 1, True)


def test_the_formulas_are_found_again_in_what_they_made() -> None:
    """Profiles that the formulas themselves made, without an error, are learned back."""
    rows = join_graphs(pd.DataFrame(
        [
            {"job_type": one.name, "model": one.model.name, "amp": int(one.amp), "gpu_util_pct": 50.0,
             "gpu_mem_util_pct": 20.0, "gpu_mem_mib": 1.0, "device": "made", "simulated": True}
            for one in all_job_types()
        ]
    ))  # fmt: skip
    from parts.horus.formulas import MemoryModel, StepModel

    step = StepModel(0.3, 3.0, 0.4, 15.0, 0.55, 1.2, 1.6, 0.7)
    memory = MemoryModel(1_500.0, 4.5, 0.8)
    made = replace(
        rows,
        gpu_util_pct=100 * step.utilisation(rows.columns, rows.amp),
        gpu_mem_util_pct=100 * step.memory_utilisation(rows.columns, rows.amp),
        gpu_mem_mib=memory.mib(rows.columns, rows.amp),
    )
    found = fit_step(made, 1e-3)
    assert found.to_data() == pytest.approx(step.to_data(), rel=0.02)
    assert fit_memory(made).to_data() == pytest.approx(memory.to_data(), rel=1e-6)


# Measured --------------------------------------------------------------------------------------------


def by_model(rows) -> dict[tuple[str, str], dict]:
    return {(row["target"], row["model"]): row for row in rows}


def test_on_the_simulated_gpu_unseen_models_are_told_better_than_by_the_mean(zoo_profiles) -> None:
    rows = by_model(evaluate_utilisation(zoo_profiles, models=["formula", "mean", "batch_size"]))
    for target in TARGETS:
        ours = rows[target, "formula"]
        for rival in ("mean", "batch_size"):
            assert ours["mae"] < 0.75 * rows[target, rival]["mae"], (target, rival)
            assert ours["careful_mae"] < 0.75 * rows[target, rival]["careful_mae"], (target, rival)
    assert rows["gpu_util_pct", "formula"]["under_models"] <= 0.25 + 1 / 14
    assert rows["gpu_mem_mib", "formula"]["under_models"] <= 1 / 7 + 1 / 14


@pytest.mark.reference
def test_on_the_measured_rtx_3090_unseen_models_are_told_better_than_by_the_mean(rtx_3090_solo) -> None:
    solo = rtx_3090_solo
    rows = by_model(
        evaluate_utilisation(
            solo, models=["formula", "mean", "batch_size", "ridge"], contenders=all_contenders
        )
    )
    util, memory = rows["gpu_util_pct", "formula"], rows["gpu_mem_mib", "formula"]
    assert util["mae"] < 0.55 * rows["gpu_util_pct", "mean"]["mae"]
    assert util["mae"] < 0.75 * rows["gpu_util_pct", "ridge"]["mae"]
    assert memory["mape"] < 0.2 < 0.3 < rows["gpu_mem_mib", "ridge"]["mape"]
    assert memory["mae"] < 0.5 * rows["gpu_mem_mib", "batch_size"]["mae"]
    assert rows["gpu_mem_util_pct", "formula"]["mae"] < 0.7 * rows["gpu_mem_util_pct", "mean"]["mae"]
    # Careful as was asked: one model in four for utilisation, one in seven for memory, and one of 14 more.
    assert util["under_models"] <= 0.25 + 1 / 14
    assert memory["under_models"] <= 1 / 7 + 1 / 14


@pytest.mark.reference
def test_the_more_an_under_estimate_costs_the_fewer_there_are(rtx_3090_solo) -> None:
    solo = rtx_3090_solo
    shares = []
    for cost in (1.0, 9.0):
        rules = UtilisationSettings(util_under_cost=cost, memory_under_cost=cost)
        rows = by_model(evaluate_utilisation(solo, settings=rules, models=["formula"]))
        shares.append([rows[target, "formula"]["under_models"] for target in TARGETS])
        assert max(shares[-1]) <= 1 - level_of_cost(cost) + 1 / 14
    assert (np.diff(shares, axis=0) < 0).all()


def test_an_unknown_contender_is_refused_with_the_known(zoo_profiles) -> None:
    with pytest.raises(UnknownNameError, match="formula"):
        evaluate_utilisation(zoo_profiles, models=["oracle"])


def test_predicting_needs_numpy_only(utilisation_model, tmp_path: Path) -> None:
    save_model(utilisation_model.to_data(), tmp_path / "model.json")
    program = (
        "import json, sys\n"
        "from lucid_models.scoring import load_scorer\n"
        "from parts.horus.model import read_zoo_features\n"
        "graph = read_zoo_features()['VGG/CIFAR-10/64/0']\n"
        "found = load_scorer(sys.argv[1]).predict([graph], [True])[0]\n"
        "heavy = ('torch', 'onnx', 'onnxscript', 'onnx_tool', 'pandas', 'scipy', 'sklearn', 'interpret')\n"
        "print(json.dumps([found.gpu_mem_mib, [name for name in heavy if name in sys.modules]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    predicted, loaded = json.loads(done.stdout)
    assert loaded == []
    assert predicted == figures(utilisation_model, GRAPHS["VGG/CIFAR-10/64/0"], True)["gpu_mem_mib"]
