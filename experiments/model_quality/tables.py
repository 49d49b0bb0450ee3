"""The tables of docs/model_quality.md, by the name of their markers; every number of ours is measured."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from experiments.model_quality import page as quality_of
from experiments.model_quality.duration_comparison import DurationComparison
from experiments.model_quality.page import ModelQuality
from experiments.model_quality.throughput_clusters import FILES as CLUSTER_FILES
from experiments.model_quality.throughput_clusters import cluster_table
from experiments.model_quality.utilisation import utilisation_standing, utilisation_tables
from experiments.model_quality.verdicts import verdict
from experiments.reproduction.published import PACKING_ACCURACY, TABLE_7
from foundation.markdown import NO_VALUE, markdown_frame, number
from lucid_models.evaluation.baselines import UTILISATION_SUM_PCT
from lucid_models.evaluation.measures import Row
from lucid_models.evaluation.throughput import lead_bins_of

# What each row is; a model that is not here is shown by its name alone.
MODELS: Mapping[str, str] = {
    "ebm": "our model",
    "ebm_weekly": "our model, fitted anew before every week",
    "ebm_unconstrained": "our model before its monotone constraints",
    "lightgbm": "black box on our features",
    "lightgbm_l2": "black box on our features, squared error",
    "rf": "black box on our features",
    "neural": "black box on our features",
    "lucid_published": "the predictions that Lucid's authors shipped",
    "ebm_authors_recipe": "their features and settings, fitted here",
    "lightgbm_authors_recipe": "their features, library defaults",
    "rf_authors_recipe": "their features, library defaults",
    "neural_authors_recipe": "their features, library defaults",
    "zero": "naive: nothing ever comes",
    "last_value": "naive: the newest known bin",
    "rolling_median_12": "naive: median of 12 bins",
    "rolling_median_18": "naive: median of 18 bins",
    "rolling_mean_6": "naive: mean of 6 bins",
    "same_time_yesterday": "naive: the same bin a day ago",
    "same_time_last_week": "naive: the same bin a week ago",
    "size_alone": "naive: moving average of jobs of that size",
    "ewma": "naive: moving average of the user's jobs of that name",
    "tsafrir": "Tsafrir et al.: mean of the user's last two",
    "helios_rolling": "Helios' rolling estimate",
    "helios_mix": "Helios' QSSF, the paper's rules: 0.1 rolling estimate, 0.9 trees on raw ids",
    "helios_mix_shipped": "Helios' QSSF, its artifact's rules",
    "helios_mix_causal": "Helios' mix with trees on our features",
    "lucid_recipe": "Lucid's recipe: EBM on raw ids, seconds",
    "lightgbm_raw_ids": "raw ids, seconds, library defaults",
    "rf_raw_ids": "raw ids, seconds, library defaults",
    "tree": "our model (Lucid's): pruned decision tree",
    "pairwise": "our alternative: additive, on both jobs' profiles",
    "pairwise_rf": "black box on both jobs' profiles",
    "pairwise_neural": "black box on both jobs' profiles",
    "pairwise_lightgbm": "black box on both jobs' profiles",
    "utilisation_sum": f"naive: GPU utilisations sum to at most {UTILISATION_SUM_PCT:g} %",
    "utilisation_sum_learned": "naive: the sum's limit chosen on the training folds",
    "majority_class": "naive: the commonest score",
    "nearest_neighbour": "the most similar configuration",
    "with_leak": f"the published {PACKING_ACCURACY:.1%}: the label's own source among the features",
}
OURS = ("ebm", "ebm_weekly", "ebm_unconstrained", "tree", "pairwise")
_GROUP_MODELS = ("ebm", "ewma", "tsafrir", "helios_mix_causal", "lightgbm", "lucid_recipe")
_LEAD_MODELS = ("ebm", "last_value", "rolling_median_12", "same_time_last_week", "zero")
_SERIES = {"jobs": "jobs submitted", "gpus": "GPUs asked for"}


def tables(quality: ModelQuality) -> dict[str, str]:
    """Return the page's tables, by the name of their markers."""
    throughput = {
        f"throughput_{series}_{lead}": _throughput(quality.throughput.rows, series, lead)
        for series, lead in quality.throughput.forecasts
    }
    return {
        "origin": _origin(quality),
        "standing": _standing(quality),
        "table_7_throughput": _table_7_throughput(quality.throughput.rows),
        "table_7_duration": _table_7_duration(quality.duration.rows),
        **throughput,
        "throughput_by_lead": _by_lead(quality.by_lead),
        **cluster_table(quality.clusters),
        "duration": _duration(quality.duration.rows),
        "duration_groups": _groups(quality.duration, ("user", "name")),
        "duration_synthetic": _duration(quality.synthetic.rows),
        "duration_synthetic_groups": _groups(quality.synthetic, ("user", "name", "virtual_cluster")),
        "packing": _packing(quality.packing),
        **utilisation_tables(quality.utilisation),
    }


def _origin(quality: ModelQuality) -> str:
    splits = {
        quality_of.THROUGHPUT: f"test: the last {quality_of.TEST_DAYS} days, training: all before",
        quality_of.PUBLISHED: "aligned by time with the test bins",
        quality_of.DURATION: f"training: the first {quality_of.TRAIN_DAYS} days, test: all later jobs",
        quality_of.SINGLES: "configurations, or all of a model, left out in turn (graphs: a model)",
        quality_of.PAIRS: "every pair of what is left out is left out too",
        **dict.fromkeys(
            CLUSTER_FILES, "test: the last 14 days (ServeGen: 4), training: 3, 14 and all before"
        ),
    }
    rows = [
        {"data": f"`{name}`", "SHA-256": f"`{digest[:16]}`", "split": splits[name]}
        for name, digest in quality.digests.items()
    ]
    rows.append(
        {
            "data": f"synthetic, like {quality_of.SYNTHETIC_LIKE}, {quality_of.SYNTHETIC_DAYS} days",
            "SHA-256": f"seed {quality_of.SYNTHETIC_SEED}",
            "split": f"training: the first {quality_of.SYNTHETIC_TRAIN_DAYS} days, test: all later jobs",
        }
    )
    return (
        f"Written by `{quality_of.COMMAND}` at commit {quality.commit} on {quality.machine}; "
        f"{quality.cpu_s / 60:.1f} CPU minutes.\n\n{markdown_frame(pd.DataFrame(rows))}"
    )


def _standing(quality: ModelQuality) -> str:
    """One line a test: how many rivals our model beats, and which beat it, whatever the margin."""
    lines = [
        _stands(
            f"{_SERIES[series]}, lead {lead}",
            [row for row in quality.throughput.rows if (row["series"], row["lead"]) == (series, lead)],
            "mae",
            lambda value: number(value, 3),
        )
        for series, lead in quality.throughput.forecasts
    ]
    for title, compared in (
        ("run times, NASA iPSC", quality.duration),
        ("run times, synthetic", quality.synthetic),
    ):
        lines.append(_stands(title, compared.rows, "mae_log10", lambda value: number(value, 4)))
    lines += [
        _pairs_stand(quality.packing, model)
        for model in ("tree", "pairwise")
        if any(row["model"] == model for row in quality.packing)
    ]
    return "\n".join([*lines, *utilisation_standing(quality.utilisation)])


def _pairs_stand(rows: Sequence[Row], model: str) -> str:
    """What our rule for pairs gives on models that it has not seen, beside the bare sum of utilisations."""
    ours = next(row for row in rows if (row["model"], row["protocol"]) == (model, "leave_model_out"))
    bare = next(row for row in rows if row["model"] == "utilisation_sum")
    said = [
        f"at {words} speed precision {number(row[f'precision_{speed}'], 3)}, "
        f"recall {number(row[f'recall_{speed}'], 3)}"
        for row in (ours, bare)
        for speed, words in (("mean", "mean"), ("min", "the lower"))
    ]
    return (
        f"- **pairs by the {model}, a model left out**: {said[0]}, {said[1]}; the bare sum of utilisations: "
        f"{said[2]}, {said[3]}."
    )


def _stands(title: str, rows: Sequence[Row], metric: str, shown: Callable[[float], str]) -> str:
    ours = next(row for row in rows if row["model"] == "ebm")
    rivals = [row for row in rows if row["model"] not in OURS and row[metric] is not None]
    better = [row for row in rivals if verdict(row) == "ours better"]
    ahead = sorted((row for row in rivals if row[metric] < ours[metric]), key=lambda row: float(row[metric]))
    text = f"- **{title}**: {shown(ours[metric])}; clearly better than {len(better)} of {len(rivals)} rivals"
    if not ahead:
        return f"{text}; none is ahead."
    said = ", ".join(
        f"{row['model']} {shown(row[metric])}{'' if verdict(row) == 'ours worse' else ' (may be chance)'}"
        for row in ahead
    )
    return f"{text}; **behind** {said}."


def _throughput(rows: Sequence[Row], series: str, lead: str) -> str:
    found = [row for row in rows if (row["series"], row["lead"]) == (series, lead) and row["mae"] is not None]
    shown = [
        {
            "model": _name(row["model"]),
            "what": MODELS.get(row["model"], ""),
            "MAE": number(row["mae"], 3),
            "minus ours": _difference(row, 3),
            "verdict": verdict(row),
            "fit, CPU s": _cost(row["fit_s"]),
            "predict, CPU ms": _cost(row["predict_ms"]),
        }
        for row in sorted(found, key=lambda row: float(row["mae"]))
    ]
    return markdown_frame(pd.DataFrame(shown))


def _duration(rows: Sequence[Row]) -> str:
    shown = [
        {
            "model": _name(row["model"]),
            "what": MODELS.get(row["model"], ""),
            "tau": number(row["kendall_tau"], 3),
            "Spearman": number(row["spearman"], 3),
            "MAE of log10": number(row["mae_log10"], 3),
            "minus ours": _difference(row, 3),
            "verdict": verdict(row),
            "R2, mean head": number(row["r2_mean_head"], 3),
            "within P50": _share(row["coverage_p50"]),
            "within P90": _share(row["coverage_p90"]),
            "negative": _share(row["negative_share"]),
            "fit, CPU s": _cost(row["fit_s"]),
            "predict, CPU ms": _cost(row["predict_ms"]),
        }
        for row in sorted(rows, key=lambda row: float(row["mae_log10"]))
    ]
    return markdown_frame(pd.DataFrame(shown))


def _groups(compared: DurationComparison, splits: Sequence[str]) -> str:
    models = [name for name in _GROUP_MODELS if any(row["model"] == name for row in compared.by_group)]
    frame = pd.DataFrame(compared.by_group)
    shown = []
    for (split, group), rows in frame[frame["split"].isin(splits)].groupby(["split", "group"], sort=False):
        errors = dict(zip(rows["model"], rows["mae_log10"], strict=True))
        label = f"virtual cluster {group}" if split == "virtual_cluster" else f"{group} {split}"
        jobs = f"{int(rows['jobs'].iloc[0]):,}"
        shown.append({"jobs of": label, "jobs": jobs} | {name: number(errors[name], 3) for name in models})
    return markdown_frame(pd.DataFrame(shown))


def _by_lead(rows: Sequence[Row]) -> str:
    leads = sorted({str(row["lead"]) for row in rows}, key=lead_bins_of)
    found = {(row["series"], row["lead"], row["model"]): row["mae"] for row in rows}
    shown = [
        {"series": _SERIES[series], "model": _name(model)}
        | {lead: number(found.get((series, lead, model)), 2) for lead in leads}
        for series in _SERIES
        for model in _LEAD_MODELS
    ]
    return markdown_frame(pd.DataFrame(shown))


def _packing(rows: Sequence[Row]) -> str:
    shown = [
        {
            "model": _name(row["model"]),
            "what": MODELS.get(row["model"], ""),
            "left out": {"loo": "a configuration", "leave_model_out": "a model"}.get(
                row["protocol"], "nothing"
            ),
            "accuracy": number(row["accuracy"], 3),
            "severe errors": number(row["severe_errors"], 3),
            **{
                f"{part}, {speed} speed": number(row[f"{part}_{speed}"], 3)
                for speed in ("mean", "min")
                for part in ("precision", "recall")
            },
            "fit, CPU s": _cost(row.get("fit_s")),
            "predict, CPU ms": _cost(row.get("predict_ms")),
        }
        for row in rows
    ]
    return markdown_frame(pd.DataFrame(shown))


def _table_7_throughput(rows: Sequence[Row]) -> str:
    mae = {row["model"]: row["mae"] for row in rows if (row["series"], row["lead"]) == ("jobs", "g5")}
    published = TABLE_7["throughput_mae"]
    return _as_table_7(
        3,
        {
            "the paper's Table 7": published,
            "their shipped predictions, measured here": {"lucid": mae.get("lucid_published")},
            "their recipe, fitted here": {
                "rf": mae.get("rf_authors_recipe"),
                "lightgbm": mae.get("lightgbm_authors_recipe"),
                "dnn": mae.get("neural_authors_recipe"),
                "lucid": mae.get("ebm_authors_recipe"),
            },
            "our features, the same lead": {
                "rf": mae.get("rf"),
                "lightgbm": mae.get("lightgbm"),
                "dnn": mae.get("neural"),
                "lucid": mae["ebm"],
            },
            "our features, fitted anew every week": {"lucid": mae.get("ebm_weekly")},
        },
    )


def _table_7_duration(rows: Sequence[Row]) -> str:
    r2 = {row["model"]: row["r2_mean_head"] for row in rows}
    return _as_table_7(
        3,
        {
            "the paper's Table 7 (Venus)": TABLE_7["duration_r2"],
            "raw ids, seconds, as in the paper (NASA iPSC)": {
                "rf": r2.get("rf_raw_ids"),
                "lightgbm": r2.get("lightgbm_raw_ids"),
                "lucid": r2.get("lucid_recipe"),
            },
            "our features, mean heads (NASA iPSC)": {
                "rf": r2.get("rf"),
                "lightgbm": r2.get("lightgbm"),
                "dnn": r2.get("neural"),
                "lucid": r2["ebm"],
            },
        },
    )


def _as_table_7(digits: int, rows: Mapping[str, Mapping[str, float | None]]) -> str:
    columns = {"rf": "RF", "lightgbm": "LightGBM", "xgboost": "XGBoost", "dnn": "DNN", "lucid": "Lucid (EBM)"}
    shown = [
        {"": title} | {head: number(row.get(key), digits) for key, head in columns.items()}
        for title, row in rows.items()
    ]
    return markdown_frame(pd.DataFrame(shown))


def _name(model: str) -> str:
    return f"**{model}**" if model in OURS else model


def _difference(row: Row, digits: int) -> str:
    if row["worse_by"] is None or row["model"] == "ebm":
        return NO_VALUE
    text = f"{row['worse_by']:+.{digits}f}"
    if row["worse_by_low"] is None:
        return text
    return f"{text} ({row['worse_by_low']:+.{digits}f} to {row['worse_by_high']:+.{digits}f})"


def _share(value: float | None) -> str:
    return NO_VALUE if value is None else f"{100 * value:.1f} %"


def _cost(value: float | None) -> str:
    if value is None:
        return NO_VALUE
    return "0" if value == 0 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
