# One file from a fresh clone to a measured model. Needs Python >= 3.11 and make; everything else
# is installed into .venv, once, and again only when pyproject.toml or constraints.txt change.

SHELL  := /bin/sh
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
REPORT := demo.html
PATCH  := demo.laptime.patch
BENCH  := demo-bench.html

# The first interpreter that is new enough, `python3` before all others; `make PYTHON=... demo` picks one.
ENOUGH  = import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(ENOUGH)' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help install demo demo-bench test test-all check format docs docs-site docs-commands tutorial pictures bench release device-wheels test-device test-serving clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 16

install: $(STAMP)  ## .venv with laptime, PyTorch and the tools of development

$(STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] && $(PYTHON) -c '$(ENOUGH)' || { \
		echo "error: no Python 3.11 or newer was found"; \
		echo "why:   $(or $(PYTHON),python3) is: $$($(or $(PYTHON),python3) --version 2>&1 | head -n 1)"; \
		echo "next:  install Python 3.11 or newer, or: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; \
		exit 2; } >&2
	@$(PYTHON) -m venv $(VENV) || { \
		echo "error: $(PYTHON) could not create $(VENV)"; \
		echo "why:   its venv or ensurepip module is missing or broken, see above"; \
		echo "next:  install it (Debian, Ubuntu: apt install python3-venv), then the same command again"; \
		exit 2; } >&2
	$(BIN)/python -m pip install --quiet -c constraints.txt uv
	$(BIN)/uv pip install --compile-bytecode -p $(BIN)/python -c constraints.txt -e '.[torch,dev,docs]'
	@touch $@

# Not deciding (3) and nothing to gain (5) are answers, too: a machine may be too busy, or a script fast.
demo: $(STAMP)  ## make examples/resnet18.py faster, within 10 minutes: the ladder, a patch, an HTML report
	@rm -f $(REPORT) $(PATCH) $(PATCH:.patch=.json)
	@status=0; \
	$(BIN)/laptime tune --budget 9m --patch $(PATCH) -o $(REPORT) examples/resnet18.py || status=$$?; \
	echo; \
	case $$status in \
	0) ;; \
	3) echo "This machine could not decide in 9 minutes: the reasons stand above. A quiet one can." ;; \
	5) echo "No change made it faster here: the reasons stand above." ;; \
	*) exit $$status ;; \
	esac; \
	if [ -f $(PATCH) ]; then echo "Patch:       $(CURDIR)/$(PATCH)"; fi; \
	if [ -f $(REPORT) ]; then echo "HTML report: $(CURDIR)/$(REPORT)"; fi

demo-bench: $(STAMP)  ## benchmark EfficientNet-B0 at batch 1 and 8, and write an HTML report
	@rm -f $(BENCH)
	@status=0; $(BIN)/laptime bench torchvision:efficientnet_b0 --batch 1,8 -o $(BENCH) || status=$$?; \
	if [ -f $(BENCH) ]; then echo; echo "HTML report: $(CURDIR)/$(BENCH)"; fi; \
	exit $$status

# A test of real clocks may meet a busy moment: it has two more tries, and the summary names it.
test: $(STAMP)  ## the fast tests, on the same made-up examples each time
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --reruns 2 --reruns-delay 1 --durations=40

test-all: $(STAMP)  ## all tests, slow ones too, on new made-up examples
	$(BIN)/python -m pytest --hypothesis-profile "new examples"

check: $(STAMP)  ## format, lint, spelling, types, arrows between rooms, no circles, sizes, words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell src docs scripts examples changes .github *.md
	$(BIN)/mypy
	$(BIN)/mypy --config-file benchmarks/mypy.ini
	$(BIN)/lint-imports
	$(BIN)/python scripts/size.py
	$(BIN)/python scripts/words.py
	$(BIN)/python scripts/metrics.py --check
	$(BIN)/python scripts/rules.py --check
	$(BIN)/python scripts/optimizations.py --check
	$(BIN)/python scripts/oci_aws.py --check
	$(BIN)/python scripts/reference.py --check
	$(BIN)/python scripts/schemas.py --check

format: $(STAMP)  ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## pages that are written from the code
	$(BIN)/python scripts/metrics.py
	$(BIN)/python scripts/rules.py
	$(BIN)/python scripts/optimizations.py
	$(BIN)/python scripts/oci_aws.py
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/schemas.py

docs-site: $(STAMP)  ## the site of README and docs in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-commands: $(STAMP)  ## run the commands of README and docs; QUICK=1 for those that only read what is stored
	$(BIN)/python scripts/documented_commands.py $(if $(QUICK),--quick)

tutorial: $(STAMP)  ## run docs/tutorial.md from its first line to its last, twenty minutes
	$(BIN)/python scripts/tutorial.py

pictures: $(STAMP)  ## docs/pictures from real reports; needs a chromium
	$(BIN)/python scripts/pictures.py

bench: $(STAMP)  ## our own benchmarks; ONLY=name runs one
	$(BIN)/python scripts/bench.py $(ONLY)

# The next two need no .venv: an accelerator machine may have nothing but its own python3 with torch.
device-wheels: $(STAMP)  ## fetch into .whl/ what a bare accelerator machine may lack
	$(BIN)/python scripts/device.py --fetch

test-device:  ## tests and benchmarks of accelerators, with the system's python3; ONLY=name for one
	@python3 scripts/device.py $(if $(ONLY),--only $(ONLY))

test-serving: $(STAMP)  ## laptime load against a real vLLM, installed into .serving/ (5.9 GB) the first time
	$(BIN)/python scripts/serving.py

release: $(STAMP)  ## build, check the wheel in bare environments of each Python, write the notes
	$(BIN)/python scripts/release.py

clean:  ## remove the environment, caches and built files
	rm -rf $(VENV) .serving .whl .device-site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache src/*.egg-info $(REPORT) $(BENCH) $(PATCH) $(PATCH:.patch=.json)
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
