"""Arrays of a GPU for MPI's own collectives: as they are if MPI is CUDA-aware, else copied to the host and back.

Either way MPI gets them when all that the caller's streams were given is done. Here the result is there when the call, or
Wait, returns: what goes this way is small, or was asked for.
"""

from __future__ import annotations

import sys
from typing import Any, Sequence

from .. import arrays
from ..errors import BufferError
from ..ports.cuda_aware import cuda_aware
from ..ports.device import callers_streams, mark
from ..request import Request


def on_gpu(args: Sequence[Any]) -> bool:
    """Whether any of these buffer specs is of a GPU."""
    if "cupy" not in sys.modules and "torch" not in sys.modules:
        return False
    return any(arrays.on_gpu(_data(spec)) for spec in args)


class Staged:
    """The arguments of a collective as MPI can take them. `mark` in the caller's thread, whose streams they are, `take`
    before it begins, `land` when it is through."""

    def __init__(self, name: str, args: Sequence[Any]):
        self.args = list(args)
        self._copies: list[tuple[Any, Any]] = []  # (of the device, of the host)
        for place, spec in enumerate(args):
            if arrays.on_gpu(_data(spec)):
                device = _flat(_data(spec))
                host = device if cuda_aware() else _pinned(device)
                self._copies.append((device, host))
                self.args[place] = [host, *spec[1:]] if isinstance(spec, (list, tuple)) else host
        written = self.args[0 if name == "Bcast" else 1]
        self._written = _data(written)
        self._streams: list[Any] = []
        self._events: list[Any] = []

    def mark(self) -> Staged:
        self._streams = callers_streams(self._copies[0][0].device)
        self._events = [mark(stream) for stream in self._streams]
        return self

    def take(self) -> None:
        for event in self._events:
            event.synchronize()
        for device, host in self._copies:
            if host is not device:
                device.get(stream=self._streams[0], out=host)

    def land(self) -> None:
        for device, host in self._copies:
            if host is self._written and host is not device:
                with device.device:
                    device.set(host, stream=self._streams[0])
                    self._streams[0].synchronize()


class StagedRequest(Request):
    """MPI's own request, once or to be started again and again, with the copies that belong to it."""

    def __init__(self, staged: Staged, request: Any, under_way: bool = False):
        super().__init__()
        self._staged, self._request, self._under_way = staged, request, under_way

    def Start(self) -> None:
        self._staged.mark().take()
        self._request.Start()
        self._under_way = True

    @property
    def under_way(self) -> bool:
        return self._under_way

    def Wait(self, status: Any = None) -> bool:
        self._request.Wait(status)
        return self._arrived()

    def Test(self, status: Any = None) -> bool:
        return self._request.Test(status) and self._arrived()

    def Free(self) -> None:
        self.Wait()
        self._request.Free()

    def _arrived(self) -> bool:
        if self._under_way:
            self._under_way = False
            self._staged.land()
        return True


def _data(spec: Any) -> Any:
    return spec[0] if isinstance(spec, (list, tuple)) and spec else spec


def _flat(x: Any) -> Any:
    """The memory of x in its order, as CuPy sees it."""
    if arrays.is_torch(x):
        x = arrays.cupy_module().from_dlpack(x.detach())
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        raise BufferError(f"an array on a GPU is not contiguous (shape {x.shape}, strides {x.strides})")
    return x.reshape(-1) if x.flags.c_contiguous else x.T.reshape(-1)


def _pinned(x: Any) -> Any:
    import cupyx

    return cupyx.empty_pinned(x.shape, x.dtype)
