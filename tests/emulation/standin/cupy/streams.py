"""Streams on which work waits until somebody waits for it."""

from __future__ import annotations

import threading
import time
import types

_local = threading.local()
_STREAMS: dict[int, Stream] = {}
_DEVICE = threading.RLock()  # one piece of work at a time, whichever thread lets it be done


def _stack():
    if not hasattr(_local, "stack"):
        _local.stack = [Stream.null]
    return _local.stack


def _devices():
    """This thread's devices, the current one last. They have their memory apart, and nothing else."""
    if not hasattr(_local, "devices"):
        _local.devices = [0]
    return _local.devices


def current():
    """The current stream of this thread."""
    return _stack()[-1]


class Stream:
    null: Stream

    def __init__(self, null=False, non_blocking=False):
        self._queue = []
        self.ptr = len(_STREAMS)
        _STREAMS[self.ptr] = self

    def submit(self, work):
        self._queue.append(work)

    def advance(self):
        """Do the oldest piece of work, if there is one."""
        with _DEVICE:
            if self._queue:
                self._queue.pop(0)()

    def synchronize(self):
        while self._queue:
            self.advance()

    @property
    def done(self):
        self.advance()
        return not self._queue

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        mark = event._mark
        self.submit(lambda: mark and mark.reach())

    def __enter__(self):
        _stack().append(self)
        return self

    def __exit__(self, *error):
        _stack().pop()

    def __eq__(self, other):
        return self.ptr == other.ptr

    def __hash__(self):
        return self.ptr


class ExternalStream:
    """The stream that another library has made."""

    def __new__(cls, ptr, device_id=-1):
        return _STREAMS[ptr]


class _Mark:
    """A point of a stream's work."""

    def __init__(self, stream):
        self.stream, self.reached, self.time = stream, False, 0.0
        stream.submit(self._arrive)

    def _arrive(self):
        self.reached, self.time = True, time.perf_counter()

    def reach(self):
        while not self.reached:
            self.stream.advance()


class Event:
    def __init__(self, block=False, disable_timing=False):
        self._mark = None

    def record(self, stream=None):
        self._mark = _Mark(stream or current())

    @property
    def done(self):
        """Asking lets the device do a little."""
        if self._mark is not None and not self._mark.reached:
            self._mark.stream.advance()
        return self._mark is None or self._mark.reached

    def synchronize(self):
        if self._mark is not None:
            self._mark.reach()


def elapsed(begin, end):
    """Milliseconds between two events, as get_elapsed_time gives them."""
    return 1e3 * (end._mark.time - begin._mark.time)


class Device:
    attributes = {"MultiProcessorCount": 1}

    def __init__(self, number=None):
        self.id = _devices()[-1] if number is None else number

    def __enter__(self):
        _devices().append(self.id)
        return self

    def __exit__(self, *error):
        _devices().pop()

    def synchronize(self):
        for stream in _STREAMS.values():
            stream.synchronize()


Stream.null = Stream(null=True)
runtime = types.SimpleNamespace(
    getDevice=lambda: _devices()[-1],
    is_hip=False,
    getDeviceProperties=lambda number: {"name": b"a stand-in, not a GPU"},
)
