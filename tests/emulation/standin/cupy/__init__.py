"""A stand-in for the small part of CuPy that mpicomp uses, for tests on machines without a GPU.

It differs from NumPy in what a GPU does: work is put on streams and is done as late as the program allows, when somebody
waits for it or asks whether it is done; memory is poison until then; arrays do not turn into NumPy arrays by themselves;
float32 arithmetic (not that of kernels) flushes subnormals. Around each allocation are guard bands, looked at after each
kernel. MPI gets at an array only if MPICOMP_CUDA_AWARE=1. Kernels are run from their source by shim.py or, with
MPICOMP_TEST_KERNELS=ptx, from the compiler's output by ptx.py.
"""

from __future__ import annotations

import builtins
import operator
import os
import types
import weakref

import numpy as np

from . import kernels
from .streams import Device, Event, ExternalStream, Stream, current, elapsed, runtime

POISON, GUARD = 0x41, 256  # 12 as a float: what is read too early is seen beside numbers near 1
MOST_BLOCKS = int(os.environ.get("MPICOMP_TEST_BLOCKS", 2**31 - 1))  # of a launch: with fewer, kernels go round again
_ALLOCATIONS: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by address
_FLUSHED = (np.add, np.subtract, np.multiply, np.divide)

float16, float32, float64 = np.float16, np.float32, np.float64
int32, int64, uint8, uint16, uint32, uint64 = np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64


class Allocation:
    """Memory of the device, with a guard band on both sides."""

    def __init__(self, nbytes):
        self.device = Device()
        self.whole = np.full(nbytes + 2 * GUARD + 16, POISON, np.uint8)
        start = GUARD + -(self.whole.ctypes.data + GUARD) % 16
        self.bytes = self.whole[start : start + nbytes]
        self._bands = self.whole[:start], self.whole[start + nbytes :]
        _ALLOCATIONS[self.bytes.ctypes.data] = self

    def check(self):
        if builtins.any((band != POISON).any() for band in self._bands):
            raise RuntimeError("a kernel wrote outside of an array")


class Pointer:
    """Where an array's memory is."""

    def __init__(self, host):
        self._host, self.ptr = host, host.__array_interface__["data"][0]

    def copy_from_device_async(self, source, nbytes):
        target, given = (each._host.reshape(-1).view(np.uint8)[:nbytes] for each in (self, source))
        current().submit(lambda: np.copyto(target, given))


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the device. `_host` is its memory, to be touched by work on streams alone."""

    __array_priority__ = 100

    def __init__(self, shape, dtype=float, _host=None, _owner=None, _base=None):
        if _host is None:
            dtype = np.dtype(dtype)
            _owner = Allocation(int(np.prod(shape)) * dtype.itemsize)
            _host = _owner.bytes.view(dtype).reshape(shape)
        self._host, self._owner, self.base = _host, _owner, _base

    def _view(self, host):
        return ndarray(None, None, host, self._owner, self if self.base is None else self.base)

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    size = property(lambda self: self._host.size)
    ndim = property(lambda self: self._host.ndim)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: self._host.flags)
    device = property(lambda self: Device(0) if self._owner is None else self._owner.device)
    T = property(lambda self: self._view(self._host.T))
    data = property(lambda self: Pointer(self._host))

    # Who wants the memory itself

    @property
    def __cuda_array_interface__(self):
        if os.environ.get("MPICOMP_CUDA_AWARE") != "1":
            raise AssertionError("a device pointer was given to an MPI that is not CUDA-aware")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "version": 3,
            "strides": None if self.flags.c_contiguous else self.strides,
        }

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    # Views, at once

    def __len__(self):
        return len(self._host)

    def __getitem__(self, key):
        return self._view(self._host[key] if isinstance(self._host[key], np.ndarray) else self._host[key, ...])

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def view(self, dtype):
        return self._view(self._host.view(dtype))

    def reshape(self, *shape):
        host = self._host.reshape(*shape)
        if host.size and not np.shares_memory(host, self._host):
            return self.copy().reshape(*shape)
        return self._view(host)

    def ravel(self):
        return self.reshape(-1)

    # Work, later

    def __setitem__(self, key, value):
        if isinstance(key, ndarray):
            whole, mask = self._host, key._host
            return current().submit(lambda: np.copyto(whole, value, where=mask))
        target, value = self._host[key], _operand(value)
        if not isinstance(target, np.ndarray):
            target = self._host[key, ...]
        current().submit(lambda: np.copyto(target, value, casting="unsafe"))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if ufunc is np.matmul:
            return matmul(*inputs, out=out and out[0])
        if method != "__call__" or kwargs:
            raise TypeError(f"not in the stand-in: {ufunc.__name__}.{method} {kwargs}")
        return _later(ufunc, inputs, out and out[0])

    def __array_function__(self, function, types, args, kwargs):
        return globals()[function.__name__](*args, **kwargs)

    def fill(self, value):
        self[...] = value

    def copy(self):
        result = ndarray(self.shape, self.dtype)
        result[...] = self
        return result

    def astype(self, dtype, copy=True):
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        result = ndarray(self.shape, dtype)
        result[...] = self
        return result

    def any(self):
        return _reduced(np.any, self, bool)

    def all(self):
        return _reduced(np.all, self, bool)

    def max(self):
        return _reduced(np.max, self, self.dtype)

    def sum(self):
        return _reduced(np.sum, self, self.dtype)

    # To and from the host

    def set(self, array, stream=None):
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ValueError(f"set: {array.dtype} {array.shape} into {self.dtype} {self.shape}")
        target = self._host
        given = array if is_pinned(array) else array.copy()  # pageable memory is read before the call returns
        (stream or current()).submit(lambda: np.copyto(target, given))

    def get(self, stream=None, order="C", out=None, blocking=True):
        out, source, stream = (
            np.full(self.shape, 0, self.dtype) if out is None else out,
            self._host,
            stream or current(),
        )
        stream.submit(lambda: np.copyto(out, source))
        if blocking:
            stream.synchronize()
        return out

    def item(self):
        return self.get().item()

    __bool__ = lambda self: bool(self.get())  # noqa: E731
    __int__ = lambda self: int(self.get())  # noqa: E731
    __float__ = lambda self: float(self.get())  # noqa: E731
    tolist = lambda self: self.get().tolist()  # noqa: E731


def _operand(value):
    """What work reads: the memory of a device array, or a number; NumPy arrays are refused, as CuPy does."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _later(ufunc, inputs, out):
    values = [_operand(value) for value in inputs]
    samples = [np.ones(1, v.dtype) if isinstance(v, np.ndarray) else v for v in values]
    with np.errstate(all="ignore"):
        dtype = ufunc(*samples).dtype
    if out is None:
        out = ndarray(np.broadcast_shapes(*(np.shape(v) for v in values)), dtype)
    target = out._host

    def work():
        with np.errstate(all="ignore"):
            if ufunc in _FLUSHED and dtype == np.float32:
                np.copyto(target, _flushed(ufunc(*map(_flushed, values))), casting="same_kind")
            else:
                np.copyto(target, ufunc(*values), casting="same_kind")

    current().submit(work)
    return out


def _flushed(v):
    if not isinstance(v, np.ndarray) or v.dtype != np.float32:
        return v
    return np.where(np.abs(v) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), v), v)


def _reduced(function, array, dtype):
    result, source = ndarray((), dtype), array._host
    current().submit(lambda: np.copyto(result._host, function(source)))
    return result


def is_pinned(array):
    owner = array if array.base is None else array.base
    return PINNED.get(id(owner)) is owner


PINNED: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()  # by their id


def empty(shape, dtype=float):
    return ndarray(shape, dtype)


def zeros(shape, dtype=float):
    result = ndarray(shape, dtype)
    result.fill(0)
    return result


def ones(shape, dtype=float):
    result = ndarray(shape, dtype)
    result.fill(1)
    return result


def empty_like(a, dtype=None):
    result = ndarray(a.shape, dtype or a.dtype)
    return result.reshape(a.shape[::-1]).T if a.ndim > 1 and not a.flags.c_contiguous else result


def zeros_like(a):
    result = empty_like(a)
    result.fill(0)
    return result


def asarray(a, dtype=None):
    if isinstance(a, ndarray):
        return a
    a = np.asarray(a, dtype)
    result = ndarray(a.shape, a.dtype)
    result.set(a)
    return result


array = asarray


def asnumpy(a):
    return a.get()


def ascontiguousarray(a):
    return a if a.flags.c_contiguous else a.copy()


def concatenate(parts):
    result = ndarray((sum(len(part) for part in parts), *parts[0].shape[1:]), parts[0].dtype)
    at = 0
    for part in parts:
        result[at : at + len(part)] = part
        at += len(part)
    return result


def matmul(a, b, out=None):
    out = ndarray((*a.shape[:-1], b.shape[-1]), a.dtype) if out is None else out
    target, x, y = out._host, a._host, b._host
    current().submit(lambda: np.copyto(target, np.matmul(x, y)))
    return out


def from_dlpack(tensor):
    """The memory of a tensor of torch on the CPU, as if it were the device's."""
    return ndarray(None, None, np.from_dlpack(tensor))


def _function(ufunc):
    return lambda *inputs: _later(ufunc, inputs, None)


isfinite, isnan, absolute, floor, sqrt = map(_function, (np.isfinite, np.isnan, np.absolute, np.floor, np.sqrt))
abs = absolute


def any(a):
    return a.any()


def all(a):
    return a.all()


def shares_memory(a, b):
    return isinstance(a, ndarray) and isinstance(b, ndarray) and np.shares_memory(a._host, b._host)


may_share_memory = shares_memory


class RawModule:
    def __init__(self, *, code, options=(), backend="nvrtc"):
        self._module = kernels.load(code, tuple(options))

    def get_function(self, name):
        return RawKernel(self._module, name)


class RawKernel:
    """Sizes of arguments are checked here, which CuPy does not."""

    def __init__(self, module, name):
        self._kernel = module.kernel(name)

    def __call__(self, grid, block, args, *, stream=None):
        if type(grid) is not tuple or type(block) is not tuple:
            raise TypeError("grid and block must be tuples")
        if builtins.any(a.device.id != Device().id for a in args if isinstance(a, ndarray)):
            raise RuntimeError("a kernel with memory of another device: CUDA would say illegal address")
        values = [_pointer(a) if isinstance(a, ndarray) else a for a in args]
        for value in values:
            if not isinstance(value, np.generic):
                raise TypeError(f"pass NumPy scalars to kernels, not {type(value).__name__}")
        self._kernel.check(values)
        blocks, threads = (max(1, operator.index(size[0])) for size in (grid, block))  # CuPy makes 1 of 0
        blocks = min(blocks, MOST_BLOCKS)

        def work():
            with np.errstate(all="ignore"):
                self._kernel.run(blocks, threads, values, _memory())
            for a in args:
                if isinstance(a, ndarray) and a._owner is not None:
                    a._owner.check()

        (stream or current()).submit(work)


def _memory():
    """All that is allocated. Threads may allocate at the same time."""
    allocations = [reference() for reference in _ALLOCATIONS.valuerefs()]
    return [each.bytes for each in allocations if each is not None]


def _pointer(a):
    if not a.flags.c_contiguous:
        raise ValueError("kernels ignore strides: give a contiguous array")
    return np.uint64(a.data.ptr)


cuda = types.SimpleNamespace(
    Stream=Stream,
    ExternalStream=ExternalStream,
    Event=Event,
    Device=Device,
    runtime=runtime,
    get_current_stream=current,
    get_elapsed_time=elapsed,
    is_available=lambda: True,
)
