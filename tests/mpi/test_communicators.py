"""Communicators made from compressed ones, and the private one that carries the messages."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from common import normal
from mpi4py import MPI

import mpicomp
from mpicomp.ports.mpi import existing_port, tag_bits

WORLD = MPI.COMM_WORLD


def works(comm):
    x = np.full(1000, comm.rank + 1.0, np.float32)
    comm.Allreduce(MPI.IN_PLACE, x, codec="raw")
    return (x == comm.size * (comm.size + 1) / 2).all()


def test_new_communicators_keep_the_settings():
    comm = mpicomp.Comm(WORLD, "natural:bits=8", algorithm="direct", seed=77, segment=4096)
    made = [
        comm.Dup(),
        comm.Clone(),
        comm.Dup(MPI.INFO_NULL),
        comm.Split(comm.rank % 2, -comm.rank),
        comm.Split_type(MPI.COMM_TYPE_SHARED),
        comm.Create(comm.Get_group()),
        comm.Create_group(comm.Get_group()),
        comm.Dup().Dup(),
    ]
    for each in made:
        assert type(each) is mpicomp.Comm and each._settings == comm._settings
        assert str(each.codec) == "natural:bits=8"
        assert works(each)
        each.Free()


def test_communicators_made_without_waiting_keep_the_settings():
    comm = mpicomp.Comm(WORLD, "raw", algorithm="direct", seed=3)
    makers = [comm.Idup]
    if MPI.Get_version() >= (4, 0):
        makers.append(lambda: comm.Idup_with_info(MPI.INFO_NULL))
    for make in makers:
        made, request = make()
        request.Wait()
        assert isinstance(made, mpicomp.Comm) and made._settings == comm._settings and made != comm
        assert works(made)
        made.Free()


@pytest.mark.parametrize("plain", [MPI.COMM_WORLD, MPI.COMM_SELF])
def test_what_mpi4py_pickles_keeps_the_settings(plain):
    comm = mpicomp.Comm(plain, ("raw", "bf16"), algorithm="ring", seed=3)
    for again in (pickle.loads(pickle.dumps(comm)), copy.copy(comm)):
        assert type(again) is mpicomp.Comm and again == comm and again._settings == comm._settings


def test_ranks_left_out_of_a_split_get_the_null_communicator(comm):
    part = comm.Split(0 if comm.rank == 0 else MPI.UNDEFINED)
    assert (part == MPI.COMM_NULL) == (comm.rank != 0)
    if comm.rank == 0:
        assert works(part)
        part.Free()
    assert works(comm)


def test_a_compressed_communicator_of_a_compressed_one_takes_over_what_is_not_given(comm):
    other = mpicomp.Comm(comm, "bf16")
    assert str(other.codec) == "bf16" and other._settings.algorithm == "direct"
    assert str(mpicomp.Comm(comm).codec) == "natural"


def test_it_is_the_same_communicator_for_mpi():
    comm = mpicomp.Comm(WORLD, "natural")
    assert comm == WORLD and comm.rank == WORLD.rank and comm.size == WORLD.size
    assert MPI.Comm.Compare(comm, WORLD) == MPI.IDENT


def test_messages_of_the_user_with_any_tag_are_not_disturbed(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    inbox = [np.zeros(3, np.float32) for _ in range(4)]
    awaited = [comm.Irecv(box, MPI.ANY_SOURCE, MPI.ANY_TAG) for box in inbox]
    x = normal(20_000, seed=comm.rank)
    comm.Allreduce(MPI.IN_PLACE, x)
    pending = comm.Iallreduce(MPI.IN_PLACE, x)
    for tag in (0, 1, 1 << 10, 32767):
        comm.Send(np.full(3, tag, np.float32), right, tag)
    MPI.Request.Waitall(awaited)
    pending.Wait()
    assert [box[0] for box in inbox] == [0, 1, 1 << 10, 32767]
    assert not comm.Iprobe(left, MPI.ANY_TAG)


def test_the_private_communicator_is_made_late_and_freed_with_the_users():
    comm = mpicomp.Comm(WORLD.Dup(), "natural", algorithm="direct")
    assert existing_port(comm) is None
    x = normal(100)
    comm.plan(x)
    assert existing_port(comm) is None
    comm.Allreduce(MPI.IN_PLACE, x)
    port = existing_port(comm)
    assert port is not None and port.comm != MPI.COMM_NULL and port.comm != comm
    comm.Free()
    assert port.comm == MPI.COMM_NULL and comm == MPI.COMM_NULL


@pytest.mark.parametrize("largest", [32767, (1 << 20) - 1, (1 << 23) - 1, (1 << 28) - 1, (1 << 31) - 1])
def test_there_are_tags_enough_for_calls_and_lanes(largest):
    call, salt = tag_bits(largest)
    assert call >= 3 and salt >= 2
    assert (1 << call + salt + 10) - 1 <= largest


def test_thousands_of_calls_do_not_run_out_of_tags(comm):
    assert works(comm)
    for calls in (1 << 12, 1 << 21, (1 << 31) - 2):
        existing_port(comm).calls = calls
        assert all(works(comm) for _ in range(4))


@pytest.mark.long
@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("many", [1000 if WORLD.size <= 2 else 50])
def test_a_thousand_communicators_come_and_go(comm, many):
    x = np.ones(10, np.float32)
    for _ in range(many):
        copied = comm.Dup()
        copied.Allreduce(MPI.IN_PLACE, x, codec="raw", algorithm="direct")
        copied.Free()
        x[:] = 1
    assert works(comm)
