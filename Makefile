# Two commands: `make course` builds, releases and grades; `make test` proves it. `make help` lists the rest.

PYTHON ?= python3
DEVICE ?=
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := _build/sample-class
BOOK := _config.yml _toc.yml $(wildcard chapters/* chapters/_static/* solutions/*.py autograder/exercises/*.py) \
        autograder/assignments.py autograder/book.py autograder/markup.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1
ifneq ($(DEVICE),)
export DEVICE
endif

.PHONY: bubblewrap help course book release sample test nbval lint format bench lab serve clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

course: book release sample ## set up, build the book, release the notebooks, grade the sample class
	@echo
	@echo "book:              _build/html/index.html"
	@echo "student notebooks: classroom/release"

book: _build/.book ## build the book to _build/html

release: $(VENV)/.course ## write the student notebooks to classroom/release
	@$(BIN)/course release

sample: $(VENV)/.course bubblewrap ## grade the sample class in _build/sample-class
	@$(BIN)/python -m autograder.sample $(SAMPLE)

test: $(VENV)/.test bubblewrap book lint ## run all tests, nbval over the executed book included
	$(BIN)/pytest --numprocesses 2 --dist loadfile
	$(MAKE) --no-print-directory nbval

nbval: $(VENV)/.test book ## execute the book's notebooks once more and compare their outputs
	PYTHONPATH=$(CURDIR)/chapters $(BIN)/pytest --nbval --nbval-cell-timeout 120 _build/jupyter_execute/chapters

lint: $(VENV)/.test ## ruff: lint and format, check only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test ## ruff: mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.course bubblewrap ## time the grading of a class against stock nbgrader (a quarter of an hour)
	$(BIN)/python benchmarks/grading.py

lab: release ## work on your own copies of the student notebooks in JupyterLab
	@cd classroom/release && find . -type f | while read -r file; do \
		test -e "../work/$$file" || { mkdir -p "../work/$${file%/*}" && cp "$$file" "../work/$$file"; }; done
	cd classroom/work && $(CURDIR)/$(BIN)/jupyter lab

serve: book ## show the book at http://localhost:8000
	$(BIN)/python -m http.server --directory _build/html --bind 127.0.0.1 8000

clean: ## remove what was built; classroom/ stays
	rm -rf _build

_build/.book: $(BOOK) $(VENV)/.course
	$(BIN)/jupyter-book build . -n -W --keep-going
	touch $@

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@.ci/require "$$($(PYTHON) -c 'import sys; print(f"python3.{sys.version_info[1]}-venv")')" $(PYTHON) -c 'import ensurepip'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.course: pyproject.toml constraints.txt $(VENV)/bin/pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.test: $(VENV)/.course
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

bubblewrap:
	@.ci/require bubblewrap sh -c 'command -v bwrap'
