"""The suite in tests/mpi with arrays of CuPy (or of its stand-in) in place of NumPy's.

Tests go on using NumPy. `install` puts itself between them and mpicomp: whatever array they pass is copied to the device,
mpicomp gets that copy, and what it holds afterwards is copied back. With MPICOMP_TEST_ARRAYS=mixed only every other
rank does so, and the others stay on the CPU.
"""

from __future__ import annotations

import functools

import cupy
import numpy as np

import mpicomp
from mpicomp import functional, topocomm
from mpicomp.gossip.base import Gossip

NAMES = ("Allreduce", "Reduce_scatter_block", "Reduce_scatter", "Allgather", "Allgatherv", "Bcast", "Reduce")
NEIGHBORS = ("Neighbor_allgather", "Neighbor_allgatherv")


class Mirrors:
    """The arrays among some arguments, and their copies on the device."""

    def __init__(self):
        self._roots = {}
        self._pairs = []

    def arguments(self, args):
        """CuPy has no read-only arrays: where a result would go into one, it stays what it is."""
        last = max((k for k, x in enumerate(args) if type(x) is np.ndarray), default=None)
        kept = last is not None and not args[last].flags.writeable
        return [x if kept and k == last else self.of(x) for k, x in enumerate(args)]

    def of(self, x):
        if isinstance(x, dict):
            return {key: self.of(value) for key, value in x.items()}
        if isinstance(x, (list, tuple)):
            return type(x)(self.of(value) for value in x)
        if type(x) is not np.ndarray or not carried(x):
            return x
        self._pairs.append((x, self._view(x)))
        return self._pairs[-1][1]

    def _view(self, x):
        """Arrays that share memory share it on the device too."""
        root = x
        while type(root.base) is np.ndarray:
            root = root.base
        if id(root) not in self._roots:
            self._roots[id(root)] = root, cupy.asarray(raw(root).copy())
        at = address(x) - address(root)
        there = self._roots[id(root)][1]
        if x.flags.c_contiguous:
            return there[at : at + x.nbytes].view(x.dtype).reshape(x.shape)
        if x.flags.f_contiguous:
            return there[at : at + x.nbytes].view(x.dtype).reshape(x.shape[::-1]).T
        step = x.strides[0] // x.itemsize
        return there[at : at + x.size * x.strides[0]].view(x.dtype)[::step]

    def upload(self):
        for root, there in self._roots.values():
            there.set(raw(root).copy())

    def download(self):
        for x, there in self._pairs:
            if x.flags.writeable:
                x[...] = there.get()


def carried(x):
    """CuPy has no bfloat16, no objects, no swapped bytes; a few shapes are not worth the trouble."""
    whole = x.flags.c_contiguous or x.flags.f_contiguous or (x.ndim == 1 and x.strides[0] > 0)
    return x.dtype.kind in "fciub" and x.dtype.isnative and whole


def raw(root):
    return root.ravel(order="K").view(np.uint8)


def address(x):
    return x.__array_interface__["data"][0]


def back(result):
    return result.get() if isinstance(result, cupy.ndarray) else result


class MirroredRequest:
    """A request whose arrays are copied when it starts and when it is through."""

    def __init__(self, request, mirrors, persistent):
        self._request, self._mirrors = request, mirrors
        self._under_way = not persistent

    def __getattr__(self, name):
        return back(getattr(self._request, name))

    def Start(self):
        if not self._under_way:
            self._mirrors.upload()
        self._request.Start()
        self._under_way = True

    def Wait(self, status=None):
        done = self._request.Wait()
        return self._arrived() and done

    def Test(self, status=None):
        return self._request.Test() and self._arrived()

    wait, test = Wait, Test

    def Free(self):
        self.Wait()
        self._request.Free()

    def _arrived(self):
        if self._under_way:
            self._under_way = False
            self._mirrors.download()
        return True


def blocking(function):
    @functools.wraps(function)
    def call(*args, **settings):
        mirrors = Mirrors()
        result = function(*mirrors.arguments(args), **settings)
        mirrors.download()
        return back(result)

    return call


def requesting(function, persistent):
    @functools.wraps(function)
    def call(*args, **settings):
        mirrors = Mirrors()
        return MirroredRequest(function(*mirrors.arguments(args), **settings), mirrors, persistent)

    return call


def making(function):
    """Only on real ranks: virtual ones share a process, and mix NumPy arrays."""

    @functools.wraps(function)
    def make(self, comm, params, *args, **settings):
        real = hasattr(comm, "py2f")
        function(self, comm, Mirrors().of(params) if real else params, *args, **settings)
        self._mirrored = real

    return make


def mixing(function):
    mirrored = blocking(function)
    return lambda self, *args: (mirrored if self._mirrored else function)(self, *args)


def install():
    for cls, names in ((mpicomp.Comm, NAMES), (topocomm.Neighborhood, NEIGHBORS)):
        for name in names:
            for each, wrap in (
                (name, blocking),
                ("I" + name.lower(), functools.partial(requesting, persistent=False)),
                (name + "_init", functools.partial(requesting, persistent=True)),
            ):
                setattr(cls, each, wrap(getattr(cls, each)))
    mpicomp.Comm.plan = blocking(mpicomp.Comm.plan)
    topocomm.Neighborhood.neighbor_allreduce = blocking(topocomm.Neighborhood.neighbor_allreduce)
    mpicomp.allreduce = functional.allreduce = blocking(functional.allreduce)
    Gossip.__init__ = making(Gossip.__init__)
    Gossip.mix, Gossip.step = mixing(Gossip.mix), mixing(Gossip.step)
