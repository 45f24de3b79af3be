"""What only arrays of a GPU can show, on CuPy's stand-in or on a GPU: streams, memory, what MPI gets. Run by test_mpi.py."""

from __future__ import annotations

import os
import sys
import time
import types

import numpy as np
import pytest
from common import bits, normal
from mpi4py import MPI

import mpicomp
from mpicomp.ports.mpi import port_of

WORLD = MPI.COMM_WORLD
if os.environ.get("MPICOMP_TEST_ARRAYS", "numpy") != "cupy":
    pytest.skip("needs CuPy: MPICOMP_TEST_ARRAYS=cupy", allow_module_level=True)

import cupy  # noqa: E402

AWARE = os.environ.get("MPICOMP_CUDA_AWARE") == "1"
STANDIN = hasattr(cupy, "POISON")
allreduce = getattr(mpicomp.allreduce, "__wrapped__", mpicomp.allreduce)  # what is mirrored gives NumPy arrays back
neighbor_allreduce = mpicomp.topocomm.Neighborhood.neighbor_allreduce.__wrapped__
several = pytest.mark.skipif(WORLD.size == 1, reason="needs two ranks")


def summed(comm, n, **settings):
    """The same sum of NumPy arrays."""
    out = np.empty(n, np.float32)
    plain = type(comm).Allreduce.__wrapped__  # not mirrored
    plain(comm, normal(n, seed=comm.rank), out, **settings)
    return bits(out)


@pytest.mark.parametrize("algorithm", ["direct", "ring", "halving", "gather", "server", "hierarchical"])
def test_arrays_of_a_gpu_give_the_bits_of_the_cpu(comm, algorithm):
    for n in (0, 1, 1000, 40_001):
        x = cupy.asarray(normal(n, seed=comm.rank))
        comm.Allreduce(MPI.IN_PLACE, x, algorithm=algorithm, seed=3, segment=30_000)
        assert (bits(x.get()) == summed(comm, n, algorithm=algorithm, seed=3)).all()


def test_work_follows_the_callers_stream(comm):
    n = 3000
    wanted = summed(comm, n, seed=1)
    for _ in range(2):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x, out = cupy.empty(n, np.float32), cupy.empty(n, np.float32)
            x.set(normal(n, seed=comm.rank), stream=stream)
            comm.Allreduce(x, out, seed=1)
            doubled = out * np.float32(2)
        stream.synchronize()
        assert (bits(doubled.get() / 2) == wanted).all()


def test_several_at_once_on_streams_of_their_own(comm):
    lengths = [2000, 30_001, 500]
    outs, requests, streams = [], [], []
    for seed, n in enumerate(lengths):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            outs.append(cupy.asarray(normal(n, seed=comm.rank)))
            requests.append(comm.Iallreduce(MPI.IN_PLACE, outs[-1], seed=seed, segment=9000))
            streams.append(stream)
    for request in requests[::-1]:
        request.Wait()
    for seed, (n, out, stream) in enumerate(zip(lengths, outs, streams)):
        assert (bits(out.get(stream=stream)) == summed(comm, n, seed=seed)).all()


def test_what_is_remembered_stays_on_the_device(comm):
    x = cupy.asarray(normal(3000, seed=comm.rank))
    for codec, feedback in (("topk:ratio=0.1", True), ("sign", "ef21")):
        request = comm.Allreduce_init(MPI.IN_PLACE, x, codec=codec, feedback=feedback)
        request.Start()
        request.Wait()
        state = request.state_dict()
        remembered = [value for value in state.values() if hasattr(value, "shape")]
        assert remembered and all(isinstance(value, cupy.ndarray) for value in remembered)
        request.load_state_dict({k: v.get() if hasattr(v, "shape") else v for k, v in state.items()})
        request.Free()
    ring = mpicomp.ring(comm)
    out = cupy.zeros((2, 3000), np.float32)
    request = ring.Neighbor_allgather_init(x, out, memory="difference")
    request.Start()
    request.Wait()
    assert isinstance(request._request.replica, cupy.ndarray)
    ring.Free()


@several
@pytest.mark.skipif(not STANDIN, reason="looks into the stand-in")
def test_only_compressed_bytes_pass_through_the_host(comm, monkeypatch):
    copied = []
    for name in ("get", "set"):
        plain = getattr(cupy.ndarray, name)
        monkeypatch.setattr(
            cupy.ndarray,
            name,
            lambda self, *args, plain=plain, **given: copied.append(self.nbytes) or plain(self, *args, **given),
        )
    x = cupy.asarray(normal(64_000, seed=comm.rank))
    del copied[:]
    comm.Allreduce(MPI.IN_PLACE, x, codec="natural")
    cupy.cuda.get_current_stream().synchronize()
    size = mpicomp.codec("natural").wire_size(64_000)
    most = 2 * 2 * size  # up and down, to the host and from it
    assert sum(copied) <= (10_000 if AWARE else most + 10_000)


def test_untouched_arrays_arrive_too(comm):
    whole = cupy.asarray(np.arange(5) + comm.rank)
    comm.Allreduce(MPI.IN_PLACE, whole)
    assert (whole.get() == np.arange(5) * comm.size + sum(range(comm.size))).all()
    auto = mpicomp.Comm(comm, algorithm="auto")
    for _ in range(3):
        x, out = cupy.asarray(np.full(10, comm.rank + 1.0)), cupy.zeros(10)
        auto.Allreduce(x, out)
        assert (out.get() == comm.size * (comm.size + 1) / 2).all()
    host = np.full(10, comm.rank + 1.0)
    type(comm).Allreduce.__wrapped__(auto, MPI.IN_PLACE, host)  # small, and of a shape that was seen
    assert (host == comm.size * (comm.size + 1) / 2).all()
    out = cupy.zeros(10)
    request = auto.Allreduce_init(x, out)
    for step in (1.0, 3.0):
        x[:] = step
        request.Start()
        assert request.Wait()
        assert (out.get() == step * comm.size).all()
    request.Free()


def test_host_and_device_in_one_call_are_an_error_on_every_rank(comm):
    host, device = np.ones(100, np.float32), cupy.ones(100, np.float32)
    plain = type(comm).Allreduce.__wrapped__
    with pytest.raises((ValueError, mpicomp.RemoteError), match="on a GPU"):
        plain(comm, host, device)
    with pytest.raises((ValueError, mpicomp.RemoteError), match="on a GPU"):
        plain(comm, [host, device])


def test_the_shortcut_for_small_arrays_of_the_host_is_not_for_those_of_a_gpu(comm):
    """MPI would get a pointer that it cannot follow: the stand-in refuses to give it."""
    auto, plain = mpicomp.Comm(comm, algorithm="auto"), type(comm).Allreduce.__wrapped__
    for _ in range(3):  # from the second on it is taken
        plain(auto, np.ones(10, np.float32), np.empty(10, np.float32))
    x, out, host = cupy.ones(10, np.float32), cupy.zeros(10, np.float32), np.zeros(10, np.float32)
    for send, receive in ((x, out), ([x, MPI.FLOAT], [out, MPI.FLOAT]), (MPI.IN_PLACE, out)):
        out.fill(1)
        plain(auto, send, receive)
        assert (out.get() == comm.size).all()
    for send, receive in ((x, host), ([x, MPI.FLOAT], [host, MPI.FLOAT]), (host, out)):
        with pytest.raises((ValueError, mpicomp.RemoteError), match="on a GPU"):
            plain(auto, send, receive)


def test_what_is_known_of_other_collectives_is_not_for_arrays_of_a_gpu(comm):
    auto = mpicomp.Comm(comm, algorithm="auto")
    gather, scatter, bcast, reduce = (
        getattr(type(comm), name).__wrapped__ for name in ("Allgather", "Reduce_scatter_block", "Bcast", "Reduce")
    )
    for kind in (np, np, cupy):  # the second time what was agreed upon is taken
        x, whole = kind.ones(10, np.float32), kind.ones(10 * comm.size, np.float32)
        gather(auto, x, whole)
        assert (whole == 1).all()
        scatter(auto, whole, x)
        assert (x == comm.size).all()
        bcast(auto, x, 0)
        reduce(auto, x, whole[:10], MPI.SUM, 0)
        assert comm.rank or (whole[:10] == comm.size**2).all()


@pytest.fixture
def torchs(monkeypatch):
    """torch's stream. Its part is played: importing it takes long. On that stream work is before and after."""
    stream = cupy.cuda.Stream(non_blocking=True)
    current = types.SimpleNamespace(cuda_stream=stream.ptr)
    cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device: current)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda, Tensor=()))
    return stream


def test_the_stream_of_torch_is_honoured(comm, torchs):
    n = 3000
    x = cupy.empty(n, np.float32)
    x.set(normal(n, seed=comm.rank), stream=torchs)
    comm.Allreduce(MPI.IN_PLACE, x, seed=4)
    assert (bits(x.get(stream=torchs)) == summed(comm, n, seed=4)).all()


def test_so_it_is_where_more_is_done_than_the_collective(comm, torchs):
    """Packing, scaling, rounding and updates are CuPy's work, before and after."""
    p, ring = comm.size, mpicomp.ring(comm)

    def filled(number, value, dtype=np.float32):
        made = [cupy.empty(640, dtype) for _ in range(number)]
        for x in made:
            x.set(np.full(640, value, dtype), stream=torchs)
        return made

    def seen(arrays):
        return {float(v) for x in arrays for v in x.get(stream=torchs)}

    for settings in ({"codec": "fp16"}, {"codec": "raw", "algorithm": "raw"}):
        xs = filled(4, 1)
        comm.Allreduce(xs, **settings)
        assert seen(xs) == {p}
    assert seen([allreduce(*filled(1, p), "mean", "raw", comm, "raw")]) == {p}
    assert seen([neighbor_allreduce(ring, *filled(1, 1, np.float16), codec="raw")]) == {1}
    xs, updates = filled(2, 1), filled(2, 1)
    mpicomp.gossip.DPSGD(ring, xs).step(xs, updates)
    assert seen(xs) == {2}
    xs = filled(4, 1)
    request = comm.Allreduce_init(MPI.IN_PLACE, xs, codec="fp16")
    for x in xs:
        x.set(np.full(640, 2, np.float32), stream=torchs)
    request.Start()
    request.Wait()
    assert seen(xs) == {2 * p}
    ring.Free()


def test_what_mpi_does_waits_for_the_stream_of_the_call_whoever_starts_it(comm, monkeypatch):
    monkeypatch.setenv("MPICOMP_CHECK", "always")
    checked = mpicomp.Comm(comm)
    for pause in (0, 0.1):  # time for the thread that makes progress
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x = cupy.empty(8, np.int64)
            x.set(np.full(8, 5), stream=stream)
            request = checked.Iallreduce(MPI.IN_PLACE, x)
        time.sleep(pause)
        request.Wait()
        assert (x.get(stream=stream) == 5 * comm.size).all()


@pytest.mark.parametrize("settings", [{}, {"feedback": True}, {"feedback": "ef21"}])
@pytest.mark.parametrize("number", [1, 3])
def test_a_request_may_be_made_on_one_stream_and_started_on_another(comm, settings, number):
    made, started = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with started:
        xs = [cupy.ones(640, np.float32) for _ in range(number)]
    started.synchronize()
    with made:
        request = comm.Allreduce_init(MPI.IN_PLACE, xs if number > 1 else xs[0], codec="fp16", **settings)
    with started:
        request.Start()
        request.Wait()
    for x in xs:
        assert (x.get(stream=started) == comm.size).all()


@several
@pytest.mark.parametrize("codec", [("natural|zstd", "natural"), ("topk:ratio=0.1|zstd", "natural")])
def test_messages_of_the_host_and_of_the_device_do_not_overtake_each_other(comm, codec):
    pytest.importorskip("zstandard")
    n = 100_000
    for segment in (16_384, 65_536):
        x = cupy.asarray(normal(n, seed=comm.rank))
        comm.Iallreduce(MPI.IN_PLACE, x, codec=codec, algorithm="direct", segment=segment, seed=1).Wait()
        assert (bits(x.get()) == summed(comm, n, codec=codec, algorithm="direct", segment=segment, seed=1)).all()


@pytest.mark.skipif(not STANDIN, reason="needs two devices")
def test_arrays_of_another_device_than_the_current_one(comm):
    def other(n=640, dtype=np.float32):
        with cupy.cuda.Device(1):
            return cupy.ones(n, dtype)

    p, ring, here = comm.size, mpicomp.ring(comm), cupy.ones(640, np.float32)
    codec = mpicomp.codec("natural")
    assert (codec.decode(codec.encode(other()), like=other()).get() == 1).all()
    xs = [other(), other()]
    comm.Allreduce(xs, codec="fp16")
    request = comm.Allreduce_init(MPI.IN_PLACE, x := other(), codec="sign", feedback=True)
    request.Start()
    request.Wait()
    matrix = other(64 * 64).reshape(64, 64)
    comm.Allreduce([matrix], codec="lowrank", algorithm="lowrank")
    mean = allreduce(other(), "mean", "raw", comm, "raw")
    half = neighbor_allreduce(ring, other(640, np.float16))
    mixed = other()
    mpicomp.gossip.Choco(ring, mixed, "natural", gamma=0.1).mix(mixed)
    for result, wanted in ((xs[1], p), (x, p), (mean, 1), (half, 1), (mixed, 1)):
        assert result.device.id == 1 and np.allclose(result.get().astype("f4"), wanted)
    assert np.allclose(matrix.get(), p, rtol=1e-5)
    plain = type(comm).Allreduce.__wrapped__
    for arguments in ((here, other()), ([cupy.ones(70_000, np.float32), other(70_000)],)):
        with pytest.raises((ValueError, mpicomp.RemoteError), match="on a GPU"):
            plain(comm, *arguments)


def test_a_wire_at_any_address_is_decoded():
    x = cupy.asarray(normal(100, seed=1))
    for name in ("bf16", "fp16", "natural", "randk:ratio=0.1"):
        codec = mpicomp.codec(name)
        wire = codec.encode(x)
        room = cupy.zeros(wire.size + 1, np.uint8)
        room[1:] = wire
        assert (bits(codec.decode(room[1:], like=x).get()) == bits(codec.decode(wire, like=x).get())).all()


def test_ports_have_a_device_port_only_where_it_is_used(comm):
    assert port_of(comm).devices == {}
    comm.Allreduce(MPI.IN_PLACE, cupy.ones(100, np.float32))
    assert list(port_of(comm).devices) == [cupy.cuda.runtime.getDevice()]
