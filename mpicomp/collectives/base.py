"""What all collectives have in common: a call with its arguments checked, which becomes a Run, once or again and again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Mapping, Optional

from .. import agreement, buffers
from ..codecs.raw import Raw
from ..engine import Run, wait
from ..job import Randomness, Reduction
from ..planning import MPI_SUMS
from ..ports.base import Finish
from ..ports.device import port_for
from ..settings import SettingError
from ..watching import WatchedJob, WatchedPort


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
        watch, port = port.stats.count(self), port_for(port, job.x.data)
        if watch is not None:
            port, job, finish = WatchedPort(port, watch), WatchedJob(job, watch), watch.finish(finish)
        lanes = self.plan.lanes(port, job, tag)
        return Run(port, lanes, self.plan.depth, prologue=check, finish=finish, label=self.name, tag=tag)


LARGE = 1 << 20  # bytes of an array whose wires are worth sharing memory for


def meet(port: Any, signature: str, digest: int, share: bool, label: str, always: bool = False) -> None:
    """All ranks agree upon this collective now, `always` or if it is new; then they may share memory for large wires."""
    check = agreement.agree(port, signature, digest, always)
    wait(Run(port, (), prologue=check, label=label, tag=port.tag(digest)))
    if share:
        port.share_memory()


def settle(comm: Any, call: Optional[Call]) -> None:
    """What was planned to be MPI's again and again is agreed upon before: afterwards MPI alone is asked."""
    if call is not None and not comm._watched and not agreement.known(call.port, call.digest):
        meet(call.port, call.signature, call.digest, False, call.name)


@contextmanager
def telling(port: Any) -> Iterator[None]:
    """A rank that finds its arguments wrong tells the others before it raises."""
    try:
        yield
    except BaseException as error:
        port.fail(error)
        raise


def settings_of(comm: Any, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one call; none of them is to remember anything."""
    known = {key: changes[key] for key in ("codec", "algorithm", "seed", "segment") if key in changes}
    for key in changes.keys() - known.keys():
        if key != "feedback":
            comm._refuse(TypeError(f"{name}() got an unexpected keyword argument {key!r}"))
        elif changes[key]:
            comm._refuse(SettingError(f"{name} remembers nothing: feedback is for Allreduce_init"))
    return known


def left_to_mpi(comm: Any, changes: Iterable[Any], spec: Any, unasked: bool = False) -> bool:
    """Whether a call is MPI's by its communicator's settings (or `unasked`), unless its own settings say otherwise.

    Then all is as in mpi4py: ranks may describe their buffers differently, errors are MPI's. But MPI cannot add float16 and
    bfloat16, nor mpi4py send the latter.
    """
    settings = comm._settings
    plain = settings.algorithm == "raw" or (
        settings.algorithm == "auto" and isinstance(settings.codec, Raw) and isinstance(settings.down, Raw)
    )
    if not (plain or unasked) or any(change is not None and change is not False for change in changes):
        return False
    try:
        flat = buffers.flat(buffers.head(spec), "buffer")
    except ValueError:
        return True
    return flat is None or flat.kind in MPI_SUMS


def floating(spec: Any) -> bool:
    """Whether this buffer is for a codec at all; leaves faults to be reported by who looks closer."""
    try:
        return buffers.flat(spec, "buffer") is not None
    except ValueError:
        return True
