# Two commands do all set-up on a machine that has only Python: `make demo` and `make test`.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
RUN := $(VENV)/bin/python

# The many processes that tests start need not each compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

# Which cases of large tables a sampled run takes: any number; continuous integration derives it from the commit.
SMELT_TEST_TURN ?= 0
# The processor that `make test-profile` chooses kernels for: amx, avx512, avx2 or neon.
PROFILE ?= avx2

# Any of these serves; smelt itself looks in the same order. SMELT_CC names another one.
COMPILER := $(shell command -v "$${SMELT_CC:-cc}" || command -v cc || command -v clang || command -v gcc)
ZIG := $(if $(COMPILER),,zig)

# The stamps' names hold what was installed, so that losing the C compiler later sets up again.
USE_STAMP := $(VENV)/installed-use$(ZIG:%=-%)
DEV_STAMP := $(VENV)/installed-dev$(ZIG:%=-%)

OPENCL_STAMP := $(VENV)/installed-opencl$(ZIG:%=-%)
PROOFS_STAMP := $(VENV)/installed-proofs$(ZIG:%=-%)
PEERS_STAMP := $(VENV)/installed-peers-tests$(ZIG:%=-%)
DOCS_STAMP := $(VENV)/installed-docs$(ZIG:%=-%)
BROWSER_STAMP := $(VENV)/installed-browser$(ZIG:%=-%)

.PHONY: help demo demo-chat test test-all test-profile fashion-mnist test-peers opencl test-opencl proofs mutants replay tuned fuzz hunt check format docs test-docs bench-peers lock audit clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      set up, then run the demonstration"
	@echo "make demo-chat  set up, fetch a small language model, and talk with it"
	@echo "make test      set up, lint, type-check, run the sampled tests   (14 minutes on two cores, with nothing compiled yet)"
	@echo "make test-all  the same with every test and many more examples   (about an hour)"
	@echo "make test-peers  install JAX and PyTorch, compare programs, layers and optimizers with them  (15 minutes)"
	@echo "make test-opencl  set up OpenCL for the processor, run its tests, look for races  (6 minutes)"
	@echo "make fashion-mnist  get the pictures of the LeNet example into the virtual environment (Debian, Ubuntu; no root)"
	@echo "make proofs    install an SMT solver, prove that the kernels of a corpus stay inside their buffers  (at most 5 minutes)"
	@echo "make mutants   one mistake at a time in the simplifier, the legality of schedules, the scheduler: who notices?  (40 minutes)"
	@echo "make replay    what the compiler makes of every function, its gradient, loops and networks: is it as before?  (6 minutes)"
	@echo "make tuned     tune the kernels of the cpu suite, twice, for the choices that come with smelt  (2 hours, on a quiet machine)"
	@echo "make fuzz      the generated tests only, with new examples at every run, and 20,000 whole programs (hours)"
	@echo "make hunt      500 new whole programs against NumPy, and PyTorch where it is installed; COUNT=2000 for more  (90 seconds)"
	@echo "make check     lint, formatting and types only"
	@echo "make format    format the code and apply the safe lint fixes"
	@echo "make docs      build the documentation as a site with a search: build/site/index.html"
	@echo "make test-docs  build that site, check its links, and search it in a browser without a window  (at most 2 minutes)"
	@echo "make bench-peers  install PyTorch and JAX next to smelt, for 'smelt bench cpu' to compete with"
	@echo "make lock      write requirements/dev.lock: versions and hashes of all that development installs"
	@echo "make audit     look those versions up among known vulnerabilities, and list them in build/sbom.json"
	@echo "make clean     remove the virtual environment, caches and outputs"
	@echo ""
	@echo "PYTHON=python3.12 chooses the Python for the virtual environment, WORKERS=4 the number of test processes."

demo: $(USE_STAMP)
	@$(RUN) -m smelt demo

# A language model of 98 MB is fetched at the first time, by pip as everything else.
demo-chat: $(USE_STAMP)
	@$(RUN) -c 'import jinja2, regex' 2>/dev/null || $(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[llm]'
	@$(RUN) -m smelt chat

# A file's tests go to one process: what they compile in common is compiled once, and tests are not dealt out one by one.
test: check
	SMELT_TEST_ALL=0 SMELT_TEST_TURN=$(SMELT_TEST_TURN) $(RUN) -m pytest -q -n $(WORKERS) --dist loadfile

# Kernels chosen as for another processor, and run on this one.
test-profile: $(DEV_STAMP)
	SMELT_TEST_ALL=0 SMELT_TEST_TURN=$(SMELT_TEST_TURN) SMELT_TEST_PROFILE=$(PROFILE) $(RUN) -m pytest -q -n $(WORKERS) --dist loadfile \
	  tests/schedule tests/fuse tests/compiler tests/plan tests/derive/test_attention.py tests/transform tests/nn

test-all: check $(PROOFS_STAMP)
	-@$(MAKE) --no-print-directory fashion-mnist
	SMELT_TEST_ALL=1 $(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup

test-peers: $(PEERS_STAMP)
	SMELT_TEST_PEERS=1 SMELT_TEST_TURN=$(SMELT_TEST_TURN) $(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup -m peers tests/peers

opencl: $(OPENCL_STAMP)

test-opencl: opencl
	$(OPENCL_ENVIRONMENT) SMELT_TEST_OPENCL=1 SMELT_TEST_ALL=0 $(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup -m opencl
	$(OPENCL_ENVIRONMENT) SMELT_TEST_OPENCL=1 SMELT_TEST_ALL=1 $(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup tests/test_oclgrind.py

proofs: $(PROOFS_STAMP)
	SMELT_TEST_ALL=1 $(RUN) -m pytest -q -n $(WORKERS) tests/proofs

mutants: $(DEV_STAMP)
	$(RUN) -m tests.mutants

replay: $(DEV_STAMP)
	$(RUN) -m tests.replay

tuned: $(DEV_STAMP)
	$(RUN) -m smelt.bench.shipping

fuzz: $(DEV_STAMP)
	SMELT_TEST_ALL=1 SMELT_TEST_FUZZ=1 $(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup -m "not slow" tests/property tests/kernel tests/fuse tests/schedule tests/rewrite tests/egraph tests/graph
	$(MAKE) --no-print-directory hunt COUNT=20000

# Whole programs against NumPy and PyTorch, new ones at every run. They are seen once: nothing is kept.
COUNT ?= 500
hunt: $(DEV_STAMP)
	SMELT_DISK_CACHE=0 $(RUN) -m tests.hunt --count $(COUNT) --processes $(WORKERS) $(if $(SEED),--seed $(SEED))

check: $(DEV_STAMP)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

format: $(DEV_STAMP)
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

# -W: what is only a warning to Sphinx, such as a link that leads nowhere, ends the build.
docs: $(DOCS_STAMP)
	$(RUN) -m sphinx -W --keep-going -q -c docs -d build/site-trees . build/site
	@echo "build/site/index.html"

test-docs: $(BROWSER_STAMP)
	SMELT_TEST_SITE=1 $(RUN) -m pytest -q -m site tests/docs/test_site.py

# Optional and large: the suite runs without them and says who is missing.
bench-peers: $(DEV_STAMP)
	$(RUN) -m pip install --disable-pip-version-check --editable '.[peers]'

# The versions that development was last seen to work with, with the hashes of their files, for every platform:
# pip install --require-hashes -r requirements/dev.lock
TOOLS := build/tools
$(TOOLS)/installed:
	@$(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv pip-audit cyclonedx-bom
	@touch $@

lock: $(TOOLS)/installed
	$(TOOLS)/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --upgrade --custom-compile-command "make lock" \
	  --extra dev --extra zig pyproject.toml --output-file requirements/dev.lock

# --strict: a package that the database cannot be asked about is a failure, not a package without vulnerabilities.
audit: $(TOOLS)/installed
	$(TOOLS)/bin/cyclonedx-py requirements requirements/dev.lock --output-file build/sbom.json
	$(TOOLS)/bin/pip-audit --strict --requirement requirements/dev.lock --require-hashes --disable-pip

clean:
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find smelt tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian's package, unpacked where sm.data.fashion_mnist looks. apt checks its signature. Nothing else needs it: without
# the pictures the test of that example is skipped.
FASHION := share/datasets/fashion-mnist
fashion-mnist: $(DEV_STAMP)
	@[ -d /usr/$(FASHION) ] || [ -d $(VENV)/$(FASHION) ] || { \
	  rm -rf build/debian && mkdir -p build/debian $(dir $(VENV)/$(FASHION)) && \
	  (cd build/debian && apt-get -qq download dataset-fashion-mnist && dpkg -x dataset-fashion-mnist_*.deb .) && \
	  mv build/debian/usr/$(FASHION) $(VENV)/$(FASHION) && rm -rf build/debian; } || { \
	  echo "Fashion-MNIST could not be had from Debian's package dataset-fashion-mnist (apt-get, dpkg)." >&2; exit 1; }

COMMA := ,

# A development install serves for use as well, so it leaves both stamps.
$(DEV_STAMP): EXTRAS := [dev$(if $(ZIG),$(COMMA)zig)]
$(DEV_STAMP): STAMPS := $(DEV_STAMP) $(USE_STAMP)
$(USE_STAMP): EXTRAS := $(if $(ZIG),[zig])
$(USE_STAMP): STAMPS := $(USE_STAMP)

# Oclgrind is a simulator of OpenCL that looks for races. It and pocl, which is OpenCL for the processor, are wheels for
# x86_64; for others Debian's packages are unpacked beside them, with what they need and the system lacks.
OPENCL := $(abspath $(VENV))/opencl
OPENCL_ENVIRONMENT := $(if $(filter x86_64,$(shell uname -m)),,OCL_ICD_VENDORS=$(OPENCL)/vendors \
  LD_LIBRARY_PATH="$$(cat $(OPENCL)/libraries 2>/dev/null):$$LD_LIBRARY_PATH")
$(OPENCL_STAMP): $(DEV_STAMP)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev,opencl]'
ifeq ($(shell uname -m),x86_64)
	@$(RUN) -m pip install --quiet --disable-pip-version-check 'pyopencl[oclgrind]'
else
	@rm -rf $(OPENCL) && mkdir -p $(OPENCL)/packages $(OPENCL)/vendors
	@cd $(OPENCL)/packages && apt-get -qq download $$(apt-get install -s --no-install-recommends pocl-opencl-icd oclgrind \
	  | awk '/^Inst/ {print $$2}') && for package in *.deb; do dpkg -x $$package ..; done && rm -r $(OPENCL)/packages || { \
	  echo "There is no OpenCL for this processor on PyPI, and Debian's packages could not be had (apt-get, dpkg)." >&2; exit 1; }
	@find $(OPENCL)/usr/lib -name 'libpocl.so.?' >$(OPENCL)/vendors/pocl.icd
	@find $(OPENCL)/usr/lib -name 'liboclgrind-rt-icd.so' >$(OPENCL)/vendors/oclgrind.icd
	@find $(OPENCL)/usr/lib -name 'lib*.so*' -printf '%h\n' | sort -u | paste -sd: >$(OPENCL)/libraries
endif
	@touch $(OPENCL_STAMP)

# Without a wheel for this machine the proofs are skipped: building the solver takes longer than everything else.
$(PROOFS_STAMP): $(DEV_STAMP)
	-@$(RUN) -m pip install --quiet --disable-pip-version-check --only-binary z3-solver --editable '.[dev,proofs]'
	@touch $(PROOFS_STAMP)

$(PEERS_STAMP): $(DEV_STAMP)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev,peers-tests]'
	@touch $(PEERS_STAMP)

$(DOCS_STAMP): $(DEV_STAMP)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $(DOCS_STAMP)

# Without a browser only the tests that need one are skipped. Where the system has none, Debian's is unpacked, with what
# it needs and the system lacks.
BROWSER := $(abspath $(VENV))/browser
$(BROWSER_STAMP): $(DOCS_STAMP)
	-@$(RUN) -m pip install --quiet --disable-pip-version-check --only-binary playwright --editable '.[dev,docs-tests]'
	@{ command -v chromium-headless-shell || command -v chromium || command -v google-chrome; } >/dev/null || { \
	  rm -rf $(BROWSER) && mkdir -p $(BROWSER)/packages && cd $(BROWSER)/packages && \
	  apt-get -qq download $$(apt-get install -s --no-install-recommends chromium-headless-shell | awk '/^Inst/ {print $$2}') && \
	  for package in *.deb; do dpkg -x $$package .. || exit 1; done && rm -r $(BROWSER)/packages; } || \
	  echo "No browser on this system, and Debian's chromium-headless-shell could not be had (apt-get, dpkg)." >&2
	@touch $(BROWSER_STAMP)

$(DEV_STAMP) $(USE_STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "smelt needs Python 3.11 or newer, and '$(PYTHON)' is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	@$(if $(ZIG),echo "No C compiler found (cc clang gcc): installing 'zig cc' from PyPI; smelt compiles with it." >&2,:)
	@echo "Setting up $(VENV); this happens once." >&2
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
	  echo "No virtual environment could be made: on Debian and Ubuntu, install the python3-venv package." >&2; exit 1; }
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.$(EXTRAS)'
	@touch $(STAMPS)
