"""mpi4py's own behaviour: a communicator with codec "raw" does what a plain one does, error for error, bit for bit.

Each case is a function of a communicator. It runs on a plain duplicate and on ours, and must give the same arrays, or an
exception of the same sort. With "natural" what is not compressed gives the same arrays too, and what mpi4py refuses is
refused, before any message if possible, so not always with the same exception. Under `mpicomp run` ours is the world itself.
"""

from __future__ import annotations

import array

import numpy as np
import pytest
from mpi4py import MPI

import mpicomp

WORLD = MPI.COMM_WORLD
IN_PLACE = MPI.IN_PLACE
P, R = WORLD.size, WORLD.rank
pytestmark = pytest.mark.skipif(P > 3, reason="more ranks would find no more")


def ramp(n, dtype="f4", rank=R):
    return (np.arange(n) + rank + 1).astype(dtype)


def outcome(case, comm):
    """What a case gives, or the exception that it raises."""
    try:
        return case(comm)
    except Exception as error:
        return error


def same(ours, theirs):
    if isinstance(theirs, Exception):
        if isinstance(theirs, MPI.Exception):
            return isinstance(ours, MPI.Exception) and ours.Get_error_class() == theirs.Get_error_class()
        return isinstance(ours, type(theirs))
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs))
    return type(ours) is type(theirs) and np.array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.fixture(params=["world"] if isinstance(WORLD, mpicomp.Comm) else ["raw", "natural"], scope="module")
def pair(request):
    plain = MPI.Intracomm(WORLD).Dup()
    ours = WORLD.Dup() if request.param == "world" else mpicomp.Comm(WORLD.Dup(), request.param)
    yield plain, ours
    ours.Free()
    plain.Free()


def conforms(pair, case):
    plain, ours = pair
    theirs = outcome(case, plain)
    mine = outcome(case, ours)
    refused = ours.codec != mpicomp.Raw() and isinstance(mine, Exception) and isinstance(theirs, Exception)
    assert refused or same(mine, theirs), f"mpi4py: {theirs!r}; mpicomp: {mine!r}"
    ones = np.ones(3, "i4")
    ours.Allreduce(IN_PLACE, ones)  # and it goes on
    assert (ones == P).all()


# Buffers of Allreduce


def allreduce(send, recv, **settings):
    """A case: the sum of what send() and recv() make."""

    def case(comm):
        out = recv()
        comm.Allreduce(send() if callable(send) else send, out, **settings)
        return np.frombuffer(out[0] if isinstance(out, (list, tuple)) else out, np.uint8)

    return case


def read_only(n):
    x = ramp(n)
    x.flags.writeable = False
    return x


ALLREDUCE = {
    "array": allreduce(lambda: ramp(7), lambda: np.zeros(7, "f4")),
    "in place": allreduce(IN_PLACE, lambda: ramp(7)),
    "two dimensions": allreduce(lambda: ramp(6).reshape(2, 3), lambda: np.zeros((2, 3), "f4")),
    "no dimension": allreduce(lambda: np.array(2.5), lambda: np.zeros(())),
    "empty": allreduce(lambda: ramp(0), lambda: np.zeros(0, "f4")),
    "empty in place": allreduce(IN_PLACE, lambda: np.zeros((0, 4))),
    "with a type": allreduce(lambda: [ramp(7), MPI.FLOAT], lambda: [np.zeros(7, "f4"), MPI.FLOAT]),
    "with a count": allreduce(lambda: [ramp(7), 4, MPI.FLOAT], lambda: [np.zeros(7, "f4"), 4, MPI.FLOAT]),
    "a tuple with a type code": allreduce(lambda: (ramp(7, "f8"), "d"), lambda: (np.zeros(7), "d")),
    "array.array": allreduce(lambda: array.array("d", [1, 2, R]), lambda: array.array("d", [0] * 3)),
    "bytearray as doubles": allreduce(lambda: [ramp(3, "f8").tobytes(), MPI.DOUBLE], lambda: [bytearray(24), MPI.DOUBLE]),
    "memoryview": allreduce(lambda: memoryview(ramp(5)), lambda: memoryview(np.zeros(5, "f4"))),
    "complex": allreduce(lambda: ramp(5, "c16") * 1j, lambda: np.zeros(5, "c16")),
    "integers": allreduce(lambda: ramp(5, "i8"), lambda: np.zeros(5, "i8")),
    "unsigned bytes": allreduce(IN_PLACE, lambda: ramp(5, "u1")),
    "truth values": allreduce(IN_PLACE, lambda: np.array([R == 0, True, False]), op=MPI.LAND),
    "maximum": allreduce(lambda: ramp(9), lambda: np.zeros(9, "f4"), op=MPI.MAX),
    "product": allreduce(IN_PLACE, lambda: ramp(9, "f8"), op=MPI.PROD),
    "bits of floats": allreduce(IN_PLACE, lambda: ramp(9), op=MPI.BXOR),
    "other lengths": allreduce(lambda: ramp(7), lambda: np.zeros(6, "f4")),
    "other types": allreduce(lambda: ramp(7), lambda: np.zeros(7)),
    "gaps in the input": allreduce(lambda: ramp(14)[::2], lambda: np.zeros(7, "f4")),
    "gaps in the output": allreduce(IN_PLACE, lambda: ramp(14)[::2]),
    "read-only output": allreduce(lambda: ramp(7), lambda: read_only(7)),
    "read-only input": allreduce(lambda: read_only(7), lambda: np.zeros(7, "f4")),
    "a list of numbers": allreduce(lambda: [1.0, 2.0], lambda: np.zeros(2)),
    "no buffer": allreduce(lambda: 5, lambda: np.zeros(2)),
    "negative count": allreduce(IN_PLACE, lambda: [ramp(7), -1, MPI.FLOAT]),
    "objects": allreduce(IN_PLACE, lambda: np.array([object()])),
    "strings": allreduce(IN_PLACE, lambda: np.array(["ab"])),
    "swapped bytes": allreduce(IN_PLACE, lambda: ramp(3, ">f4")),
    "no operation": allreduce(IN_PLACE, lambda: ramp(3), op=MPI.OP_NULL),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLREDUCE)
def test_allreduce_takes_and_refuses_what_mpi4py_does(pair, name):
    conforms(pair, ALLREDUCE[name])


# The other collectives


def counts(unit=1):
    return [unit * (r + 1) for r in range(P)]


def own_op(comm):
    op = MPI.Op.Create(lambda a, b, t: np.copyto(np.frombuffer(b, "f4"), np.minimum(np.frombuffer(a, "f4"), np.frombuffer(b, "f4"))), commute=True)  # fmt: skip
    out = np.zeros(5, "f4")
    comm.Allreduce(ramp(5), out, op=op)
    op.Free()
    return out


def column(comm):
    """The root sends a column, the others receive it as a row."""
    x, kind = ramp(12).reshape(3, 4), MPI.FLOAT.Create_vector(3, 1, 4).Commit()
    row = np.zeros(3, "f4")
    comm.Bcast([x, 1, kind] if comm.rank == 0 else row)
    kind.Free()
    return row


def gather(comm, dtype="f4", spec=lambda x: x):
    out = np.zeros((P, 3), dtype)
    comm.Allgather(spec(ramp(3, dtype)), out)
    return out


def gather_in_place(comm):
    out = np.zeros((P, 3), "f4")
    out[R] = ramp(3)
    comm.Allgather(IN_PLACE, out)
    return out


def gatherv(comm, tail):
    out = np.zeros(sum(counts()) + P, "f4")
    comm.Allgatherv(ramp(R + 1), [out, *tail()])
    return out


def reduce(comm, root, op=MPI.SUM, dtype="f4", in_place=False):
    out = ramp(5, dtype) if in_place else np.zeros(5, dtype)
    at_root = comm.rank == root
    comm.Reduce(IN_PLACE if in_place and at_root else ramp(5, dtype), out if at_root else None, op=op, root=root)
    return out


def scatter(comm, given=True, dtype="f4"):
    out = np.zeros(R + 1, dtype)
    comm.Reduce_scatter(ramp(sum(counts()), dtype), out, counts() if given else None)
    return out


def scatter_block(comm, dtype="f4", op=MPI.SUM):
    out = np.zeros(3, dtype)
    comm.Reduce_scatter_block(ramp(3 * P, dtype), out, op=op)
    return out


def bcast(comm, make, root=0, **settings):
    x = make()
    comm.Bcast(x, root=root, **settings)
    return np.frombuffer(x[0] if isinstance(x, (list, tuple)) else x, np.uint8)


OTHERS = {
    "an operation of one's own": own_op,
    "Bcast of a column": column,
    "Bcast": lambda c: bcast(c, lambda: ramp(5)),
    "Bcast from the last": lambda c: bcast(c, lambda: ramp(5, "f8"), P - 1),
    "Bcast of integers": lambda c: bcast(c, lambda: ramp(5, "i2")),
    "Bcast of bytes": lambda c: bcast(c, lambda: [bytearray(b"abc"), MPI.BYTE]),
    "Bcast of nothing": lambda c: bcast(c, lambda: ramp(0)),
    "Bcast from nowhere": lambda c: bcast(c, lambda: ramp(5), P),
    "Bcast of gaps": lambda c: bcast(c, lambda: ramp(10)[::2]),
    "Allgather": gather,
    "Allgather of integers": lambda c: gather(c, "i4"),
    "Allgather with a type": lambda c: gather(c, "f8", lambda x: [x, MPI.DOUBLE]),
    "Allgather in place": gather_in_place,
    "Allgatherv": lambda c: gatherv(c, lambda: [counts()]),
    "Allgatherv with displacements": lambda c: gatherv(c, lambda: [counts(), [r + sum(counts()[:r]) for r in range(P)], MPI.FLOAT]),
    "Allgatherv with a tuple and a type": lambda c: gatherv(c, lambda: [(counts(), None), MPI.FLOAT]),
    "Reduce": lambda c: reduce(c, 0),
    "Reduce to the last": lambda c: reduce(c, P - 1, dtype="f8"),
    "Reduce in place": lambda c: reduce(c, 0, in_place=True),
    "Reduce of integers": lambda c: reduce(c, 0, MPI.MAX, "i4"),
    "Reduce to nowhere": lambda c: reduce(c, P + 3),
    "Reduce_scatter": scatter,
    "Reduce_scatter without counts": lambda c: scatter(c, False),
    "Reduce_scatter of integers": lambda c: scatter(c, True, "i4"),
    "Reduce_scatter_block": scatter_block,
    "Reduce_scatter_block of integers": lambda c: scatter_block(c, "i8", MPI.MIN),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_collectives_take_and_refuse_what_mpi4py_does(pair, name):
    conforms(pair, OTHERS[name])


# Requests, error handlers, communicators


def request_of(comm, name):
    x, out = ramp(4), np.zeros(4 * P, "f4")
    return {
        "Iallreduce": lambda: (comm.Iallreduce(x, out[:4]), out),
        "Iallgather": lambda: (comm.Iallgather(x, out), out),
        "Ibcast": lambda: (comm.Ibcast(x), x),
        "Ireduce": lambda: (comm.Ireduce(x, out[:4], root=0), out),
        "Ireduce_scatter_block": lambda: (comm.Ireduce_scatter_block(np.tile(x, P), out[:4]), out),
        "Allreduce_init": lambda: (comm.Allreduce_init(x, out[:4]), out),
        "Bcast_init": lambda: (comm.Bcast_init(x), x),
        "Allgather_init": lambda: (comm.Allgather_init(x, out), out),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["Iallreduce", "Iallgather", "Ibcast", "Ireduce", "Ireduce_scatter_block", "Allreduce_init", "Bcast_init", "Allgather_init"],
)  # fmt: skip
@pytest.mark.host
def test_requests_that_are_not_compressed_are_mpis_own(pair, name):
    """So that MPI.Request.Waitall takes them, together with others."""
    if pair[1].codec != mpicomp.Raw() and P == 1:
        pytest.skip("a copy, which needs no MPI")

    def case(comm):
        request, result = request_of(comm, name)
        assert isinstance(request, MPI.Prequest if name.endswith("init") else MPI.Request)
        if name.endswith("init"):
            request.Start()
        MPI.Request.Waitall([request, MPI.REQUEST_NULL])
        if name.endswith("init"):
            request.Free()
        return result

    conforms(pair, case)


def test_communicators_are_what_mpi4py_makes_and_keep_attributes_and_names(pair):
    def case(comm):
        comm.Set_name("a name")
        group = comm.Get_group()
        made = [comm.Dup(), comm.Clone(), comm.Split(R % 2, -R), comm.Split_type(MPI.COMM_TYPE_SHARED)]
        made += [comm.Create(group), comm.Create_group(group), comm.Create_cart([P], [True])]
        facts = [comm.Get_name(), comm.rank, comm.size, comm.Is_inter(), comm.Get_topology()]
        for each in made:
            assert isinstance(each, MPI.Intracomm)
            facts += [each.rank, each.size, each.Get_topology() == MPI.CART]
            each.Free()
            assert each == MPI.COMM_NULL and not each
        left_out = comm.Split(MPI.UNDEFINED)
        facts += [left_out == MPI.COMM_NULL, comm.allreduce(R), comm.bcast({"pickled": R}, root=0)["pickled"]]
        group.Free()
        return facts

    conforms(pair, case)


def test_error_handlers_stay_as_they_are(pair):
    def case(comm):
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        before = comm.Get_errhandler() == MPI.ERRORS_RETURN
        error = outcome(lambda c: c.Bcast(ramp(3), root=P + 1), comm)
        return [before, comm.Get_errhandler() == MPI.ERRORS_RETURN, isinstance(error, Exception)]

    conforms(pair, case)


def test_it_is_the_same_communicator_for_mpi():
    ours = mpicomp.Comm(WORLD, "raw")
    assert ours == WORLD and MPI.Comm.Compare(ours, WORLD) == MPI.IDENT and ours.Get_group().size == P
    assert MPI.Comm.f2py(ours.py2f()) == WORLD


@pytest.mark.parametrize("codec", ["raw", "natural"])
def test_comm_self_is_alone(codec):
    comm = mpicomp.Comm(MPI.COMM_SELF, codec, algorithm="direct" if codec == "natural" else None)
    x, out = ramp(100), np.zeros(100, "f4")
    comm.Allreduce(x, out)
    comm.Bcast(out)
    comm.Allreduce(IN_PLACE, out)
    gathered = np.zeros(100, "f4")
    comm.Allgather(out, gathered)
    assert (gathered == x).all()


@pytest.mark.skipif(P == 1, reason="needs two groups")
def test_intercommunicators_are_left_alone(pair):
    def case(comm):
        half = comm.Split(R % 2)
        inter = half.Create_intercomm(0, comm, 1 - R % 2)
        assert type(inter) is MPI.Intercomm
        out = np.zeros(5, "f4")
        inter.Allreduce(ramp(5), out)
        inter.Free()
        half.Free()
        return out

    conforms(pair, case)
    inter = WORLD.Split(R % 2).Create_intercomm(0, WORLD, 1 - R % 2)
    with pytest.raises(TypeError, match="intercommunicator"):
        mpicomp.Comm(inter, "raw")
    inter.Free()


@pytest.mark.host
@pytest.mark.parametrize("name", ["Neighbor_allgather", "Ineighbor_allgather", "Neighbor_allgather_init"])
def test_neighbour_collectives_that_are_not_compressed_are_mpis_own(pair, name):
    def case(comm):
        cart = comm.Create_cart([P], [False])
        out = np.full((2, 3), -1, "f4")
        request = getattr(cart, name)(ramp(3), out)
        if request is not None:
            assert isinstance(request, MPI.Request)
            if name.endswith("init"):
                request.Start()
            MPI.Request.Waitall([request])
            if name.endswith("init"):
                request.Free()
        cart.Free()
        return out

    conforms(pair, case)
