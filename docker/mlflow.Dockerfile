# MLflow with its auth app, PostgreSQL and S3 drivers. Build context: the repository. Nothing but wheels of hashed locks is
# installed, and compiled here: the root of a container is read-only.
FROM python:3.11-slim-bookworm

RUN groupadd --gid 50001 mlflow \
    && useradd --uid 50001 --gid 50001 --create-home --home-dir /opt/mlflow mlflow

WORKDIR /opt/mlflow
COPY requirements-uv.lock docker/requirements-mlflow.lock ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-uv.lock \
    && uv pip install --system --no-cache --compile-bytecode --require-hashes --requirement requirements-mlflow.lock
COPY docker/serve_mlflow.py ./serve_mlflow.py
ENV PYTHONUNBUFFERED=1
USER 50001:50001
CMD ["python", "serve_mlflow.py"]
