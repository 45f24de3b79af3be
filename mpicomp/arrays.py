"""NumPy, CuPy and torch arrays as flat views, without a copy.

A framework is never imported to find out what an array is: an array of it proves that it is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, Mapping, NamedTuple, Optional

import numpy as np

from .errors import BufferError, CodecError


class Kind(NamedTuple):
    """A floating-point format: how it is stored, and what sums of it are accumulated in."""

    storage: np.dtype
    accumulator: np.dtype
    label: str


KINDS = {
    "f32": Kind(np.dtype("f4"), np.dtype("f4"), "float32"),
    "f64": Kind(np.dtype("f8"), np.dtype("f8"), "float64"),
    "f16": Kind(np.dtype("f2"), np.dtype("f4"), "float16"),
    "bf16": Kind(np.dtype("u2"), np.dtype("f4"), "bfloat16"),
}
_KIND_OF_LABEL = {kind.label: name for name, kind in KINDS.items()}
_KIND_OF_PAIR = {"complex64": "f32", "complex128": "f64"}
_KIND_OF_CHAR = {"f": "f32", "d": "f64", "e": "f16", "F": "f32", "D": "f64"}


class Flat:
    """A one-dimensional contiguous view of somebody's array: `data` in the storage type of `kind`, in the order of
    memory. `shape` is the array's, in that order; `unit` is how many values one of its numbers is, 2 if it is complex."""

    __slots__ = ("data", "kind", "shape", "unit")

    def __init__(self, data: Any, kind: str, shape: Optional[tuple[int, ...]] = None, unit: int = 1):
        self.data = data
        self.kind = kind
        self.shape = (data.size,) if shape is None else shape
        self.unit = unit

    @property
    def n(self) -> int:
        return self.data.size

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return (self.shape,)

    def __str__(self) -> str:
        return f"{self.n} {KINDS[self.kind].label}"

    def __getitem__(self, part: slice) -> Flat:
        return Flat(self.data[part], self.kind, None, self.unit)


def label(x: Flat) -> str:
    """What numbers a flat array holds."""
    name = KINDS[x.kind].label
    return name if x.unit == 1 else f"complex{2 * int(name[5:])}"


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_cupy(x: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(x, cupy.ndarray)


def on_gpu(x: Any) -> bool:
    """Whether x lives on a GPU (a CuPy array or a torch CUDA tensor)."""
    return is_cupy(x) or (is_torch(x) and x.device.type != "cpu")


def kind_of(dtype: Any) -> Optional[str]:
    """f32, f64, f16 or bf16 for a dtype of any framework or its name; None if it is not a real floating-point type."""
    if isinstance(dtype, str) and dtype in KINDS:
        return dtype
    return _KIND_OF_LABEL.get(_name(dtype))


def _name(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    if name in _KIND_OF_LABEL or name in _KIND_OF_PAIR:
        return name
    try:
        return np.dtype(dtype).name
    except TypeError:
        return ""


def kind_from(dtype: Any, argument: str = "dtype") -> str:
    """As kind_of, but anything else is an error."""
    kind = kind_of(dtype)
    if kind is None:
        raise CodecError(f"{argument}={dtype!r} is not a floating-point type ({', '.join(_KIND_OF_LABEL)})")
    return kind


def values_of(dtype: Any) -> tuple[str, int]:
    """(kind, how many values of it one number is): as kind_from, but complex numbers are pairs."""
    kind = _KIND_OF_PAIR.get(_name(dtype))
    return (kind, 2) if kind else (kind_from(dtype), 1)


def flatten(x: Any, name: str = "x", writable: bool = False) -> Optional[Flat]:
    """A Flat on x's memory, or None if x holds no floating-point data that a codec can carry.

    Complex numbers count as pairs. Raises BufferError, naming the argument, for memory that cannot be viewed flat.
    """
    if not isinstance(x, np.ndarray):
        if is_torch(x):
            return _flatten_torch(x, name, writable)
        if is_cupy(x):
            return _flatten_ndarray(x, name)
        try:
            x = np.asarray(memoryview(x))
        except (TypeError, ValueError):
            return None
    if writable and x.size and not x.flags.writeable:
        raise BufferError(f"{name} is read-only")
    return _flatten_ndarray(x, name)


def _flatten_ndarray(x: Any, name: str) -> Optional[Flat]:
    kind = _KIND_OF_CHAR.get(x.dtype.char) or ("bf16" if x.dtype.name == "bfloat16" else None)
    if kind is None or not x.dtype.isnative:
        return None
    flags = x.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        raise BufferError(f"{name} is not contiguous (shape {x.shape}, strides {x.strides}); pass a contiguous array")
    flat = x.reshape(-1) if flags.c_contiguous else x.T.reshape(-1)
    storage = KINDS[kind].storage
    shape = x.shape if flags.c_contiguous else x.shape[::-1]
    return _flat(flat if flat.dtype == storage else flat.view(storage), kind, shape, x.dtype.kind == "c")


def _flatten_torch(x: Any, name: str, writable: bool) -> Optional[Flat]:
    import torch

    if x.device.type not in ("cpu", "cuda"):
        raise BufferError(
            f"{name} is on torch's device {x.device.type!r}; only 'cpu' and 'cuda' have memory to send from"
        )
    kind = kind_of(x.dtype) or _KIND_OF_PAIR.get(_name(x.dtype))
    if kind is None or x.layout is not torch.strided:
        return None
    if not x.is_contiguous():
        raise BufferError(f"{name} is not contiguous (shape {tuple(x.shape)}, strides {x.stride()}); use .contiguous()")
    if writable and (x.is_conj() or x.is_neg()):
        raise BufferError(
            f"{name} is a conjugate that torch has not computed yet, and cannot be written; pass {_PLAIN}"
        )
    flat, pairs = x.detach().reshape(-1).resolve_conj().resolve_neg(), x.is_complex()
    if pairs:
        flat = torch.view_as_real(flat).reshape(-1)
    if kind == "bf16":
        flat = flat.view(torch.int16)
    return _flat(_from_torch(flat).view(KINDS[kind].storage), kind, tuple(x.shape), pairs)


_PLAIN = "the tensor itself, or .resolve_conj().resolve_neg()"


def _flat(data: Any, kind: str, shape: tuple[int, ...], pairs: bool) -> Flat:
    return Flat(data, kind, (*shape, 2), 2) if pairs else Flat(data, kind, shape)


def _from_torch(flat: Any) -> Any:
    if flat.device.type == "cpu":
        return flat.numpy()
    return cupy_module().from_dlpack(flat)


def cupy_module() -> Any:
    """CuPy, or an error that says what to install."""
    try:
        import cupy
    except ImportError as error:
        raise CodecError("arrays on the GPU need CuPy: pip install 'mpicomp[cuda13]' (or cuda12)") from error
    return cupy


def empty_like(x: Any) -> Any:
    """A new array of the same kind, shape and type."""
    if is_torch(x):
        return sys.modules["torch"].empty_like(x.detach())
    if is_cupy(x):
        with x.device:
            return sys.modules["cupy"].empty_like(x)
    return np.empty_like(x)


def detached(x: Any) -> Any:
    """x without autograd's objections to being read."""
    return x.detach() if is_torch(x) else x


def empty(n: Any, dtype: Any, like: Any = None) -> Any:
    """n values (or an array of that shape) of a NumPy dtype, in the memory (host or device) where the flat array `like` is."""
    if like is not None and is_cupy(like):
        with like.device:
            return sys.modules["cupy"].empty(n, dtype)
    return np.empty(n, dtype)


def zeros(n: int, dtype: Any, like: Any = None) -> Any:
    """n zeros, where the flat array `like` is. On the host they take no memory before they are written."""
    if like is not None and is_cupy(like):
        with like.device:
            return sys.modules["cupy"].zeros(n, dtype)
    return np.zeros(n, dtype)


def settle(like: Any) -> None:
    """Wait for the device on which `like` is, if it is on one. For what is kept from call to call: each may have a stream of
    its own, and no user can put work in order with memory that he does not see."""
    if like is not None and is_cupy(like):
        like.device.synchronize()


def place(x: Any) -> int:
    """Which device an array is on; -1 is the host."""
    return x.device.id if x is not None and is_cupy(x) else -1


def beside(x: Any, like: Any) -> Any:
    """x in the memory (host or device) where `like` is."""
    if is_cupy(like) == is_cupy(x):
        return x
    if not is_cupy(like):
        return x.get()
    with like.device:
        return sys.modules["cupy"].asarray(x)


_view: Callable[[Any], Any] = (ctypes.c_char * 0).from_buffer


def host_address(x: np.ndarray) -> int:
    """Where a contiguous array of NumPy begins."""
    try:
        return ctypes.addressof(_view(x))
    except (TypeError, ValueError):  # read-only, or of a type that buffers do not know; three times slower
        return x.ctypes.data


def address(x: Any) -> int:
    """Where a flat array begins."""
    return x.data.ptr if is_cupy(x) else host_address(x)


def overlap(x: Flat, y: Flat) -> bool:
    """Whether two flat arrays share memory."""
    if not x.n or not y.n:
        return False
    a, b = address(x.data), address(y.data)
    return a < b + y.nbytes and b < a + x.nbytes


def check_apart(flats: Mapping[str, Flat], verb: str) -> None:
    """Raise if two of the arrays share memory."""
    places = sorted((address(flat.data), flat.nbytes, name) for name, flat in flats.items())
    for (begin, nbytes, name), (next_begin, _, other) in zip(places, places[1:]):
        if next_begin < begin + nbytes:
            raise BufferError(
                f"arrays {name!r} and {other!r} share memory, which would be {verb} twice: pass one of them"
            )


def as_wire(wire: Any) -> Any:
    """Bytes of any sort as a flat uint8 array."""
    if is_cupy(wire):
        flat = wire.reshape(-1).view("u1")
        return flat if flat.data.ptr % 8 == 0 else flat.copy()  # kernels load several bytes at a time
    try:
        return np.frombuffer(
            memoryview(wire).cast("B") if not isinstance(wire, np.ndarray) else wire.reshape(-1).view("u1"), "u1"
        )
    except (TypeError, ValueError) as error:
        raise BufferError(f"wire must be contiguous bytes, not {type(wire).__name__} ({error})") from None
