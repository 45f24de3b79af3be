"""The long runs of tests/soak, short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import launch
import pytest

SOAK = Path(__file__).parent / "soak"


def test_training_keeps_replicas_residuals_and_the_mean():
    result = subprocess.run([sys.executable, str(SOAK / "training.py"), "60"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name, number", [("small", 4000), ("communicators", 40), ("threads", 3)])
def test_many_of_a_kind_leave_nothing_behind(name, number):
    launch.mpirun(2, str(SOAK / "ranks.py"), name, str(number))
