# MLflow behind our accounts (mlflow_access/), PostgreSQL and S3 drivers. Build context: the repository. Nothing but
# wheels of hashed locks is installed, and compiled here: the root of a container is read-only.
FROM python:3.11-slim-bookworm

RUN groupadd --gid 50001 mlflow \
    && useradd --uid 50001 --gid 50001 --create-home --home-dir /opt/mlflow mlflow

WORKDIR /opt/mlflow
COPY requirements-uv.lock docker/requirements-mlflow.lock docker/requirements-build.lock ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-uv.lock \
    && uv pip install --system --no-cache --compile-bytecode --require-hashes --requirement requirements-mlflow.lock
COPY pyproject.toml README.md LICENSE ./source/
COPY foundation ./source/foundation
COPY mlflow_access ./source/mlflow_access
# Parts say in which experiments their runs are: a role may write there.
COPY parts ./source/parts
RUN uv pip install --system --no-cache --compile-bytecode --require-hashes --requirement requirements-build.lock \
    && uv pip install --system --no-cache --compile-bytecode --no-deps --no-build-isolation ./source $(printf '%s ' source/parts/*) \
    && rm -rf ./source
# A named volume takes over the owner of this folder.
RUN mkdir accounts && chown mlflow:mlflow accounts
ENV PYTHONUNBUFFERED=1
USER 50001:50001
CMD ["python", "-m", "mlflow_access", "serve", "--host", "0.0.0.0", "--port", "5000", "--serve-artifacts"]
