# Each command sets up what it needs in .venv, the first time. `make help` lists them.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python tools/supported_python.py 2>/dev/null && echo $$python && break; done)
TORCH ?= $(shell sed -n 's/^torch==\([^ ]*\).*/\1/p' requirements.txt)
CPU_WHEELS := https://download.pytorch.org/whl/cpu

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
NOTEBOOKS := book/*.ipynb book/exercises/*.ipynb book/appendices/*.ipynb
export OMP_NUM_THREADS := 1

.PHONY: help book test lint code chapters site offline pdf lab assignments results bench nightly
.PHONY: release mutants flaky audit binder lighthouse fresh pictures
.NOTPARALLEL:

help:
	@echo "make book      build the book, print the page to open"
	@echo "make offline   build the book and pack it as one file that opens from disk"
	@echo "make pictures  build the book and take the pictures of the studio that it shows"
	@echo "make pdf       build the book and print it as one PDF"
	@echo "make test      check everything: style, code, chapters, the built pages"
	@echo "make lab       open the chapters in JupyterLab"
	@echo "make assignments   build assignments/ for a course: SEED=… draws the hidden inputs"
	@echo "make results   run the longer experiments that chapters quote, write results/"
	@echo "make bench     time tinyattn beside dense attention and other libraries, write results/bench.json"
	@echo "make nightly   make test, then what takes longer"
	@echo "make release   put wheel, sdist, pages, PDF, notebooks and checksums into dist/"
	@echo "make mutants   change the package in small ways, see that its tests notice"
	@echo "make flaky     run the suite in other orders, thread counts and instruction sets"
	@echo "make audit     ask whether a package that is installed has a known weakness"
	@echo "make binder    install and run as Binder does, within its memory"
	@echo "make lighthouse   ask Lighthouse about some pages of the book; needs node"
	@echo "make fresh     say which of the records in results/ are older than the code, fail if one is"
	@echo "The parts of make test are make lint, make code, make chapters and make site."
	@echo "What chapters take, for their last lines: make chapters RECORD=--record"
	@echo "Other versions, in a new .venv: make test PYTHON=python3.12 TORCH=2.5.1"

book: .venv/book
	$(BIN)/jupyter-book build . --all -W --keep-going --quiet
	@echo "Open $(CURDIR)/_build/html/index.html"

pictures: book
	$(BIN)/python tools/studio_pictures.py

offline: book
	$(BIN)/python tools/offline.py

pdf: .venv/test book
	$(BIN)/python tools/pdf.py

test: lint code chapters site

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/python tools/notebooks.py check $(NOTEBOOKS)

code: .venv/test
	$(BIN)/pytest -n 2 --dist loadfile --ignore=tests/site

chapters: .venv/test
	$(BIN)/python tools/chapters.py $(RECORD) $(NOTEBOOKS)

site: .venv/test book
	$(BIN)/pytest -n 2 tests/site

lighthouse: .venv/test book
	$(BIN)/python tools/lighthouse.py

lab: .venv/lab
	$(BIN)/jupyter lab book/intro.ipynb

assignments: .venv/instructor
	$(BIN)/python tools/assignments.py $(if $(SEED),--seed $(SEED))

results: .venv/book
	$(BIN)/python -m tinyattn.experiments

# The only command that uses two threads. About 20 minutes; `.venv/bin/python -m benchmarks --help`.
bench: export OMP_NUM_THREADS := 2
bench: .venv/bench
	$(BIN)/python -m benchmarks

# The chapters once more on the slowest instructions that PyTorch has: other last digits. Thirty
# submissions of an assignment, for the seconds that one takes.
nightly: test results binder mutants $(if $(shell command -v npx),lighthouse)
	TINYATTN_ALL_FAULTS=1 $(BIN)/pytest -n 2 --dist loadfile tests/test_planted.py tests/*/test_planted.py
	ATEN_CPU_CAPABILITY=default $(BIN)/python tools/chapters.py $(NOTEBOOKS)
	$(BIN)/python tools/grade_many.py
	$(BIN)/python tools/flaky.py package --more 2
	@$(MAKE) --no-print-directory fresh

release: .venv/test book fresh
	$(BIN)/python tools/flaky.py --complete
	$(BIN)/python tools/release.py $(if $(TAG),--tag $(TAG))

# Each of the next three writes results/NAME.json with the commit, the date and digests of the code
# it speaks of. Mutants are tried only of modules whose digest has changed: minutes, not hours.
# Runs of flaky are kept until the code changes: ten are hours, and nightly adds two.
mutants: .venv/trust
	$(BIN)/python tools/mutants.py

flaky: .venv/trust book
	$(BIN)/python tools/flaky.py

binder: .venv/test
	$(BIN)/python tools/binder_check.py

# Says it of each record, and then fails if one is old.
fresh: .venv/test
	@$(BIN)/python tools/stamps.py || true
	$(BIN)/pytest -m records tests/test_records.py

# Needs the network: it asks a public list of weaknesses about every version that is installed.
audit: .venv/trust
	$(BIN)/python tools/audit.py

# Set-up. Each stamp in .venv is newer than the requirements that it stands for.

.venv/created:
	@$(or $(PYTHON),python3) tools/supported_python.py
	$(PYTHON) -m venv .venv || { echo "Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@

.venv/book: requirements.txt pyproject.toml | .venv/created
	@echo "Installing into .venv. The first time this takes a few minutes."
	sed 's/^torch==[^ ]*/torch==$(TORCH)/' requirements.txt > .venv/requirements.txt
	$(PIP) install -r .venv/requirements.txt -e . $$($(BIN)/python tools/cpu_wheels.py $(CPU_WHEELS))
	$(BIN)/python -m ipykernel install --sys-prefix
	@touch $@

.venv/test: .venv/book requirements-test.txt requirements-oracles.txt requirements-instructor.txt
	$(PIP) install -r .venv/requirements.txt -r requirements-test.txt -r requirements-oracles.txt
	$(PIP) check
	@touch $@

.venv/trust: .venv/test requirements-trust.txt
	$(PIP) install -r .venv/requirements.txt -r requirements-test.txt -r requirements-trust.txt
	@touch $@

.venv/lab: .venv/book requirements-lab.txt
	$(PIP) install -r .venv/requirements.txt -r requirements-lab.txt
	@touch $@

.venv/instructor: .venv/book requirements-instructor.txt
	$(PIP) install -r .venv/requirements.txt -r requirements-instructor.txt
	@touch $@

.venv/bench: .venv/book requirements-bench.txt
	$(PIP) install -r .venv/requirements.txt -r requirements-bench.txt
	@touch $@
