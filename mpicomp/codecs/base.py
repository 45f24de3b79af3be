"""What every codec can do, and the parts that follow from encode and decode alone."""

from __future__ import annotations

import dataclasses
import functools
import numbers
from typing import Any, Callable, ClassVar, NamedTuple, Optional, Sequence

import numpy as np

from .. import arrays, launch
from ..arrays import KINDS, Flat
from ..checks import whole
from ..errors import CodecError, WireError
from ..reference.rng import stream_key

REGISTRY: dict[str, type[Codec]] = {}


class Stream(NamedTuple):
    """The random numbers of a range of elements: a key, the index of its first element, an offset between ranks, and
    for codecs that are `shared` a key that all ranks and stages of a collective have (0: none but `key`)."""

    key: int
    first: int = 0
    offset: int = 0
    shared: int = 0


class Terms(NamedTuple):
    """What a sum is made of: the wires of some ranks and, at `position` among them, this rank's own values or None."""

    wires: Sequence[Any]
    position: int
    own: Optional[Flat]
    n: int
    kind: str
    like: Any = None  # an array where the sum belongs


@dataclasses.dataclass(frozen=True)
class Codec:
    """An encoding of floating-point arrays as bytes. Settings only; the same settings are the same codec.

    Users call encode, decode, wire_size and omega. Schedules call the `*_into` methods, which work on flat
    arrays, allocate no wires and check nothing.
    """

    # Class attributes, not settings: without annotation, or with ClassVar, they are no fields.
    name = ""
    kinds = tuple(KINDS)
    unbiased = False
    bounded = False  # True: the variance is, in absolute terms
    correlated = False
    shared = False  # True: all ranks keep the same values, so that their wires can be summed
    either: ClassVar[Sequence[str]] = ()  # settings of which a spec gives one at most
    dense = True  # False: drops values or needs matrices, so that vectors and small arrays are better left exact

    def __init_subclass__(cls, name: Optional[str] = None, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "omega" in vars(cls):
            cls.omega = _of_whole(vars(cls)["omega"])  # type: ignore[assignment, method-assign]
        if name is not None:
            if REGISTRY.get(name, cls).__qualname__ != cls.__qualname__:
                raise CodecError(f"there is a codec named {name!r} already: {REGISTRY[name]!r}")
            cls.name = name
            REGISTRY[name] = cls

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _conform(self, field)
        self.check()

    # What users call

    def encode(self, x: Any, seed: int = 0) -> Any:
        """The bytes of x as a flat uint8 array, where x is (host or device). The same seed gives the same bytes."""
        flat = self._flatten(x, "x")
        wire = arrays.empty(self.size(flat.n, flat.kind), "u1", like=self.place(flat.data))
        self.encode_into(flat, wire, Stream(stream_key(seed)))
        return arrays.beside(wire[: self.length(wire, flat.n, flat.kind)], flat.data)

    def decode(self, wire: Any, like: Any = None, out: Any = None) -> Any:
        """The array that the bytes of `encode` stand for: a new one like `like`, or written into `out`."""
        if (like is None) == (out is None):
            raise TypeError("decode takes either like= or out=")
        result = arrays.empty_like(like) if out is None else out
        flat = self._flatten(result, "like" if out is None else "out", writable=True)
        wire = arrays.beside(arrays.as_wire(wire), self.place(flat.data))
        expected = self.length(wire, flat.n, flat.kind)
        if wire.size != expected:
            raise WireError(
                f"wire has {wire.size} bytes; {self} writes {expected} for {flat.n} values of {KINDS[flat.kind].label}"
            )
        self.decode_into(wire, flat)
        return result

    def wire_size(self, n: int, dtype: Any = np.float32) -> int:
        """The number of bytes of n encoded numbers; the most, where that depends on them. Complex ones are pairs."""
        kind, unit = arrays.values_of(dtype)
        return self.size(unit * whole("n", n, least=0), self.carry(kind))

    def omega(self, n: int) -> float:
        """A bound on E|C(x) - x|^2 / |x|^2 for n values."""
        raise NotImplementedError

    def noise(self, n: int) -> float:
        """omega of the steps in it that are unbiased: divided by 1 + noise, what it decodes to is a contraction."""
        return self.omega(n) if self.unbiased else 0.0

    def omegas(self, n: int) -> tuple[float, float]:
        """omega of what a collective with this codec both ways does once, and of what it does with each encoding."""
        return 0.0, self.omega(n)

    def __str__(self) -> str:
        settings = [
            f"{f.name}={_plain(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}:{','.join(settings)}" if settings else self.name

    # What a codec defines

    def check(self) -> None:
        """Raise CodecError if a setting, of the type that it must have, has an impossible value."""

    @property
    def grain(self) -> int:
        """A wire can be cut at multiples of this many values, and nowhere else."""
        return 64

    def size(self, n: int, kind: str) -> int:
        """wire_size without its checks."""
        raise NotImplementedError

    def encode_into(self, x: Flat, wire: Any, stream: Stream) -> None:
        raise NotImplementedError

    def decode_into(self, wire: Any, out: Flat) -> None:
        raise NotImplementedError

    # Where the length of a wire depends on the values

    def expected(self, n: int, kind: str) -> int:
        """About how many bytes a wire of n values will have."""
        return self.size(n, kind)

    def length(self, room: Any, n: int, kind: str) -> int:
        """How many bytes the wire of n values has that begins where `room` does."""
        return self.size(n, kind)

    def place(self, data: Any) -> Any:
        """An array where the wires of `data` are; None on the host."""
        return data

    # What follows; a codec with a kernel of its own for it overrides

    def add_into(self, wire: Any, acc: Any, kind: str, weight: float = 1.0) -> None:
        """acc += weight * decoded values, in the accumulator type of `kind`."""
        values = Flat(arrays.empty(acc.size, KINDS[kind].storage, like=acc), kind)
        self.decode_into(wire, values)
        accumulate(values, acc, weight)

    def reduce_into(self, terms: Terms, scale: float, out: Any, stream: Stream) -> None:
        """Encode scale * the sum of the terms. In pieces: sums take little memory then, and stay in the cache."""
        for lo, hi in launch.pieces(terms.n, self.grain, out):
            wires = [self.cut(wire, lo, hi, terms.kind) for wire in terms.wires]
            own = None if terms.own is None else terms.own[lo:hi]
            acc = self.total(terms._replace(wires=wires, own=own, n=hi - lo), scale)
            part, draws = self.cut(out, lo, hi, terms.kind), stream._replace(first=stream.first + lo)
            self.encode_into(as_kind(acc, terms.kind), part, draws)

    def cut(self, wire: Any, lo: int, hi: int, kind: str) -> Any:
        """The part of a wire that is of values lo to hi, which are multiples of the grain or the end."""
        return wire[self.size(lo, kind) : self.size(hi, kind)]

    def total(self, terms: Terms, scale: float = 1.0, acc: Any = None) -> Any:
        """scale * the sum of the terms, in their order, as an accumulator array: a new one, or `acc`."""
        if acc is None:
            like = terms.own.data if terms.own is not None else terms.wires[0]
            acc = arrays.empty(terms.n, KINDS[terms.kind].accumulator, like=like)
        acc[:] = 0
        for index in range(len(terms.wires) + 1):
            if index == terms.position and terms.own is not None:
                accumulate(terms.own, acc, 1.0)
            if index < len(terms.wires):
                self.add_into(terms.wires[index], acc, terms.kind)
        if scale != 1.0:
            divide(acc, round(1 / scale))  # scale is 1 / ranks; dividing is exact where the mean is
        return acc

    # Checks

    def carry(self, kind: str) -> str:
        """kind, if this codec can carry it."""
        if kind not in self.kinds:
            able = ", ".join(KINDS[k].label for k in self.kinds)
            raise CodecError(f"codec {str(self)!r} cannot carry {KINDS[kind].label} (it carries {able})")
        return kind

    def _flatten(self, x: Any, name: str, writable: bool = False) -> Flat:
        flat = arrays.flatten(x, name, writable)
        if flat is None:
            raise CodecError(f"{name} must hold floating-point numbers, not {getattr(x, 'dtype', type(x).__name__)}")
        self.carry(flat.kind)
        return flat


def _of_whole(omega: Callable[[Any, int], float]) -> Callable[[Any, int], float]:
    """A class's omega, with the check that all of them need."""

    @functools.wraps(omega)
    def checked(self: Any, n: int) -> float:
        return omega(self, whole("n", n, least=0))

    return checked


def accumulate(x: Flat, acc: Any, weight: float) -> None:
    """acc += weight * x, in the type of acc."""
    launch.kernel(f"scale_add_{x.kind}", acc)(x.data, x.n, acc, weight)


def multiply(acc: Any, by: float) -> None:
    """acc *= by."""
    if arrays.is_cupy(acc):  # whose own arithmetic flushes subnormal floats
        launch.kernel(f"multiply_f{8 * acc.itemsize}", acc)(acc, acc.size, by)
    else:
        acc *= acc.dtype.type(by)


def add(acc: Any, x: Any) -> None:
    """acc += x, both in a type of sums."""
    if arrays.is_cupy(acc):
        accumulate(Flat(x, f"f{8 * x.itemsize}"), acc, 1.0)
    else:
        acc += x


def subtract(acc: Any, x: Any) -> None:
    """acc -= x, both in a type of sums."""
    if arrays.is_cupy(acc):
        accumulate(Flat(x, f"f{8 * x.itemsize}"), acc, -1.0)
    else:
        acc -= x


def difference(x: Any, y: Any) -> Any:
    """x - y as a new array, both in a type of sums."""
    if not arrays.is_cupy(x):
        return x - y
    result = x.copy()
    subtract(result, y)
    return result


def divide(acc: Any, by: float) -> None:
    """acc /= by."""
    if arrays.is_cupy(acc):
        launch.kernel(f"divide_f{8 * acc.itemsize}", acc)(acc, acc.size, by)
    else:
        acc /= acc.dtype.type(by)


def as_kind(acc: Any, kind: str) -> Flat:
    """An accumulator rounded to the kind that it stands for."""
    if KINDS[kind].storage == acc.dtype:
        return Flat(acc, kind)
    out = arrays.empty(acc.size, KINDS[kind].storage, like=acc)
    launch.kernel(f"round_{kind}", acc)(acc, acc.size, out)
    return Flat(out, kind)


_TYPES: dict[str, tuple[Any, Any, str]] = {
    "int": (numbers.Integral, int, "a whole number"),
    "float": (numbers.Real, float, "a number"),
    "bool": ((bool, np.bool_), bool, "true or false"),
    "str": (str, str, "text"),
    "Union[int, str]": ((numbers.Real, str), None, "a number or text"),
    **dict.fromkeys(("Codec", "Sparse"), (Codec, None, "a codec")),
}


def _conform(codec: Codec, field: Any) -> None:
    """A setting must be what its field is annotated with; numbers and text of NumPy become Python's."""
    value, annotation = getattr(codec, field.name), str(getattr(field.type, "__name__", field.type))
    name = annotation[len("Optional[") : -1] if annotation.startswith("Optional[") else annotation
    if name not in _TYPES or (value is None and name != annotation):
        return
    wanted, make, words = _TYPES[name]
    if not isinstance(value, wanted) or (name != "bool" and isinstance(value, bool)):
        raise CodecError(f"{codec.name or type(codec).__name__}: {field.name}={value!r} must be {words}")
    if make is not None and type(value) is not make:
        try:
            object.__setattr__(codec, field.name, make(value))
        except OverflowError:
            raise CodecError(f"{codec.name}: {field.name} is too large for a {make.__name__}") from None


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
