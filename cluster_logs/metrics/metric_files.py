"""Saved metrics: a response of Prometheus' HTTP API (JSON), and the text that exporters and promtool write.

Text comes in formats that look alike: in Prometheus' own a sample's time is in milliseconds, in OpenMetrics,
which ends in `# EOF`, in seconds. `promtool tsdb dump` writes a metric's name among its labels, in braces. A
scrape has no times at all: the caller says when it was.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from cluster_logs import quarantine as q
from cluster_logs.metrics.dcgm import SeriesRules, samples_from_series
from cluster_logs.metrics.gpu_samples import SampleBatch, read_sample_table
from cluster_logs.metrics.prometheus_api import Series, series_of_response
from cluster_logs.metrics.source_account import SourceAccount
from foundation import strict_json
from foundation.errors import BadInputError
from foundation.storage import open_input
from foundation.unpacking import UnpackedFile

_LABELS = r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}'
_LINE = re.compile(
    rf"(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*)?(?P<labels>{_LABELS})?\s+(?P<value>[^\s{{]+)"
    r"(?:\s+(?P<time>[^\s#]+))?(?:\s+#.*)?"
)
_JSON = re.compile(r'\s*(?:\[|\{\s*(?:["}]|$))')  # a dump's line begins with a label
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


def read_samples_file(
    uri: str, rules: SeriesRules | None = None, *, scraped_at_s: float | None = None
) -> SampleBatch:
    """Read samples from a Parquet table, a saved API response or metrics as text; `.gz` is understood.

    `scraped_at_s` (seconds since 1970) is the time of samples that have none. Raises BadInputError for a file
    that is none of these.
    """
    name = uri.rsplit("/", 1)[-1]
    if name.endswith(".parquet"):
        return read_sample_table(uri)
    text = _read_text(uri)
    if _JSON.match(text):
        return _from_response(text, name, uri, rules)
    return _from_text(text, name, rules, scraped_at_s)


def _from_response(text: str, name: str, uri: str, rules: SeriesRules | None) -> SampleBatch:
    try:
        document = strict_json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"{uri} is not JSON: {error}.", remedy="Check that the file is complete."
        ) from error
    documents = document if isinstance(document, list) else [document]

    def all_series() -> Iterator[Series]:
        for one in documents:
            yield from series_of_response(one, uri)

    account = SourceAccount(source_format="prometheus-json", source_file=name)
    return samples_from_series(all_series(), rules, account)


def _from_text(text: str, name: str, rules: SeriesRules | None, scraped_at_s: float | None) -> SampleBatch:
    lines = text.splitlines()
    open_metrics = any(line.strip() == "# EOF" for line in lines[-5:])
    source_format = "openmetrics" if open_metrics else "prometheus-text"
    account = SourceAccount(source_format=source_format, source_file=name)
    series = _series_of_lines(lines, 1.0 if open_metrics else 1e-3, scraped_at_s, account)
    return samples_from_series(series, rules, account)


def _series_of_lines(
    lines: Iterable[str], unit_s: float, scraped_at_s: float | None, account: SourceAccount
) -> Iterator[Series]:
    points: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        try:
            if match is None or not (match["name"] or match["labels"]):
                raise ValueError(line)
            value = float(match["value"])
            time_s = float(match["time"]) * unit_s if match["time"] else scraped_at_s
        except ValueError:
            account.rows_in += 1
            account.refuse(q.UNREADABLE_LINE, number, line)
            continue
        if time_s is None:
            raise BadInputError(
                f"{account.source_file}, line {number}: the sample does not say when it was taken.",
                remedy="A scrape has no times: say when it was (--at TIME).",
            )
        points.setdefault((match["name"] or "", match["labels"] or ""), []).append((time_s, value, number))
    for (metric, labels), samples in points.items():
        table = np.array([point[:2] for point in samples], dtype=np.float64)
        rows = [point[2] for point in samples]
        read = _labels(labels)
        if read is None:
            account.rows_in += len(samples)
            for time_s, value, number in samples:
                account.refuse(q.UNREADABLE_LINE, number, f"{metric}{labels} {value:g} {time_s:g}")
            continue
        named = {"__name__": metric} if metric else {}
        yield Series({**named, **read}, table[:, 0], table[:, 1], rows=rows)


def _labels(text: str) -> Mapping[str, str] | None:
    inside = text[1:-1] if text else ""
    label_values: dict[str, str] = {}
    at = 0
    while at < len(inside) and inside[at:].strip():
        match = _LABEL.match(inside, at)
        if match is None:
            return None
        label_values[match[1]] = re.sub(r"\\(.)", lambda e: _ESCAPES.get(e[1], e[0]), match[2])
        at = match.end()
    return label_values


def _read_text(uri: str) -> str:
    try:
        with open_input(uri) as file:
            payload: bytes = UnpackedFile(file, uri).read() if uri.endswith(".gz") else file.read()
        return payload.decode("utf-8")
    except OSError as error:
        raise BadInputError(
            f"The metrics {uri} cannot be read: {error}.", remedy="Check the path and that it is complete."
        ) from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"The metrics {uri} are not UTF-8 text (byte {error.start}).") from error
