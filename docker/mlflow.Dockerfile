# MLflow with its auth app, PostgreSQL and S3 drivers. Build context: the repository.
FROM python:3.11-slim-bookworm

RUN groupadd --gid 50001 mlflow \
    && useradd --uid 50001 --gid 50001 --create-home --home-dir /opt/mlflow mlflow \
    && apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/mlflow
COPY requirements-uv.lock docker/requirements-mlflow.lock ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-uv.lock \
    && uv pip install --system --no-cache --require-hashes --requirement requirements-mlflow.lock
COPY docker/serve_mlflow.py ./serve_mlflow.py
ENV PYTHONUNBUFFERED=1
USER 50001:50001
ENTRYPOINT ["tini", "--"]
CMD ["python", "serve_mlflow.py"]
