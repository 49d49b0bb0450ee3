"""How models are saved: as data only, so that nothing executable ever reaches a scheduler.

A saved model is one UTF-8 JSON object

    {"format": "lucid-model", "format_version": 1, "kind": one of the catalogue's, "model": {...}}

without NaN or infinity, with arrays as lists. Reading it can only fail or give numbers and text.

How to break the format: raise `FORMAT_VERSION` by one, keep a reader for every older version in `_UPGRADES`
(version n -> function from the document of version n to that of version n + 1), keep a saved file of the old
version under tests/lucid_models/saved and its test, and say it in CHANGELOG.md. A field that older readers
may ignore needs no new version. A file of a newer version is refused: an old scheduler never guesses.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation import strict_json
from foundation.errors import BadInputError, LucidError, NotFoundError, UnknownNameError
from foundation.outside_names import read_regular
from foundation.replaced_files import replace_file
from foundation.strict_json import StrictJsonError
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.format_upgrades import Document as Document
from lucid_models.format_upgrades import Upgrades, upgrade_document

FORMAT = "lucid-model"
FORMAT_VERSION = 1
# Four times the largest model known (docs/decisions/0034); JSON is dear by its values more than its bytes.
MAX_FILE_BYTES = 80 * 1024 * 1024
MAX_VALUES = 6_000_000
MAX_TEXT = 4_096
MAX_ITEMS = 4_000_000

_UPGRADES: Upgrades = {}


class FormatVersionError(LucidError):
    """A saved model has a format version that this program does not read."""


class CorruptModelError(LucidError):
    """A saved model is not what its format says it is."""


def make_document(kind: str, model: Mapping[str, Any]) -> Document:
    """Wrap a model's own data in the envelope of the current format."""
    _check_kind(kind, "The model")
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": kind, "model": dict(model)}


def save_model(document: Mapping[str, Any], path: str | os.PathLike[str]) -> str:
    """Write a document made by a model's `to_data()` and return the SHA-256 of the file.

    The file appears whole or not at all. Equal documents give equal bytes.
    Raises CorruptModelError for a value that the format cannot hold (NaN, infinity, an object).
    """
    checked = _check_envelope(dict(document), "the document to save")
    try:
        text = json.dumps(checked, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise CorruptModelError(
            f"The model cannot be saved as data: {error}.",
            remedy="Save finite numbers, text, lists and objects.",
        ) from error
    payload = text.encode("ascii")
    if len(payload) > MAX_FILE_BYTES:
        raise CorruptModelError(
            f"The model takes {len(payload)} bytes, more than the {MAX_FILE_BYTES} that a scheduler accepts.",
            remedy="Lower the model's limits on bins or remembered keys.",
        )
    replace_file(Path(path), payload)
    return hashlib.sha256(payload).hexdigest()


def load_model(path: str | os.PathLike[str], *, kind: str | None = None) -> Document:
    """Read a saved model; `kind` is checked when given.

    Raises FormatVersionError when the version is not one of ours, CorruptModelError for anything else that is
    wrong with the file, including that it is missing or too large.
    """
    source = Path(path)
    try:
        size = source.stat().st_size
        if size > MAX_FILE_BYTES:
            raise CorruptModelError(
                f"{source} holds {size} bytes; a model holds at most {MAX_FILE_BYTES}.",
                remedy="Check that this is a model's file.",
            )
        payload = read_regular(source)
    except OSError as error:
        raise CorruptModelError(
            f"{source} cannot be read: {error.strerror}.", remedy="Check the path and its permissions."
        ) from error
    return parse_model(payload, kind=kind, source=str(source))


def parse_model(payload: bytes, *, kind: str | None = None, source: str = "the model") -> Document:
    """Read a saved model from the bytes of its file; errors as in `load_model`."""
    if len(payload) > MAX_FILE_BYTES:
        raise CorruptModelError(
            f"{source} holds {len(payload)} bytes; a model holds at most {MAX_FILE_BYTES}."
        )
    values = sum(payload.count(mark) for mark in (b",", b"[", b"{"))
    if values > MAX_VALUES:
        raise CorruptModelError(f"{source} holds {values} values; a model holds at most {MAX_VALUES}.")
    try:
        document = strict_json.loads(payload)
    except StrictJsonError as error:
        raise CorruptModelError(
            f"{source} is not the JSON of a model: {_short(error)}.", remedy="Fetch or train the model again."
        ) from error
    checked = _check_envelope(document, source)
    if kind is not None and checked["kind"] != kind:
        raise CorruptModelError(
            f"{source} holds a {checked['kind']} model where a {kind} model was expected.",
            remedy="Check which file the release names.",
        )
    return checked


def _check_envelope(document: object, source: str) -> Document:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CorruptModelError(
            f"{source} is not a saved model: it does not say format {FORMAT!r}.",
            remedy="Save models with to_data() and save_model().",
        )
    document = upgrade_document(document, _UPGRADES, FORMAT_VERSION, source=source, error=FormatVersionError)
    _check_kind(document.get("kind"), source)
    if not isinstance(document.get("model"), dict):
        raise CorruptModelError(f"{source} holds no model data.", remedy="Fetch or train the model again.")
    return document


def _check_kind(kind: object, source: str) -> None:
    try:
        load_catalogue_entry(kind if isinstance(kind, str) else _short(kind))
    except (NotFoundError, UnknownNameError) as error:
        raise CorruptModelError(f"{source}: {error}") from error


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, Exception) else str(value)
    return text if len(text) <= 120 else text[:117] + "..."


class Fields:
    """Reads the fields of one JSON object, refusing what is missing, mistyped, out of bounds or not
    finite.
    """

    def __init__(self, data: object, place: str) -> None:
        if not isinstance(data, dict):
            raise CorruptModelError(
                f"{place} is {_short(data)}, not an object.", remedy="Fetch the model again."
            )
        self._data: dict[str, Any] = data
        self.place = place

    def fail(self, name: str, why: str) -> CorruptModelError:
        """The error that says which field is wrong and how."""
        return CorruptModelError(f"{self.place}.{name} {why}.", remedy="Fetch or train the model again.")

    def raw(self, name: str) -> Any:
        """The field as it is; refuses its absence."""
        if name not in self._data:
            raise self.fail(name, "is missing")
        return self._data[name]

    def check_features(self, model: str, computed: int) -> None:
        """Require that the `version` of a model's features is the one that this program computes; raises
        FormatVersionError.
        """
        version = self.integer("version", 1, 1_000_000)
        if version != computed:
            raise FormatVersionError(
                f"The {model} model reads features of version {version}; this program computes version "
                f"{computed}.",
                remedy=f"Train the {model} model again, or use the program of its release.",
            )

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._data.get(name) is not None

    def child(self, name: str) -> "Fields":
        """A nested object."""
        return Fields(self.raw(name), f"{self.place}.{name}")

    def children(self, name: str, *, most: int) -> list["Fields"]:
        """A list of nested objects."""
        return [
            Fields(item, f"{self.place}.{name}[{i}]") for i, item in enumerate(self.items(name, most=most))
        ]

    def items(self, name: str, *, most: int = MAX_ITEMS) -> list[Any]:
        """A list of at most `most` items."""
        value = self.raw(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.fail(name, f"is not a list of at most {most} items")
        return value

    def names(self, name: str) -> list[str]:
        """The field names of a nested object."""
        return list(self.child(name)._data)

    def training(self) -> dict[str, Any]:
        """The record of the training, which nothing computes with; empty when absent."""
        if not self.has("training"):
            return {}
        value = self.raw("training")
        if not isinstance(value, dict):
            raise self.fail("training", f"is {_short(value)}, not an object")
        return dict(value)

    def text(self, name: str, *, choices: Sequence[str] | None = None) -> str:
        """A text, one of `choices` when given."""
        value = self.raw(name)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise self.fail(name, f"is {_short(value)}, not a text")
        if choices is not None and value not in choices:
            raise self.fail(name, f"is {_short(value)}, not one of {', '.join(choices)}")
        return value

    def texts(self, name: str, *, most: int = MAX_ITEMS, unique: bool = False) -> list[str]:
        """A list of texts."""
        value = self.items(name, most=most)
        if any(not isinstance(item, str) or len(item) > MAX_TEXT for item in value):
            raise self.fail(name, "holds something that is not a text")
        if unique and len(set(value)) != len(value):
            raise self.fail(name, "holds the same text twice")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.raw(name)
        if not isinstance(value, bool):
            raise self.fail(name, f"is {_short(value)}, not true or false")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer within [low, high]."""
        value = self.raw(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fail(name, f"is {_short(value)}, not an integer between {low} and {high}")
        return value

    def number(self, name: str, low: float = -1e300, high: float = 1e300) -> float:
        """A finite number within [low, high]."""
        value = self.raw(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.fail(name, f"is {_short(value)}, not a number between {low:g} and {high:g}")
        return float(value)

    def numbers(
        self, name: str, low: float = -1e300, high: float = 1e300, *, most: int = MAX_ITEMS
    ) -> NDArray[np.float64]:
        """A one-dimensional array of finite numbers within [low, high]."""
        return self.array(name, self.items(name, most=most), low, high)

    def array(
        self, name: str, value: object, low: float = -1e300, high: float = 1e300, *, dimensions: int = 1
    ) -> NDArray[np.float64]:
        """`value` (a nested list) as an array of float64, checked like `numbers`."""
        if not _only_numbers(value, dimensions):
            raise self.fail(name, f"is not a {dimensions}-dimensional list of numbers")
        try:
            result = np.array(value, dtype=np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.fail(name, f"is not an array ({_short(error)})") from error
        if result.ndim != dimensions and result.size:
            raise self.fail(name, f"has {result.ndim} dimensions instead of {dimensions}")
        if result.size and not (np.isfinite(result).all() and result.min() >= low and result.max() <= high):
            raise self.fail(name, f"holds a number outside [{low:g}, {high:g}]")
        return result


def _only_numbers(value: object, depth: int) -> bool:
    if depth == 0:
        return type(value) is float or type(value) is int
    if not isinstance(value, list):
        return False
    if depth == 1:
        return all(type(item) is float or type(item) is int for item in value)
    return all(_only_numbers(item, depth - 1) for item in value)


def rows_to_score(rows: object, feature_names: Sequence[str], model: str) -> NDArray[np.float64]:
    """Return rows to score as float64, shape (rows, features); raises BadInputError for another shape."""
    matrix = np.asarray(rows, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(feature_names):
        raise BadInputError(
            f"The rows to score have shape {matrix.shape}; the {model} needs (rows, {len(feature_names)}).",
            remedy=f"Give the features in this order: {', '.join(feature_names)}.",
        )
    return matrix


def finite_list(values: NDArray[Any]) -> list[Any]:
    """An array as nested lists; raises CorruptModelError when something in it is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise CorruptModelError(
            "A model holds a number that is not finite.", remedy="Check its training data."
        )
    result: list[Any] = array.tolist()
    return result
