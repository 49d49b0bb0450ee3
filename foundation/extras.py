"""Which extra of the distribution brings a library that is missing, as one sentence with a remedy."""

from collections.abc import Mapping

from foundation.errors import NotFoundError

# Libraries by the names that they are imported by, at the extra that names them.
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "verify": ("cryptography",),
    "service": (
        "fastapi",
        "prometheus_client",
        "psutil",
        "pydantic",
        "starlette",
        "uvicorn",
    ),
    "fast": ("llvmlite", "numba"),
    "live": ("rich", "typer"),
    "training": (
        "fsspec",
        "great_expectations",
        "interpret",
        "jinja2",
        "joblib",
        "markupsafe",
        "matplotlib",
        "mlflow",
        "optuna",
        "pandas",
        "pyarrow",
        "pynvml",
        "rapidfuzz",
        "requests",
        "scipy",
        "sklearn",
    ),
    "airflow": ("airflow", "sqlalchemy", "structlog"),
    "zoo": ("torch",),
}
EXTRA_OF: Mapping[str, str] = {name: extra for extra, names in LIBRARIES.items() for name in names}


def missing_extra(error: BaseException) -> NotFoundError | None:
    """Return which extra to install for an import that failed; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    library = error.name.partition(".")[0]
    extra = EXTRA_OF.get(library)
    if extra is None:
        return None
    return NotFoundError(
        f"This needs {library}, which is not installed.",
        remedy=f"Install the extra that brings it, from a checkout: pip install '.[{extra}]'",
    )
