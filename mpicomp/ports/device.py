"""Messages from and to the memory of a GPU.

Work goes on two streams, which the segments of a collective take in turn: while the bytes of one travel, the next is encoded.
Both begin after what the caller's streams (CuPy's current one and torch's) were given so far, and what these are given later
comes after the result. MPI gets the bytes of a stream when an event says that they are there. If it is CUDA-aware it gets
them where they are; any other MPI gets them in pinned memory of the host, through which they pass compressed.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from contextlib import contextmanager
from functools import cache
from typing import Any, Callable, Iterable, Iterator, Optional

import numpy as np
from mpi4py import MPI

from ..arrays import cupy_module, is_cupy
from ..errors import WireError
from ..job import Pool
from .base import Finish, Port
from .cuda_aware import cuda_aware

_STREAMS = 2


class Message:
    """A send or a receive that MPI may not know of yet: `event` tells when it may, `landed` what to do when it is through."""

    def __init__(self, post: Callable[[], Any], stream: Any, landed: Callable[[Message], None]):
        self.stream = stream
        self.request: Any = None
        self.status = MPI.Status()
        self.done = False
        self._event, self._post, self._landed = mark(stream), post, landed

    @property
    def source(self) -> int:
        return getattr(self.request, "source", -1)

    def post(self) -> bool:
        """Hand it to MPI, if its bytes are there."""
        if self.request is None and self._event.done:
            self.request = self._post()
        return self.request is not None

    def land(self) -> None:
        self.done = True
        self._landed(self)


class DevicePort(Port):
    """A port for arrays of one GPU, on top of one for the host. What is not said here is that port's."""

    def __init__(self, port: Any, number: int):
        self._port, self._aware = port, cuda_aware()
        self._device = cupy_module().cuda.Device(number)
        self._streams = _streams(number)
        self._pinned = PinnedPool()
        self._waiting: dict[int, deque[Message]] = defaultdict(deque)  # by stream, whose events come in this order
        self._copied: list[tuple[Any, Any]] = []  # (event, host buffer that is read until then)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    # What the engine calls

    def aboard(self, lanes: Iterable[Iterator[Any]], finish: Optional[Finish]) -> tuple[Any, Finish]:
        """Lanes on our streams, and the end on the caller's, in the order that the module's first lines tell."""
        callers = callers_streams(self._device)
        with self._device:
            for caller in callers:
                begun = mark(caller)
                for stream in self._streams:
                    stream.wait_event(begun)

        def end(error: Optional[BaseException]) -> None:
            with self._device, callers[0]:
                for stream in self._streams:
                    ended = mark(stream)
                    for caller in callers:
                        caller.wait_event(ended)
                if finish is not None:
                    finish(error)
                    _wait(callers[1:], callers[0])

        return (self._on(self._streams[i % _STREAMS], lane) for i, lane in enumerate(lanes)), end

    def _on(self, stream: Any, lane: Iterator[Any]) -> Iterator[Any]:
        """A lane whose every step is taken on that stream, whichever thread takes it."""
        while True:
            try:
                with self._device, stream:
                    handles = next(lane)
            except StopIteration:
                return
            yield handles

    def done(self, handles: Iterable[Any]) -> bool:
        """As the host's, but first MPI gets what is ready for it."""
        with self._device:
            for waiting in self._waiting.values():
                while waiting and waiting[0].post():
                    waiting.popleft()
            return all([self._through(handle) for handle in handles])

    def _through(self, handle: Any) -> bool:
        if not isinstance(handle, Message):
            return self._port.done([handle])
        if not handle.done and handle.request is not None and self._port.done([handle.request], [handle.status]):
            handle.land()
        return handle.done

    # What schedules call

    def isend(self, buffer: Any, dest: int, tag: int) -> Message:
        if not is_cupy(buffer):
            return self._in_turn(lambda: self._port.isend(buffer, dest, tag))
        if self._aware:
            return self._later(lambda: self._port.isend(buffer, dest, tag))
        stream, host = _current(), self._room(buffer.nbytes)
        buffer.get(stream=stream, out=host, blocking=False)
        return self._later(lambda: self._port.isend(host, dest, tag), lambda message: self._pinned.put(host))

    lend = isend

    def irecv(self, room: Any, source: int, tag: int) -> Message:
        return self._receive(self._port.irecv, room, source, tag)

    def borrow(self, room: Any, source: int, tag: int) -> Message:
        """A peer with arrays on the host may lend its own memory, whose bytes are taken from there."""
        return self._receive(self._port.borrow, room, source, tag)

    def _receive(self, verb: Callable[..., Any], room: Any, source: int, tag: int) -> Any:
        if not is_cupy(room):  # if MPI does not know of devices, no receive waits for one, and none may be overtaken
            return self._in_turn(lambda: verb(room, source, tag)) if self._aware else verb(room, source, tag)
        if self._aware:  # only after what still reads this memory
            return self._later(lambda: self._port.irecv(room, source, tag), lambda message: self._place(message, room))
        host = self._room(room.nbytes)
        message = Message(lambda: verb(host, source, tag), _current(), lambda message: self._copy(message, host, room))
        message.request = verb(host, source, tag)
        return message

    def _later(self, post: Callable[[], Any], landed: Callable[[Message], None] = lambda message: None) -> Message:
        message = Message(post, _current(), landed)
        self._waiting[message.stream.ptr].append(message)
        return message

    def _in_turn(self, post: Callable[[], Any]) -> Any:
        """A message of the host's memory: at once, but it must not overtake those that wait for the device."""
        return self._later(post) if self._waiting[_current().ptr] else post()

    def _copy(self, message: Message, host: Any, room: Any) -> None:
        """What has come to the host goes on to the device."""
        wire = self._port.borrowed(message.request, host)
        room.set(wire, stream=message.stream)
        self._copied.append((mark(message.stream), host))
        if wire is not host:
            message.stream.synchronize()
            self._port.give_back([message.request])

    def _place(self, message: Message, room: Any) -> None:
        """A peer may have sent only where its bytes are: a shorter message."""
        if message.status.Get_count(MPI.BYTE) == room.nbytes:
            return
        place = room[:8].get(stream=message.stream).view(np.int64)
        memory, at = self._port.pool.arena.peers[message.source], int(place[0])
        if not 0 <= at <= memory.size - room.nbytes:
            raise WireError(f"rank {message.source} lends bytes that it does not have")
        room.set(memory[at : at + room.nbytes], stream=message.stream)
        message.stream.synchronize()
        message.request.lent = True
        self._port.give_back([message.request])

    def _room(self, nbytes: int) -> Any:
        """A buffer on the host."""
        while self._copied and self._copied[0][0].done:
            self._pinned.put(self._copied.pop(0)[1])
        return self._pinned.get(nbytes)

    def borrowed(self, message: Any, room: Any) -> Any:
        return room if is_cupy(room) else self._port.borrowed(getattr(message, "request", message), room)

    def give_back(self, messages: Any) -> None:
        """For what came to the device this was done then."""
        self._port.give_back([getattr(message, "request", message) for message in messages])


class PinnedPool(Pool):
    """Buffers that the device copies from and to by itself."""

    def new(self, size: int, like: Any) -> Any:
        import cupyx

        return cupyx.empty_pinned(size, np.uint8)


def port_for(port: Any, data: Any) -> Any:
    """The port for collectives of arrays like `data`: for a GPU one of its own, else this one."""
    if not is_cupy(data) or port.devices is None:
        return port
    number = data.device.id
    if number not in port.devices:
        port.devices[number] = DevicePort(port, number)
    return port.devices[number]


def callers_streams(device: Any) -> list[Any]:
    """The streams that the caller may have given work to: CuPy's current one and, where torch uses the GPU, torch's."""
    cuda = cupy_module().cuda
    with device:
        streams = [cuda.get_current_stream()]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        pointer = torch.cuda.current_stream(device.id).cuda_stream
        if pointer != streams[0].ptr:
            streams.append(cuda.ExternalStream(pointer, device.id))
    return streams


@contextmanager
def in_turn(data: Any) -> Iterator[None]:
    """What is done here with CuPy comes after what torch's stream was given, and before what that is given next."""
    if data is None or not is_cupy(data):
        yield
        return
    first, *others = callers_streams(data.device)
    with data.device:
        for other in others:
            _wait([first], other)
        yield
        _wait(others, first)


def _wait(streams: Iterable[Any], other: Any) -> None:
    """Let streams go on after what another one was given so far."""
    for stream in streams:
        stream.wait_event(mark(other))


@cache
def _streams(number: int) -> list[Any]:
    """The streams of a GPU: all communicators share them."""
    cuda = cupy_module().cuda
    with cuda.Device(number):
        return [cuda.Stream(non_blocking=True) for _ in range(_STREAMS)]


def _current() -> Any:
    return cupy_module().cuda.get_current_stream()


def mark(stream: Any) -> Any:
    """An event that is there when the stream has done what it was given so far."""
    return stream.record(cupy_module().cuda.Event(disable_timing=True))
