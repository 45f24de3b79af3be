"""Long training on virtual workers: replicas stay the same bits on both ends, residuals stay bounded, the mean stays.

python tests/soak/training.py [STEPS]; each step moves the parameters of 5 workers on a ring by random data.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from mpicomp import simulation, topology
from mpicomp.codecs import names
from mpicomp.gossip import Workers
from mpicomp.memory.feedback import ErrorFeedback

P, SHAPE = 5, (12, 11)
METHODS = {
    "dcd": {"codec": "natural"},
    "choco": {"codec": "topk:ratio=0.1,block=64", "gamma": 0.05},
    "choco-natural": {"codec": "natural:bits=8", "gamma": 0.3},
    "powergossip": {},
}


def gossip(name: str, steps: int) -> dict[str, float]:
    """The worst that was seen in so many steps; AssertionError if replicas ever differ."""
    rng = np.random.default_rng(1)
    xs = [rng.standard_normal(SHAPE).astype("f4") for _ in range(P)]
    wanted = np.mean(xs, axis=0, dtype="f8")
    workers = Workers(name.partition("-")[0], topology.ring(P), xs, **METHODS[name])
    drift = spread = size = 0.0
    for _ in range(steps):
        updates = [(0.01 * (rng.standard_normal(SHAPE) - 0.5 * x)).astype("f4") for x in xs]
        wanted = wanted + np.mean(updates, axis=0, dtype="f8")
        workers.step(xs, updates)
        mean = np.mean(xs, axis=0, dtype="f8")
        drift = max(drift, float(np.abs(mean - wanted).max()))
        spread = max(spread, max(float(np.abs(x - mean).max()) for x in xs))
        size = max(size, max(float(np.abs(x).max()) for x in xs))
        replicas_agree(workers)
    return {"drift of the mean": drift, "distance from it": spread, "largest value": size}


def replicas_agree(workers: Workers) -> None:
    """What each worker believes of each neighbour is what that neighbour believes of itself, bit for bit."""
    memories = [getattr(method, "memory", None) for method in workers.methods]
    for memory in memories:
        for rank, estimate in memory.estimates.items() if memory is not None else ():
            assert np.array_equal(estimate.view("u4"), memories[rank].estimates[rank].view("u4"))


def replicas(method: str, codec: str, steps: int) -> None:
    """Whatever the codec, and however far a bad one leads the values astray."""
    rng = np.random.default_rng(3)
    xs = [rng.standard_normal(SHAPE).astype("f4") for _ in range(P)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # ECD warns of most codecs
        workers = Workers(method, topology.ring(P), xs, codec=codec)
    for _ in range(steps):
        workers.step(xs, [(0.001 * rng.standard_normal(SHAPE)).astype("f4") for _ in xs])
        replicas_agree(workers)


def feedback(codec: str, steps: int) -> dict[str, float]:
    """Error feedback: all that was sent and what is still kept make up all that was given."""
    rng, n = np.random.default_rng(2), 130
    memories = [ErrorFeedback(n, "f32") for _ in range(P)]
    given, got, residual = np.zeros(n), np.zeros(n), 0.0
    for step in range(steps):
        xs = [rng.standard_normal(n).astype("f4") for _ in range(P)]
        result = simulation.allreduce(xs, codec=codec, call=step, memories=memories)
        assert len({out.tobytes() for out in result.arrays}) == 1
        given, got = given + np.sum(xs, axis=0, dtype="f8"), got + result.arrays[0]
        residual = max(residual, max(float(np.abs(m.up).max()) for m in memories))
    kept = sum(memory.down.astype("f8") + memory.up for memory in memories)
    return {"lost": float(np.abs(given - got - kept).max()), "largest residual": residual}


def main(steps: int) -> None:
    for name in METHODS:
        worst = gossip(name, steps)
        print(f"{name}, {steps} steps: {worst}", flush=True)
        assert worst["largest value"] < 10 and worst["distance from it"] < 10
        # DCD keeps the mean but for its codec's unbiased error, which walks at random: a third of steps of about 0.03, over
        # 5 workers; at the start they are larger. The others keep it to rounding.
        assert worst["drift of the mean"] < (0.8 + 0.025 * steps**0.5 if name == "dcd" else 4 * steps**0.5 * 2.0**-23)
    for codec in sorted({*names()} - {"lowrank"}):  # which is for sums
        replicas("dcd", codec, steps // 5)
        replicas("ecd", codec, steps // 5)
        print(f"replicas and estimates, {codec}, {steps // 5} steps: the same bits", flush=True)
    for codec in ("topk:ratio=0.05,block=64", "sign:block=64", "natural"):
        worst = feedback(codec, steps)
        print(f"feedback {codec}, {steps} steps: {worst}", flush=True)
        assert worst["lost"] < 1e-4 * steps**0.5 and worst["largest residual"] < 1000


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
