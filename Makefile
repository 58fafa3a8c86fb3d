# One word per task, the same word in CI. Each target does its own set-up; nothing is installed by hand.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# pinned by `make lock`; LOCK= takes the newest versions that pyproject.toml allows
LOCK   ?= requirements-dev.txt
# the tests that run under the tracer of coverage (tests/coverage_tracing.py): those of the pure rooms, and what
# reaches the rest of them from above; the longest last, because what is covered is not traced any more
TRACED := $(addprefix tests/,core stages formats transcripts session/test_native_folds.py session/test_bound_thinking.py \
	test_public_arguments.py $(patsubst %,calls/test_%.py,fits ask_boundary same_numbers outcome measure) \
	policies/test_presets.py session/test_export.py)
# each line is one process, two run at a time and the longest first: nothing is collected or compiled twice.
# A process more takes three seconds of CPU to import the library, and again for the program that the tests fork
PLAIN := $(addprefix tests/,session cli clients remote stores torture adapters testing)
REST := $(filter-out $(TRACED) $(PLAIN) tests/__pycache__,$(patsubst %/,%,$(wildcard tests/*/ tests/test_*.py)))
RUNS := 'plain $(REST)' 'plain tests/cli tests/clients tests/remote' 'plain tests/session tests/stores tests/torture' \
	'traced $(TRACED)' 'plain tests/adapters tests/testing'
# nothing is compiled that nobody imports: Python compiles at the first import, and keeps that
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
NEW_PYTHON := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "refold needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }

.PHONY: setup demo tour check test adapters browser clients bench surprise docs pictures torture dist extras lock hooks clean

setup: $(READY)

$(READY): pyproject.toml requirements-dev.txt
	@$(NEW_PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	-$(PIP) 'pip>=25'  # the pip of Python 3.11 takes twice as long to choose
	@extras=dev; more=adapters-test; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || extras=dev,postgres-server; \
	! command -v chromium >/dev/null || more=adapters-test,browser; \
	$(PIP) $(if $(LOCK),-c $(LOCK)) -e ".[$$extras,$$more]" || { \
		$(PIP) $(if $(LOCK),-c $(LOCK)) -e ".[$$extras]" || exit; \
		for one in $$(echo $$more | tr , ' '); do $(PIP) -e ".[$$one]" || echo "without $$one, whose tests are skipped" >&2; done; }
	-$(BIN)/python -m refold.clients.local fetch >/dev/null  # the tests' real model; kept in the user's cache
	touch $(READY)

ifdef MODEL
demo: setup            ## an agent's task in a small window: folds, recall, undo; with MODEL=local
	$(BIN)/refold demo --model $(MODEL)
else
demo:                  ## the same without a model; runs from the source, so nothing is installed
	@$(NEW_PYTHON)
	PYTHONPATH=src $(PYTHON) -m refold.cli demo
endif

tour: setup            ## the same task measured, planned, compacted and checked, command by command
	sh scripts/tour.sh

check: setup           ## style, types, architecture, legibility
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/structure.py --check

test: setup            ## all tests; those of the pure rooms with the coverage that these promise
	@printf '%s\n' $(RUNS) | IGNORED='$(addprefix --ignore=,$(TRACED))' xargs -P 2 -L 1 sh scripts/run_tests.sh

browser: setup         ## the inspector in a real Chromium, all of it; REFOLD_UPDATE_DOCS=1 takes the pictures of the docs again
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[browser]'
	REFOLD_BROWSER=full $(BIN)/python -m pytest -q -p no:anyio tests/browser

adapters: setup        ## every adapter with its real framework, newest version; ONLY=langchain,strands; AGE=oldest
	$(BIN)/python scripts/adapters.py $(if $(ONLY),--only $(ONLY)) $(if $(filter oldest,$(AGE)),--oldest)

clients: setup         ## Claude Code, Codex and opencode from npm, 60 tool steps each through the gateway; ONLY=codex
	$(BIN)/python -m bench.clients $(if $(ONLY),--only $(ONLY)) --json bench/results/clients.json

bench: setup           ## speed and error beside the peers, and the torture matrix; DATA=folder (MODEL=file.gguf): what is kept; QUICK=1: three minutes and the guard
ifdef QUICK
	$(BIN)/python -m bench.speed --quick
	$(BIN)/python bench/instructions.py --quick --json bench/results/instructions.json
	$(BIN)/python -m bench.guard
else
	$(BIN)/python bench/count.py --json bench/results/count.json
	$(BIN)/python bench/act.py --json bench/results/act.json
	$(BIN)/python bench/session.py --large 1000000 --json bench/results/session.json
	$(BIN)/python -m bench.speed $(if $(DATA),--data $(DATA))
	$(BIN)/python -m bench.matrix
	-$(BIN)/python bench/gateway.py --json bench/results/gateway.json --markdown docs/data/gateway-costs.md  # a goal may be missed on a busy machine
	-$(BIN)/refold eval injections --policy all --json bench/results/injections.json
	-$(BIN)/refold eval secrets --policy all --json bench/results/secrets.json
	$(BIN)/python bench/compactbench.py bench/templates --json bench/results/compactbench-own.json
ifdef DATA
	$(BIN)/refold eval counts $(DATA) --json bench/results/counts.json
	-$(BIN)/refold eval cost $(DATA) --json bench/results/cost.json
	$(BIN)/refold eval retention $(DATA) --json bench/results/retention.json
	$(BIN)/python -m bench.retention $(DATA)
	$(if $(MODEL),$(BIN)/python -m bench.retention $(DATA) --model $(MODEL))
endif
	$(BIN)/python bench/report.py
endif

surprise: setup        ## what a view is worth to a real model: DATA=folder MODEL=file.gguf (or a Hugging Face folder)
	$(BIN)/python -m bench.rereads $(DATA) --json bench/results/rereads.json --markdown docs/data/view-quality.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[surprise]'
	$(BIN)/python -m bench.surprise $(DATA) --model $(MODEL) --summaries --json bench/results/surprise.json --markdown docs/data/view-quality.md
	$(BIN)/python -m bench.questions $(DATA) --model $(MODEL) --json bench/results/questions.json --markdown docs/data/view-quality.md

torture: setup         ## every test at full size, the laws, the stores and the sessions under attack, planted faults; takes hours
	REFOLD_WHOLE=1 $(MAKE) test
	$(BIN)/python bench/laws.py --json bench/results/laws.json
	$(BIN)/python bench/fuzz_transcripts.py --json bench/results/fuzz.json
	$(BIN)/python -m bench.torture
	$(BIN)/python -m bench.gateway_load --json bench/results/gateway-load.json
	$(BIN)/python -m bench.hostile_answers --json bench/results/hostile-answers.json
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[torture]'
	$(BIN)/python bench/mutate.py --json bench/results/mutation.json

docs: setup            ## check lengths, links, examples and recorded outputs; build the site under site/
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python scripts/make_reference.py --check
	$(BIN)/python scripts/make_views_page.py --check
	REFOLD_WHOLE=1 $(BIN)/python -m pytest -q tests/test_docs.py tests/cli/test_cli_docs.py tests/cli/test_cli_replay.py tests/remote \
		tests/scripts/test_make_pictures.py tests/benchmarks/test_bench_report.py tests/benchmarks/test_bench_matrix.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/mkdocs build --strict --quiet

pictures: setup        ## draw the pictures of the documentation again, from real runs; two minutes
	$(BIN)/python scripts/make_pictures.py

dist:                  ## wheel and source distribution, checked; the wheel tried alone on every Python that is here
	@$(NEW_PYTHON)
	$(PYTHON) scripts/dist.py

extras: setup          ## size, import time and licences of every extra: docs/install.md, LICENSES-THIRD-PARTY.md
	$(BIN)/python scripts/measure_extras.py $(if $(ONLY),--only $(ONLY))

COMPILE := uv pip compile --universal --python-version 3.11 --upgrade --quiet --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

lock: setup            ## pin what development and the image install, the image by hash
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/$(COMPILE) pyproject.toml --extra dev --extra docs --output-file requirements-dev.txt
	$(BIN)/$(COMPILE) pyproject.toml --extra serve --extra postgres --extra sqlite --extra clients --generate-hashes --output-file deploy/requirements.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | $(BIN)/$(COMPILE) - --generate-hashes --output-file deploy/requirements-build.txt

hooks: setup           ## run the checks that are quick before each commit
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install

clean:
	rm -rf $(VENV) site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants bench/.envs
