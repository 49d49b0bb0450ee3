# Airflow with our packages, for every Airflow service of docker-compose.yml. Build context: the repository. Nothing but
# wheels of hashed locks is installed, and compiled here: the root of a container is read-only.
FROM python:3.11-slim-bookworm

RUN groupadd --gid 50000 lucid \
    && useradd --uid 50000 --gid 50000 --create-home --home-dir /opt/lucid lucid

WORKDIR /opt/lucid
COPY requirements-uv.lock docker/requirements-airflow.lock docker/requirements-build.lock ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-uv.lock \
    && uv pip install --system --no-cache --compile-bytecode --require-hashes --requirement requirements-airflow.lock

COPY pyproject.toml README.md LICENSE ./source/
COPY foundation ./source/foundation
COPY mlflow_access ./source/mlflow_access
COPY cluster_logs ./source/cluster_logs
COPY profiler_jobs ./source/profiler_jobs
COPY lucid_models ./source/lucid_models
COPY simulator ./source/simulator
COPY live_scheduler ./source/live_scheduler
COPY local_stack ./source/local_stack
COPY pipeline ./source/pipeline
COPY lucid_cli ./source/lucid_cli
COPY plugins ./source/plugins
COPY parts ./source/parts
RUN uv pip install --system --no-cache --compile-bytecode --require-hashes --requirement requirements-build.lock \
    && uv pip install --system --no-cache --compile-bytecode --no-deps --no-build-isolation ./source $(printf '%s ' source/parts/*) \
    && rm -rf ./source
COPY dags ./dags

# Named volumes take over the owner of these folders.
RUN mkdir -p airflow/logs state/keys input && chown -R lucid:lucid /opt/lucid
ENV AIRFLOW_HOME=/opt/lucid/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/lucid/dags \
    LUCID_STATE_DIR=/opt/lucid/state \
    PYTHONUNBUFFERED=1
USER 50000:50000
CMD ["airflow", "version"]
