# The two commands a newcomer needs: `make demo` and `make test`. Each sets up what it needs, once.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow lint docs-check dist torch-matrix bench bench-faults bench-peers models cards clean help

help:
	@echo "make demo         the whole idea in one minute"
	@echo "make test         all tests (20 minutes at most)"
	@echo "make test-slow    what takes longer"
	@echo "make lint         ruff and pyright"
	@echo "make docs-check   every command and snippet of README and docs/"
	@echo "make dist         sdist and wheel in dist/, tried in an empty environment without a compiler"
	@echo "make torch-matrix the core tests with several versions of PyTorch and Python"
	@echo "make bench-faults planted faults: found, placed, explained"
	@echo "make models       the tables of the package, from the images in TWINNET_DATA; then their scores"
	@echo "make cards        only scores, cards and the page on shipped tables"
	@echo "make bench        our speed, as ratios        make bench-peers   beside other tools"

demo: $(VENV)/.demo
	@$(BIN)/twinnet demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore tests/restore
	# Training forks: in processes of its own, into which no engine has brought its threads.
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/restore

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow -o timeout=0

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs-check: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/test_docs.py tests/test_docstrings.py

dist:
	$(PYTHON) -m tools.dist

torch-matrix:
	$(PYTHON) -m tools.torch_matrix

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

bench-faults: $(VENV)/.test
	$(BIN)/python -m benchmarks.faults

bench-peers: $(VENV)/.test
	$(BIN)/python -m benchmarks.peers

models: $(VENV)/.test
	$(BIN)/python -m tools.shipped_tables.make

cards: $(VENV)/.test
	$(BIN)/python -m tools.shipped_tables.make --cards

# torch comes first and alone: with it in place no other package pulls another build of it.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) -e '.[onnx]'
	@touch $@

$(VENV)/.test: $(VENV)/.torch pyproject.toml
	$(PIP) -e '.[all]'
	@touch $@ $(VENV)/.demo

clean:
	rm -rf runs build bench-results .pytest_cache .ruff_cache
