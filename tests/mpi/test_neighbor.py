"""Neighbour collectives on rings, tori, grids and graphs of however many ranks there are."""

from __future__ import annotations

import sys

import networkx
import numpy as np
import pytest
from common import drawn
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
P = WORLD.size
CODECS = ["raw", "fp16", "bf16", "natural", "natural:bits=8"]


GRAPHS = {
    "ring": lambda comm: mpicomp.ring(comm),
    "torus": lambda comm: mpicomp.torus(comm),
    "torus 1 x p": lambda comm: mpicomp.torus(comm, (1, 0)),
    "grid": lambda comm: mpicomp.grid(comm),
    "exponential": lambda comm: mpicomp.exponential(comm),
    "complete": lambda comm: mpicomp.complete(comm),
    "star": lambda comm: mpicomp.star(comm),
    "path": lambda comm: mpicomp.graph(comm, networkx.path_graph(comm.size)),
}


@pytest.fixture
def base():
    """Compresses at every size."""
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    yield comm
    comm.Free()


@pytest.fixture(params=GRAPHS)
def graph(request, base):
    comm = GRAPHS[request.param](base)
    yield comm
    comm.Free()


def data(rank, n, dtype="f4"):
    return drawn(n, (rank, n), dtype)


def sources(comm):
    """Rows in MPI's own words, None for PROC_NULL."""
    if isinstance(comm, MPI.Cartcomm):
        ranks = [r for d in range(comm.ndim) for r in comm.Shift(d, 1)]
    else:
        ranks = comm.Get_dist_neighbors()[0]
    return [None if r == MPI.PROC_NULL else r for r in ranks]


def test_a_topology_is_mpi4pys_class_and_keeps_settings(graph):
    assert isinstance(graph, (MPI.Cartcomm, MPI.Distgraphcomm)) and isinstance(graph, mpicomp.Comm)
    assert str(graph.codec) == "natural"
    copy = graph.Dup()
    assert type(copy) is type(graph) and copy.codec == graph.codec
    copy.Free()


def test_rows_are_in_the_order_of_mpi(graph):
    assert list(graph.mixing.rows[graph.rank]) == sources(graph)
    assert list(graph.mixing.neighbors[graph.rank]) == sorted({*sources(graph)} - {None, graph.rank})


def test_every_row_is_what_its_sender_encoded(graph):
    rows = sources(graph)
    for codec in CODECS:
        most = {"raw": 0, "fp16": 1e-3, "bf16": 1e-2}.get(codec, 0.6)
        for n in (0, 1, 7, 1001):
            out = np.full((len(rows), n), 7, "f4")
            graph.Neighbor_allgather(data(graph.rank, n), out, codec=codec, seed=3)
            for row, source in zip(out, rows):
                if source is None:
                    assert np.all(row == 7), "rows of PROC_NULL stay"
                else:
                    x = data(source, n)
                    assert np.linalg.norm(row - x) <= most * np.linalg.norm(x)


def test_all_neighbours_of_a_rank_get_the_same_bits(base):
    everybody = mpicomp.complete(base)
    n = 777
    out = np.zeros((P - 1, n), "f4")
    everybody.Neighbor_allgather(data(base.rank, n), out)
    mine = np.zeros((P, n), "f4")
    for row, source in zip(out, sources(everybody)):
        mine[source] = row
    seen = np.empty((P, P, n), "f4")
    WORLD.Allgather(mine, seen)
    for sender in range(P):
        others = [seen[r, sender] for r in range(P) if r != sender]
        assert all(np.array_equal(others[0], other) for other in others)
    everybody.Free()


@pytest.mark.parametrize("codec", CODECS)
def test_bits_do_not_depend_on_the_segment_size(base, codec):
    ring, n = mpicomp.ring(base), 5003
    outs = []
    for segment in (None, 4096, 8192, 1):
        outs.append(np.zeros((2, n), "f4"))
        ring.Neighbor_allgather(data(base.rank, n), outs[-1], codec=codec, seed=5, segment=segment)
    assert all(np.array_equal(outs[0], out) for out in outs)
    ring.Free()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8"])
def test_types_are_carried(base, dtype):
    ring = mpicomp.ring(base)
    out = np.zeros((2, 300), dtype)
    ring.Neighbor_allgather(data(base.rank, 300).astype(dtype), out)
    for row, source in zip(out, sources(ring)):
        x = data(source, 300).astype(dtype)
        assert (P > 1) * 1e-9 <= np.linalg.norm(row - x) < 0.6 * np.linalg.norm(x)
    ring.Free()


def test_integers_are_exact_in_every_graph(graph):
    rows = sources(graph)
    out = np.full((len(rows), 2), -5, "i4")
    graph.Neighbor_allgather(np.array([graph.rank, 3], "i4"), out)
    assert out.tolist() == [[-5, -5] if r is None else [r, 3] for r in rows]


def trying(faster, monkeypatch):
    """Whichever way shall be faster is, whenever it is tried; a list that grows with every try."""
    tried = []

    def race(port, runs, repeats):
        for once in runs.values():
            once()
            tried.append(faster)
        return {"raw": float(faster == "compression"), "ours": float(faster == "MPI")}

    monkeypatch.setattr("mpicomp.collectives.trial.race", race)
    return tried


@pytest.mark.parametrize("faster", ["MPI", "compression"])
def test_large_arrays_go_whichever_way_was_faster_when_it_was_tried(faster, monkeypatch):
    tried = trying(faster, monkeypatch)
    n = 300_000
    grid = mpicomp.grid(mpicomp.Comm(WORLD.Dup(), "natural"), (WORLD.size,))
    sources = [r for r in (grid.Shift(0, 1)) if r != MPI.PROC_NULL]
    for settings in ({}, {}, {"codec": "natural", "seed": 1}, {"codec": "natural", "seed": 2}):
        out = np.full((2, n), 7, "f4")
        grid.Neighbor_allgather(data(grid.rank, n), out, **settings)
        rows = [row for row, r in zip(out, grid.Shift(0, 1)) if r != MPI.PROC_NULL]
        exact = [(row == data(r, n)).all() for row, r in zip(rows, sources)]
        assert all(exact) if faster == "MPI" else not any(exact)
        assert all((row == 7).all() for row, r in zip(out, grid.Shift(0, 1)) if r == MPI.PROC_NULL)
    assert len(tried) == 2 * (WORLD.size > 1)


@pytest.mark.parametrize("n", [50, 300_000])
def test_ranks_may_give_their_buffers_in_other_forms_where_mpi_has_the_call_whatever_the_seed(n, monkeypatch):
    """Some know the call again at once, the others look closely: none may ask what the rest does not."""
    trying("MPI", monkeypatch)
    ring = mpicomp.ring(mpicomp.Comm(WORLD.Dup(), "natural", algorithm="auto" if P > 1 else "raw"))
    codec = [{"codec": "natural"}, {}, {"codec": mpicomp.codec("natural")}][ring.rank % 3 if P > 1 else 1]
    for seed in (1, 2, 3):
        x, out = data(ring.rank, n), np.zeros((2, n), "f4")
        form = (lambda array: array) if ring.rank % 2 else (lambda array: [array, MPI.FLOAT])
        ring.Neighbor_allgather(form(x), form(out), seed=seed, **codec)
        assert np.array_equal(out, [data(r, n) for r in sources(ring)])
    ring.Free()


@pytest.mark.host  # arrays of a GPU are looked at each time: to copy them takes longer
@pytest.mark.parametrize("n", [50, 300_000])
def test_what_was_left_to_mpi_is_known_again_at_once_whatever_the_seed(n, monkeypatch):
    trying("MPI", monkeypatch)
    ring = mpicomp.ring(mpicomp.Comm(WORLD.Dup(), "natural"))
    x, out = data(ring.rank, n), np.zeros((2, n), "f4")
    calls = [
        functions_called(lambda: ring.Neighbor_allgather(x, out, **settings))  # noqa: B023
        for settings in ({}, {}, {"codec": "natural", "seed": 1}, {"codec": "natural", "seed": 2})
    ]
    first, again, asked, asked_again = calls
    if n == 50 or P > 1:  # alone nothing is tried, and what was asked for is done
        assert min(first, asked) > 100 and max(again, asked_again) < 50, calls
    ring.Free()


def functions_called(function):
    """How many of Python's: as time, were there nothing else to do on this machine."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_small_arrays_go_to_mpi_untouched_by_default():
    ring = mpicomp.ring(WORLD, "natural")
    x, out = data(ring.rank, 50), np.zeros((2, 50), "f4")
    ring.Neighbor_allgather(x, out)
    assert np.array_equal(out, [data(r, 50) for r in sources(ring)])
    assert np.allclose(
        ring.neighbor_allreduce(x), sum(w * data(r, 50) for r, w in ring.mixing.weights[ring.rank].items())
    )
    ring.Free()


def test_nan_and_inf_arrive(base):
    ring = mpicomp.ring(base)
    x, out = data(ring.rank, 100), np.zeros((2, 100), "f4")
    x[3], x[70] = np.nan, np.inf
    ring.Neighbor_allgather(x, out)
    assert np.isnan(out[:, 3]).all() and np.isinf(out[:, 70]).all()
    ring.Free()


def test_arrays_of_different_lengths(graph):
    for form in ("counts", "displs", "pair"):
        check_lengths(graph, form)


def check_lengths(graph, form):
    def length(r):
        return 40 * r % 97 if r is not None else 5

    rows = sources(graph)
    counts = [length(r) for r in rows]
    displs = [2 + i + sum(counts[:i]) for i in range(len(counts))]
    total = np.full(sum(counts) + 2 + len(counts), 9, "f4")
    if form == "counts":
        displs = [sum(counts[:i]) for i in range(len(counts))]
        spec = [total[: sum(counts)], counts]
    elif form == "displs":
        spec = [total, counts, displs, MPI.FLOAT]
    else:
        spec = [total, (counts, displs), MPI.FLOAT]
    graph.Neighbor_allgatherv(data(graph.rank, length(graph.rank)), spec)
    for r, count, displ in zip(rows, counts, displs):
        got = total[displ : displ + count]
        if r is None:
            assert np.all(got == 9)
        else:
            assert np.linalg.norm(got - data(r, count)) <= 0.6 * np.linalg.norm(data(r, count))


def test_wrong_counts_are_noticed_by_the_receiver_at_once_and_by_the_others_as_the_news_spreads(base):
    ring = mpicomp.ring(base)

    def gather(counts):
        ring.Neighbor_allgatherv(data(ring.rank, 30), [np.zeros(sum(counts), "f4"), counts])

    wrong = ring.rank == 0
    with pytest.raises(mpicomp.Error):
        for _ in range(1 if wrong else P + 1):
            gather([30 + wrong] * 2)
    gather([30, 30])
    ring.Free()


def test_wrong_buffers_are_an_error_on_every_rank(base):
    ring = mpicomp.ring(base)
    out = np.zeros((2, 10 + (ring.rank == P - 1)), "f4")
    with pytest.raises(mpicomp.Error):
        ring.Neighbor_allgather(data(ring.rank, 10), out)
    out = np.zeros((2, 10), "f4")
    ring.Neighbor_allgather(data(ring.rank, 10), out)  # and the next call works
    ring.Free()


def test_several_nonblocking_gathers_at_once(graph):
    rows, sizes = sources(graph), (1000, 1, 2049)
    outs = [np.zeros((len(rows), n), "f4") for n in sizes]
    requests = [graph.Ineighbor_allgather(data(graph.rank, n), out) for n, out in zip(sizes, outs)]
    mpicomp.Request.Waitall(requests[::-1])
    for n, out in zip(sizes, outs):
        for row, r in zip(out, rows):
            if r is not None:
                assert np.linalg.norm(row - data(r, n)) <= 0.6 * np.linalg.norm(data(r, n))


def test_persistent_gathers_read_the_buffer_of_the_moment(graph):
    rows = sources(graph)
    x, out = np.empty(500, "f4"), np.zeros((len(rows), 500), "f4")
    request = graph.Neighbor_allgather_init(x, out)
    for step in range(3):
        x[:] = data(graph.rank, 500) * 4**step
        request.Start()
        request.Wait()
        for row, r in zip(out, rows):
            if r is not None:
                wanted = data(r, 500) * 4**step
                assert np.linalg.norm(row - wanted) <= 0.6 * np.linalg.norm(wanted)
    request.Free()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("memory", ["difference", "extrapolation"])
@pytest.mark.parametrize("codec", [c if c == "natural" else pytest.param(c, marks=pytest.mark.long) for c in CODECS])
def test_replicas_are_the_same_bits_at_sender_and_receivers(base, codec, memory):
    ring, n = mpicomp.ring(base), 130
    x, out = data(ring.rank, n), np.zeros((2, n), "f4")
    request = ring.Neighbor_allgather_init(x, out, codec=codec, memory=memory)
    rng = np.random.default_rng(ring.rank)
    replicas = np.empty((P, n), "f4")
    for step in range(100):
        request.Start()
        request.Wait()
        if step % 10 == 0:
            WORLD.Allgather(request.replica, replicas)
            for row, source in zip(out, sources(ring)):
                assert np.array_equal(row, replicas[source])
        x += 0.01 * rng.normal(size=n)
    ring.Free()


def test_differences_carry_what_was_lost_before(base):
    ring = mpicomp.ring(base)
    x, out = data(ring.rank, 1000), np.zeros((2, 1000), "f4")
    request = ring.Neighbor_allgather_init(x, out, memory="difference")
    for _ in range(20):
        request.Start()
        request.Wait()
    assert np.abs(request.replica - x).max() < 1e-6 * np.abs(x).max()
    ring.Free()


@pytest.mark.long
def test_an_exact_codec_makes_every_estimate_exact(base):
    ring = mpicomp.ring(base)
    x, out = data(ring.rank, 100, "f8"), np.zeros((2, 100), "f8")
    request = ring.Neighbor_allgather_init(x, out, memory="extrapolation", codec="raw")
    for step in range(100):
        x *= np.cos(0.1 * step)
        request.Start()
        request.Wait()
        assert np.allclose(request.replica, x, rtol=0, atol=1e-12)
    ring.Free()


@pytest.mark.parametrize("memory", ["difference", "extrapolation"])
def test_a_memory_can_be_saved_restored_and_reset(base, memory):
    ring = mpicomp.ring(base)
    x, out = data(ring.rank, 200), np.zeros((2, 200), "f4")
    request = ring.Neighbor_allgather_init(x, out, memory=memory)

    def steps(count):
        for _ in range(count):
            request.Start()
            request.Wait()
        return out.copy()

    first = steps(3)
    saved = request.state_dict()
    later = steps(3)
    request.load_state_dict(saved)
    assert np.array_equal(steps(3), later)
    request.reset()
    assert np.array_equal(steps(3), first)
    request = ring.Neighbor_allgather_init(x, out, memory=memory, codec="natural", seed=11)
    request.load_state_dict(saved)
    assert np.array_equal(steps(3), later)
    ring.Free()


def test_halves_are_remembered_in_float32(base):
    ring = mpicomp.ring(base)
    x, out = data(ring.rank, 64).astype("f2"), np.zeros((2, 64), "f2")
    request = ring.Neighbor_allgather_init(x, out, memory="difference")
    for _ in range(20):
        request.Start()
        request.Wait()
    assert request.replica.dtype == np.float32
    assert np.array_equal(out, [data(r, 64).astype("f2") for r in sources(ring)])
    ring.Free()


def test_neighbor_allreduce_averages_by_the_mixing_matrix(graph):
    x = data(graph.rank, 400, "f8")
    wanted = sum(w * data(r, 400, "f8") for r, w in graph.mixing.weights[graph.rank].items())
    assert np.allclose(graph.neighbor_allreduce(x, codec="raw"), wanted)
    rough = graph.neighbor_allreduce(x)
    assert np.linalg.norm(rough - wanted) <= 0.6 * np.linalg.norm(x)
    assert np.array_equal(x, data(graph.rank, 400, "f8"))


def test_neighbor_allreduce_takes_weights(base):
    ring = mpicomp.ring(base)
    x = data(ring.rank, 33, "f8")
    row = np.zeros(P)
    row[[(ring.rank + 1) % P]] = 2.0
    row[ring.rank] += 0.5
    wanted = sum(row[r] * data(r, 33, "f8") for r in range(P))
    assert np.allclose(ring.neighbor_allreduce(x, weights=row, codec="raw"), wanted)
    named = {r: w for r, w in enumerate(row) if w}
    assert np.allclose(mpicomp.neighbor_allreduce(x, ring, weights=named, codec="raw"), wanted)
    if P > 3:
        WORLD.Barrier()  # or a rank that is still in the call before hears of the failure there
        with pytest.raises(ValueError, match="weights name"):
            ring.neighbor_allreduce(x, weights=np.ones(P))


def test_some_ranks_may_give_weights_where_others_ask_for_them():
    others = [r for r in range(P) if r != WORLD.rank]
    comm = mpicomp.Distgraphcomm(WORLD.Create_dist_graph_adjacent(others, others))
    given = dict.fromkeys(range(P), 1 / P)
    x = np.full(4, float(WORLD.rank))
    assert np.allclose(comm.neighbor_allreduce(x, weights=given if WORLD.rank else None), (P - 1) / 2)


def test_duplicates_keep_the_weights():
    lazy = 0.5 * np.eye(P) + 0.5 * mpicomp.topology.ring(P).matrix
    for comm in (mpicomp.ring(WORLD, weights=lazy), mpicomp.graph(WORLD, networkx.complete_graph(P), weights=lazy)):
        again = comm.Dup()
        assert np.array_equal(again.mixing.matrix, comm.mixing.matrix)
        again.Free(), comm.Free()
    torus = mpicomp.torus(WORLD, weights="uniform")
    assert torus.Sub([True, False])._weights == "uniform"


@pytest.mark.ranks(2, 3, 4)
def test_ranks_with_different_graphs_all_get_an_error(base):
    star = [{0, *range(P)}] + [{0}] * (P - 1)
    path = [{q for q in (r - 1, r + 1) if 0 <= q < P} for r in range(P)]
    lazy = 0.5 * np.eye(P) + 0.5 * mpicomp.topology.ring(P).matrix
    if P > 2:
        with pytest.raises(mpicomp.DisagreementError, match="neighbours"):
            mpicomp.graph(base, dict(enumerate(star if WORLD.rank else path)))
    with pytest.raises(mpicomp.DisagreementError, match="fingerprint"):
        mpicomp.ring(base, weights=lazy if WORLD.rank else None)
    with pytest.raises(mpicomp.Error, match="does not fit"):
        mpicomp.torus(base, (P + 1, 1) if WORLD.rank == 0 else None)


def test_a_rank_alone_gets_what_it_sends():
    alone = mpicomp.ring(MPI.COMM_SELF, "natural", algorithm="direct")
    x, out = data(0, 1000), np.zeros((2, 1000), "f4")
    alone.Neighbor_allgather(x, out)
    assert np.array_equal(out, [x, x])
    assert np.allclose(alone.neighbor_allreduce(x), x)


def test_more_segments_than_there_can_be(base):
    ring = mpicomp.ring(base)
    x = np.ones(1_100_000, "f4")
    assert np.allclose(ring.neighbor_allreduce(x, segment=4096, codec="raw"), 1)


def test_settings_that_a_neighbour_collective_does_not_have_are_refused(base):
    ring = mpicomp.ring(base)
    x, out = data(0, 100), np.zeros((2, 100), "f4")
    for settings, words in (
        ({"feedback": True}, "remembers nothing"),
        ({"algorithm": "halving"}, "no algorithm named 'halving'"),
        ({"codec": ("natural", "raw")}, "no way back"),
    ):
        for call in (ring.Neighbor_allgather, ring.Ineighbor_allgather, ring.Neighbor_allgather_init):
            WORLD.Barrier()
            with pytest.raises(mpicomp.Error, match=words):
                call(x, out, **settings)
    assert not out.any()


def test_counts_may_be_left_out_as_in_mpi4py(base):
    ring = mpicomp.ring(base)
    x, wanted = data(ring.rank, 50), np.zeros((2, 50), "f4")
    ring.Neighbor_allgather(x, wanted, codec="fp16")
    for rest in ([None], [50], [None, MPI.FLOAT], [None, None, MPI.FLOAT], [[50, 50]]):
        out = np.zeros((2, 50), "f4")
        ring.Neighbor_allgatherv(x, [out, *rest], codec="fp16")
        assert np.array_equal(out, wanted), rest
    WORLD.Barrier()
    with pytest.raises(ValueError, match="list of one"):
        ring.Neighbor_allgatherv(x, [out], codec="fp16")


def test_existing_communicators_are_refined():
    cart = WORLD.Create_cart([P], [True])
    ring = mpicomp.Cartcomm(cart, "natural", algorithm="direct")
    out = np.zeros((2, 100), "f4")
    ring.Neighbor_allgather(data(ring.rank, 100), out)
    assert np.array_equal(out[0], data(sources(ring)[0], 100)) == (P == 1)
    others = [r for r in range(P) if r != WORLD.rank]
    dist = mpicomp.Distgraphcomm(WORLD.Create_dist_graph_adjacent(others, others), "natural")
    assert dist.mixing.neighbors == mpicomp.topology.complete(P).neighbors
    assert mpicomp.neighbor_allreduce(np.ones(5), cart) == pytest.approx(1)
    created = mpicomp.Comm(WORLD, "fp16").Create_cart([P], [False])
    assert isinstance(created, mpicomp.Cartcomm) and str(created.codec) == "fp16"
    assert isinstance(created.Sub([True]), mpicomp.Cartcomm)


def test_impossible_graphs_are_refused_on_every_rank():
    with pytest.raises(ValueError, match="does not fit"):
        mpicomp.torus(WORLD, (P + 1, 1))
    with pytest.raises(ValueError, match="nodes"):
        mpicomp.graph(WORLD, networkx.path_graph(P + 1))
    if P > 1:
        with pytest.raises(ValueError, match="not connected"):
            mpicomp.graph(WORLD, networkx.empty_graph(P))


@pytest.mark.host
@pytest.mark.ranks(1, 2, 4)  # where test_torch.py has torch imported
def test_torch_tensors_are_gathered(base):
    torch = pytest.importorskip("torch")
    ring = mpicomp.ring(base)
    for dtype in (torch.float32, torch.bfloat16):
        x, out = torch.from_numpy(data(ring.rank, 100)).to(dtype), torch.zeros(2, 100, dtype=dtype)
        ring.Neighbor_allgather(x, out)
        for row, r in zip(out, sources(ring)):
            assert np.linalg.norm(row.float().numpy() - data(r, 100)) < 0.6 * np.linalg.norm(data(r, 100))
        assert ring.neighbor_allreduce(x).dtype == dtype
    ring.Free()
