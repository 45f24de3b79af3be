"""What collectives would cost: the schedules' own times and bytes, formulas that agree with them, the command."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import launch
import numpy as np
import pytest
from test_cli import mpicomp

from mpicomp import gossip, prediction, simulation, topology
from mpicomp.cli import simulate
from mpicomp.cli.bench.data import square
from mpicomp.errors import CodecError
from mpicomp.ports.sim import Costs, Network
from mpicomp.schedules import ALLREDUCE

NETWORK = Network(latency=1e-4, bandwidth=1.25e8, overhead=2e-6)
COSTS = Costs(encode=4e9, decode=8e9, reduce=6e9)
each_algorithm = pytest.mark.parametrize("algorithm", ALLREDUCE)


each_carrying = pytest.mark.parametrize("carrying", [0, 3e-9], ids=["cards-carry", "cores-carry"])


@each_algorithm
@each_carrying
@pytest.mark.parametrize("p, nodes_of", [(2, 1), (3, 1), (8, 1), (8, 4)])
def test_wires_without_content_take_the_time_and_the_bytes_of_real_ones(algorithm, carrying, p, nodes_of):
    network = Network(1e-4, 1.25e8, nodes_of, overhead=2e-6, carrying=carrying)
    xs = [np.ones(50_000, np.float32)] * p
    real = simulation.allreduce(xs, codec="natural", algorithm=algorithm, network=network, costs=COSTS)
    hollow = prediction.allreduce(50_000, p, "natural", algorithm, network, COSTS)
    assert hollow.simulated and hollow.seconds == real.seconds
    assert nodes_of > 1 or hollow.sent == max(real.bytes_sent)


@each_algorithm
@each_carrying
@pytest.mark.parametrize("p, nodes_of", [(4, 1), (6, 1), (16, 1), (16, 4)])
@pytest.mark.parametrize("n", [250_000, 10_000_000])
def test_formulas_agree_with_the_schedules(algorithm, carrying, p, nodes_of, n):
    """Within 15 %, or 20 % where halving has guests, whose messages meet others on the way; bytes within 2 %."""
    network = Network(1e-4, 1.25e8, nodes_of, overhead=2e-6, carrying=carrying)
    by_schedule = prediction.allreduce(n, p, "natural", algorithm, network, COSTS, most=10**9)
    by_formula = prediction.allreduce(n, p, "natural", algorithm, network, COSTS, most=0)
    assert not by_formula.simulated
    guests = algorithm == "halving" and p & (p - 1)
    assert by_formula.seconds == pytest.approx(by_schedule.seconds, rel=0.2 if guests else 0.15)
    assert by_formula.sent == pytest.approx(by_schedule.sent, rel=0.02)


@pytest.mark.parametrize("algorithm", ["direct", "ring", "halving"])
def test_cores_that_carry_bytes_more_slowly_than_links_are_what_counts(algorithm):
    free = Network(1e-4, 1.25e8)
    slow = dataclasses.replace(free, carrying=20e-9)
    first, found = (prediction.allreduce(10_000_000, 4, "natural", algorithm, net) for net in (free, slow))
    assert found.sent == first.sent
    assert 2 * found.sent * slow.carrying <= found.seconds < 1.15 * 2 * found.sent * slow.carrying
    near = prediction.allreduce(10_000_000, 4, "natural", algorithm, dataclasses.replace(slow, nodes_of=4))
    assert near == prediction.allreduce(10_000_000, 4, "natural", algorithm, dataclasses.replace(free, nodes_of=4))


def test_a_gossip_step_takes_as_long_as_on_virtual_workers():
    xs = [np.ones(50_000, np.float32) for _ in range(6)]
    workers = gossip.Workers("naive", topology.ring(6), xs, codec="natural", network=NETWORK, costs=COSTS)
    found = prediction.gossip(50_000, topology.ring(6), "natural", NETWORK, COSTS)
    assert found.seconds == pytest.approx(workers.mix(xs))
    assert found.sent == workers.bytes_sent[0]


def test_low_rank_takes_two_exchanges_of_factors_and_its_arithmetic():
    shape = square(4_000_000)
    found = prediction.lowrank(shape, 4, "lowrank:rank=2", NETWORK, Costs(), 0.5)
    real = simulation.allreduce(
        [np.ones(shape, np.float32)] * 4, codec="lowrank:rank=2", algorithm="lowrank", network=NETWORK
    )
    assert found.seconds - 0.5 == pytest.approx(real.seconds, rel=0.05)
    assert found.sent == pytest.approx(max(real.bytes_sent), rel=0.05)
    with pytest.raises(CodecError, match="whole"):
        prediction.lowrank((4,), 4, "lowrank:rank=2", NETWORK, Costs(), 0.5)


@pytest.mark.parametrize("dims", [[8], [4, 2], [5, 3], [3, 3]])
def test_steps_to_consensus_follow_from_the_spectral_gap(dims):
    gap = topology.torus(dims).spectral_gap
    assert simulate.steps_to_consensus(dims) == pytest.approx(max(np.log(1e-3) / np.log(1 - gap), 1), rel=1e-4)


def test_the_command_predicts_every_schedule_on_few_ranks_and_thousands(tmp_path):
    file = tmp_path / "out.json"
    words = "simulate --ranks 4,4096 --size 1M --nodes-of 2 --bandwidth 1Gbit --latency 50us --overhead 1us --progress"
    done = mpicomp(*words.split(), "--codec", "natural,qsgd:bits=4", "-J", str(file))
    assert done.returncode == 0 and "4096 ranks, gossip torus" in done.stderr and "[####" in done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert {row["algorithm"] for row in rows} == {*ALLREDUCE, "lowrank", "torus"}
    assert {row["by"] for row in rows if row["ranks"] == 4} == {"schedule"}
    assert len(done.stdout.splitlines()) > len(rows) > 40
    best = {
        what: min(row["seconds"] for row in rows if row["ranks"] == 4 and row["what"] == what)
        for what in ("raw", "allreduce")
    }
    assert best["allreduce"] < best["raw"]


@pytest.mark.parametrize("words", ["--ranks 1", "--ranks x", "--bandwidth 5", "--latency 2bit", "--codec naturl"])
def test_the_command_says_what_it_does_not_understand(words):
    done = mpicomp("simulate", *words.split())
    assert done.returncode != 0 and words.split()[1] in done.stderr and "Traceback" not in done.stderr


def test_the_example_compares_what_was_measured_with_what_is_predicted(tmp_path):
    """At one point of its grid, of which the others were not measured."""
    file = tmp_path / "measured.json"
    schemes = ("Allreduce, MPI", "Allreduce, ring", "Allreduce, ring, natural", "Allreduce, direct, natural")
    schemes += ("neighbours, D-PSGD", "neighbours, CHOCO, natural")
    file.write_text(json.dumps({"0.02 5e+06": dict(zip(schemes, (3.0, 3.1, 1.2, 0.8, 3.5, 0.9)))}))
    words = ["examples/who_wins.py", "--workers", "8", "--measured", str(file)]
    done = subprocess.run([sys.executable, *words], cwd=launch.ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("the predicted winner won at 1 of 1 points") == 2, done.stdout + done.stderr
