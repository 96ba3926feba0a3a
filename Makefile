# All commands of a developer. `make help` lists them; `make demo ARGS="..."` passes options on.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
BIN := .venv/bin
# Each stamp is in the folder whose contents it confirms, so deleting the folder is enough to have it made again.
VENV := .venv/.made
PACKAGES := .venv/.installed
NODE := node_modules/.installed
KERNELS := .build/kernels/.built
CONTRACTS := .build/contracts.built
AUDIT := .build/audit/.installed
HARDHAT := .build/hardhat/.installed
PYTEST := $(BIN)/pytest -n 3
# Recursive make does not print the folder's name.
MAKEFLAGS += --no-print-directory
# Each process that a test starts would compile all sources once more; `make clean` removes what Python keeps of them.
unexport PYTHONDONTWRITEBYTECODE
# A folder is a source too: its time changes when a file in it is added, renamed or removed.
sources = $(foreach dir,$(wildcard $(1)),$(shell find $(dir) \( -type d -o $(2) \) -not -path '*/.*' -not -name __pycache__))
C_SOURCES := $(call sources,kernels/csrc,-name '*.[ch]')
SOLIDITY_SOURCES := $(call sources,contracts,-name '*.sol')
C_FILES := $(filter %.c %.h %.cpp %.cu %.cuh,$(C_SOURCES) $(call sources,kernels/cuda,-name '*.cu*') \
	$(call sources,benchmarks,-name '*.c') $(call sources,tests/kernels,-name '*.[ch]' -o -name '*.cpp'))
SOLIDITY_FILES := $(filter %.sol,$(SOLIDITY_SOURCES))

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(PACKAGES) $(NODE) $(KERNELS) $(CONTRACTS) ## Install everything into .venv and node_modules, build C and contracts

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Assay needs Python 3.11 or later; choose one with: make setup PYTHON=python3.x" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python cannot create a virtual environment; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

$(PACKAGES): $(VENV) pyproject.toml constraints.txt
	@echo "Installing Python packages: two to five minutes in which pip writes nothing; all of this takes several times as long on a busy machine."
	@# The build tools come first, under the same constraints, instead of unpinned into a temporary environment.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt scikit-build-core cmake ninja
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--no-build-isolation --editable '.[capture,cuda,data,demo,dev,docs,huggingface,models,onnx,ray,tensorboard]'
	@touch $@

$(NODE): package.json package-lock.json .npmrc $(VENV)
	@echo "Installing npm packages (anvil, forge, libraries of the pages): under a minute."
	@command -v npm >/dev/null || { echo "Assay needs Node.js 20 or later with npm" >&2; exit 1; }
	npm ci
	@# Links to the binaries: npm's own links would run node, and npm 10 makes none (two packages claim each name).
	cd $(BIN); for tool in anvil cast forge; do \
		ln -sf ../../node_modules/@foundry-rs/$$tool-*/bin/$$tool $$tool; ./$$tool --version >/dev/null; done
	@# The explorer's pages may load nothing from elsewhere, so the libraries are part of the package.
	install -m 644 node_modules/htmx.org/dist/htmx.min.js node_modules/cytoscape/dist/cytoscape.min.js assay_explorer/static/
	@touch $@

$(KERNELS): $(PACKAGES) kernels/CMakeLists.txt $(C_SOURCES)
	@echo "Compiling the kernels: one to three minutes."
	@$(BIN)/cmake -S kernels -B .build/kernels -G Ninja -DCMAKE_MAKE_PROGRAM="$$PWD/$(BIN)/ninja" \
		-DCMAKE_BUILD_TYPE=None -DREPOPS_IN_PLACE=ON >/dev/null
	@# Ninja counts the cores itself: make's job server serves only make.
	@MAKEFLAGS= $(BIN)/cmake --build .build/kernels -- --quiet
	@touch $@

$(CONTRACTS): $(PACKAGES) $(NODE) foundry.toml scripts/solc scripts/solc.js scripts/build_contracts.py $(SOLIDITY_SOURCES)
	@mkdir -p $(@D)
	@$(BIN)/python scripts/build_contracts.py
	@touch $@

.PHONY: demo
demo: setup ## Run the demonstration on a local chain
	$(BIN)/assay demo $(ARGS)

.PHONY: examples
examples: setup ## Train the examples as programs and as their scripts do, and compare; ARGS="lora vit" chooses
	$(BIN)/python scripts/run_examples.py $(ARGS)

.PHONY: test
test: ## Lint, contract tests and the quick Python tests
	@# Side by side: compiling the contracts' tests uses every core for minutes; the Python tests wait for chains and clocks.
	@$(MAKE) --jobs=2 setup
	@$(MAKE) --jobs=2 lint forge-test python-test

.PHONY: test-all
test-all: test peer-suites alerts forge-test-slow forge-test-portable campaign mutants coverage slither prove hardhat node-campaigns ## As test, with slow tests, other chains and contract audits
	$(PYTEST) -m slow --ignore tests/campaigns --ignore tests/peers $(ARGS)

.PHONY: peer-suites
peer-suites: setup ## Capture all samples of PyTorch's own tables and of ONNX's node tests, and write the ledger (an hour; continues)
	nice $(BIN)/python -W ignore -m tests.peers
	nice $(BIN)/pytest -q -m slow tests/assay_capture/onnx/test_nodes.py

.PHONY: alerts
alerts: setup ## Play every alert rule with promtool (Debian's package prometheus): where it fires, where it is silent
	@if command -v promtool >/dev/null; then $(BIN)/python -m tests.deployment.promtool; \
		else echo "alerts: not played, promtool is missing; on Debian or Ubuntu: apt install prometheus"; fi

.PHONY: python-test
python-test: setup ## The quick Python tests alone; ARGS="tests/twins/float -x" passes options on
	$(PYTEST) -m 'not slow' $(ARGS)

FORGE_LOG := .build/forge-test.log
# Each takes half a minute or more, and has a shorter one beside it: with fewer people, in other periods, or with other acts.
FORGE_SLOW := test_(at255Once|requests|aFloodIsAnsweredInTime|everyPageIsShownInTimeIn.*|everyPageIsShownInTimeTo.*|beside1000Others|everyActIsReached)\b
FORGE_TEST = @echo "forge test: see $(FORGE_LOG)"; FOUNDRY_PROFILE=tests $(BIN)/forge test \
	--$(1)match-test '$(FORGE_SLOW)' >$(FORGE_LOG) 2>&1 || { cat $(FORGE_LOG); exit 1; }; tail -n 1 $(FORGE_LOG)
.PHONY: forge-test
forge-test: setup ## The quick contract tests alone
	$(call FORGE_TEST,no-)

.PHONY: forge-test-slow
forge-test-slow: setup ## The slow ones
	$(call FORGE_TEST)

# In a separate folder: a second client of 290 MB, which only the slow tests and `assay demo --chain hardhat` start.
$(HARDHAT): scripts/hardhat/package.json scripts/hardhat/package-lock.json scripts/hardhat/.npmrc scripts/hardhat/hardhat.config.js
	mkdir -p $(@D)
	install -m 644 $^ $(@D)
	cd $(@D) && npm ci
	@touch $@

.PHONY: hardhat
hardhat: $(HARDHAT) ## Install Hardhat's node into .build (290 MB), for assay demo --chain hardhat

.PHONY: forge-test-portable
forge-test-portable: setup
	FOUNDRY_PROFILE=portable $(BIN)/forge test

.PHONY: campaign
campaign: setup ## A million acts of honest and hostile parties
	FOUNDRY_PROFILE=campaign $(BIN)/forge test --match-contract CampaignTest

.PHONY: endpoints
endpoints: setup ## A job with a liar through endpoints with each quirk of real providers
	$(PYTEST) -m "slow or not slow" tests/campaigns/test_endpoints.py $(ARGS)

.PHONY: node-campaigns
node-campaigns: setup ## Hundreds of jobs through broken RPC endpoints and reorganised chains
	$(PYTEST) -s -m slow tests/campaigns $(ARGS)

.PHONY: mutants
mutants: setup ## Check that the contract tests notice errors
	$(BIN)/python scripts/mutants.py

.PHONY: playability
playability: setup ## Check that the honest side can always conclude: cases at every limit, jobs played to the end
	$(BIN)/pytest -q -s -m slow tests/playability $(ARGS)

.PHONY: daemon-games
daemon-games: setup ## Search all small games of the daemons' own decisions, and play larger ones at random
	$(BIN)/pytest -q -s tests/games $(ARGS)

.PHONY: delay
delay: setup ## Measure how long liars can delay a job's end, and the cost: on the contracts, and in a search over strategies
	$(BIN)/forge test --match-path 'tests/contracts/delay/*'
	$(BIN)/python scripts/bench.py delay $(ARGS)
	$(PYTEST) -s tests/delay

.PHONY: fees
fees: setup ## Measure a dispute's cost beside its prize over years of base fees from 1 to 400 gwei
	$(BIN)/python scripts/bench.py fees $(ARGS)
	$(BIN)/pytest -q -s tests/fees

.PHONY: onnx-files
onnx-files: setup ## Run published ONNX files beside onnxruntime; fetches packages and writes the ledger
	$(BIN)/python -m scripts.onnx_files $(ARGS)

.PHONY: families
families: setup ## Build a small model of each class of transformers, and write the table of it (hours; continues)
	nice $(BIN)/python -W ignore -m scripts.families $(ARGS)

.PHONY: coverage
coverage: setup ## Check that the contract tests run the lines of the game contracts
	$(BIN)/python scripts/coverage.py

# In a separate environment: these tools need other versions of packages that daemons use.
$(AUDIT): $(VENV) scripts/audit.txt
	$(PYTHON) -m venv .build/audit
	.build/audit/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/audit.txt
	@touch $@

.PHONY: slither
slither: setup $(AUDIT) ## Static analysis of the contracts; every finding is answered in docs/security.md
	.build/audit/bin/python scripts/slither.py

.PHONY: prove
prove: setup $(AUDIT) ## Prove the statements of tests/proofs for all inputs
	PATH="$$PWD/$(BIN):$$PATH" FOUNDRY_PROFILE=proofs .build/audit/bin/halmos --forge-build-out .build/forge-proofs/out \
		--solver-command $$PWD/.build/audit/bin/yices-smt2 --solver-timeout-assertion 10m --loop 9 --no-status

.PHONY: lint
lint: setup ## Check formats, types and common mistakes in every language
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/python scripts/check_names.py
	$(BIN)/python scripts/check_ways.py
	$(BIN)/python scripts/check_budgets.py
	$(BIN)/python scripts/check_docstrings.py
	$(BIN)/lint-imports --no-logo --cache-dir .build/imports >.build/imports.log || { cat .build/imports.log; exit 1; }
	$(BIN)/mypy
	$(if $(SOLIDITY_FILES),$(BIN)/forge fmt --check contracts tests)
	$(if $(C_FILES),$(BIN)/clang-format --dry-run -Werror $(C_FILES))

.PHONY: format
format: setup ## Rewrite sources in the formats that lint checks
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .
	$(if $(SOLIDITY_FILES),$(BIN)/forge fmt contracts tests)
	$(if $(C_FILES),$(BIN)/clang-format -i $(C_FILES))

.PHONY: screenshots
screenshots: setup ## Take the pictures of the explorer in docs/ anew
	$(BIN)/python scripts/screenshots.py

.PHONY: gallery
gallery: setup ## Make every page of the explorer in every state, as pictures in .build/gallery (minutes)
	$(BIN)/python -m scripts.gallery

.PHONY: constraints
constraints: $(VENV) ## Resolve every Python dependency anew (torch and its CUDA packages stay at their pins)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed \
		--report .venv/resolution.json '.[capture,cuda,data,demo,dev,docs,huggingface,models,onnx,ray,tensorboard]' \
		$$(grep -E '^(torch|cuda-bindings|nvidia-cuda-nvrtc)==' constraints.txt)
	$(BIN)/python scripts/pin_constraints.py <.venv/resolution.json >.venv/constraints.txt
	mv .venv/constraints.txt constraints.txt

.PHONY: docs
docs: setup ## Build the documentation site into .build/docs; a broken link fails it
	$(BIN)/python -m scripts.docs

.PHONY: bench
bench: setup ## Measure kernels, steps, commitments and disputes on this machine
	$(BIN)/python scripts/bench.py $(ARGS)

.PHONY: bench-rounding
bench-rounding: setup ## Measure rounding logs: sizes, corrections, overhead, runs on different hardware
	$(BIN)/python scripts/bench.py --rounding $(ARGS)

.PHONY: clean
clean: ## Remove everything that setup and the tests made
	rm -rf .venv node_modules .build dist .hypothesis referee_py/abi/*.json referee_py/abi/portable referee_py/abi/input kernels/repops/librepops.*
	rm -f assay_explorer/static/*.min.js
	find assay_capture assay_explorer assay_lab assay_serve examples kernels referee_py scripts tests trainer_node -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
