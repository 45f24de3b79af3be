"""What all collectives have in common: a call with its arguments checked, which becomes a Run, once or again and again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

from .. import agreement, buffers
from ..engine import Run
from ..job import Randomness, Reduction
from ..watching import WatchedJob, WatchedPort

Finish = Callable[[Optional[BaseException]], None]


class Call:
    """One collective with its arguments checked: a plan and, unless that is raw, everything to start it (again)."""

    name = ""
    make: type[Reduction] = Reduction
    scale = 1.0
    # Set by each collective: where messages go, the arrays, how they travel, what all ranks must agree upon
    port: Any
    x: Any
    out: Any
    plan: Any
    settings: Any
    signature: str
    digest: int

    def start(self, seed: int, call: int, finish: Optional[Finish] = None) -> Run:
        """A new Run; `call` numbers the calls of one communicator, so that each has random numbers of its own."""
        port, settings = self.port, self.settings
        tag = port.tag(self.digest)
        randomness = Randomness(seed, call, port.rank, port.size)
        job: Any = self.make(settings.codec, settings.down, self.x, self.out, self.scale, randomness, port.pool)
        check = agreement.agree(port, self.signature, self.digest)
        watch = port.stats.count(self)
        if watch is not None:
            port, job, finish = WatchedPort(port, watch), WatchedJob(job, watch), watch.finish(finish)
        lanes = self.plan.lanes(port, job, tag)
        return Run(port, lanes, prologue=check, finish=finish, label=f"{self.name} #{port.calls}", tag=tag)


@contextmanager
def telling(port: Any) -> Iterator[None]:
    """A rank that finds its arguments wrong tells the others before it raises."""
    try:
        yield
    except Exception as error:
        port.fail(error)
        raise


def floating(spec: Any) -> bool:
    """Whether this buffer is for a codec at all; leaves faults to be reported by who looks closer."""
    try:
        return buffers.flat(spec, "buffer") is not None
    except ValueError:
        return True
