"""mpicomp.Comm: an MPI.Intracomm whose collectives travel compressed. Every other method is mpi4py's."""

from __future__ import annotations

from typing import Any, Callable, NoReturn, Optional

import numpy as np
from mpi4py import MPI

from . import agreement, buffers, calibration, engine, planning, settings, shortcut
from .arrays import settle
from .codecs import Codec
from .collectives import allreduce, base, many, untouched
from .errors import BufferError, CodecError, SettingError
from .family import FamilyMixin
from .ports.mpi import existing_port, port_of, stats_of
from .request import MemoryPrequest, Prequest, Request
from .stats import Stats

_SUM = MPI.SUM


class Comm(FamilyMixin, MPI.Intracomm):
    """A communicator on the same MPI handle as `comm`, with a codec for the floating-point sums that go through it."""

    _handle: Any = MPI.Intracomm  # the class of mpi4py that this one refines
    _settings: settings.Settings
    _calls: int
    _untouched: set[Any]  # what family.py found to be MPI's and agreed upon
    _watched: bool

    def __new__(
        cls,
        comm: Optional[MPI.Comm] = None,
        codec: Any = None,
        *,
        algorithm: Optional[str] = None,
        seed: Optional[int] = None,
        segment: Optional[int] = None,
    ) -> Comm:
        if comm is not None and comm != MPI.COMM_NULL and comm.Is_inter():
            raise TypeError("comm must not be an intercommunicator: mpicomp compresses within one group")
        self = cls._handle.__new__(cls, comm)
        if isinstance(comm, Comm):
            self._settings = comm._settings.override(codec, algorithm, seed, segment)
        else:
            self._settings = settings.make(codec, algorithm, seed, segment)
        self._calls = 0
        self._untouched = set()
        shortcut.forget(self)
        self._watched = untouched.watched()  # whether MPI's own collectives are
        return self

    @property
    def codec(self) -> Codec:
        """The up-link codec of this communicator."""
        return self._settings.codec

    @property
    def stats(self) -> Stats:
        """Calls, bytes and times of this communicator's compressed collectives on this rank. See mpicomp.stats."""
        return stats_of(self)

    def Allreduce(
        self,
        sendbuf: Any,
        recvbuf: Any = None,
        op: MPI.Op = _SUM,
        codec: Any = None,
        algorithm: Optional[str] = None,
        seed: Optional[int] = None,
        segment: Optional[int] = None,
        feedback: Any = False,
    ) -> None:
        """The sum of all ranks' arrays, on every rank. Settings given here hold for this call only.

        A list or dict of arrays, alone or behind MPI.IN_PLACE, is summed in place, fused into few collectives; then
        codec= may be a rule: a function of (name, array) or a mapping from patterns of names.
        """
        if feedback:
            self._refuse(_forgetful("Allreduce"))
        if many.is_many(sendbuf if recvbuf is None else recvbuf) and self._sums(op):
            return self._complete_many(self._checked(sendbuf, recvbuf), codec, algorithm, seed, segment)
        call = self._prepare(sendbuf, recvbuf, op, codec, algorithm, seed, segment)
        if call is None:
            untouched.now(self, "Allreduce", (sendbuf, recvbuf, op))
            quick = op == _SUM and not self._watched
        else:
            self._complete(call, seed)
            quick = call.plan.algorithm == "raw" and not (call.port.stats.timed or self._watched)
        if quick and codec is algorithm is None and type(recvbuf) is np.ndarray:
            shortcut.remember(self, recvbuf)

    def _complete_many(
        self,
        arrays: Any,
        codec: Any,
        algorithm: Optional[str],
        seed: Optional[int],
        segment: Optional[int],
        mean: bool = False,
    ) -> None:
        """Start all, then wait for all; what MPI sums comes last."""
        batch = many.prepare(self, arrays, codec, lambda c: self._settings.override(c, algorithm, seed, segment), mean)
        runs = [call.start(*self._number(call.settings.seed, seed)) for call in batch.calls]
        for run in runs:
            engine.wait(run)
        for call in batch.calls:
            if call.plan.algorithm == "raw":
                many.sum_raw(self, call, mean)
        for x in batch.untouched:
            untouched.now(self, "Allreduce", (MPI.IN_PLACE, x, _SUM))

    def _complete(self, call: allreduce.Call, seed: Optional[int]) -> None:
        if not self._carried(call, seed):
            untouched.now(self, "Allreduce", (*call.buffers(), _SUM), call)

    def _carried(self, call: base.Call, seed: Optional[int]) -> bool:
        """A blocking call; False where the plan is raw, and now MPI's: the ranks agree that it is.

        Once they do, such calls are not numbered: for some ranks the shortcut does them, which counts nothing.
        """
        raw = call.plan.algorithm == "raw"
        if raw and (self._watched or agreement.known(call.port, call.digest)):
            call.port.stats.count(call)
        else:
            engine.wait(call.start(*self._number(call.settings.seed, seed)))
        return not raw

    def Iallreduce(
        self,
        sendbuf: Any,
        recvbuf: Any,
        op: MPI.Op = _SUM,
        codec: Any = None,
        algorithm: Optional[str] = None,
        seed: Optional[int] = None,
        segment: Optional[int] = None,
        feedback: Any = False,
    ) -> Any:
        """As Allreduce, without waiting; lists and dicts behind MPI.IN_PLACE too. The first call on a communicator waits
        until all ranks have made it."""
        if feedback:
            self._refuse(_forgetful("Iallreduce"))
        if many.is_many(recvbuf) and self._sums(op):
            batch = self._batch(sendbuf, recvbuf, codec, algorithm, seed, segment)
            return many.request(
                batch,
                lambda call: Request(call.start(*self._number(call.settings.seed, seed))),
                lambda x, call: untouched.later(self, "Allreduce", (MPI.IN_PLACE, x, _SUM), call),
            )
        call = self._prepare(sendbuf, recvbuf, op, codec, algorithm, seed, segment)
        if call is None or call.plan.algorithm == "raw":
            args = (*((sendbuf, recvbuf) if call is None else call.buffers()), op)
            if call is not None:
                call.port.stats.count(call)
            return untouched.later(self, "Allreduce", args, call)
        return Request(call.start(*self._number(call.settings.seed, seed)))

    def Allreduce_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        op: MPI.Op = _SUM,
        info: MPI.Info = MPI.INFO_NULL,
        codec: Any = None,
        algorithm: Optional[str] = None,
        seed: Optional[int] = None,
        segment: Optional[int] = None,
        feedback: Any = False,
    ) -> Any:
        """As Allreduce, to be started again and again with the same buffers; lists and dicts behind MPI.IN_PLACE too.

        feedback=True adds what encodings lost to what is encoded next, feedback="ef21" sends differences to what is known.
        What is remembered can be saved, restored and forgotten: state_dict, load_state_dict and reset of the request.
        """
        if many.is_many(recvbuf) and self._sums(op):
            batch = self._batch(sendbuf, recvbuf, codec, algorithm, seed, segment, feedback)
            return many.request(
                batch,
                lambda call: self._persistent(call, seed),
                lambda x, call: untouched.again(self, "Allreduce", (MPI.IN_PLACE, x, _SUM), info, call),
            )
        call = self._prepare(sendbuf, recvbuf, op, codec, algorithm, seed, segment, feedback, later=True)
        if call is None and feedback:
            self._refuse(CodecError("feedback needs a sum of floating-point data"))
        if call is None or call.plan.algorithm == "raw":
            args = (*((sendbuf, recvbuf) if call is None else call.buffers()), op)
            base.settle(self, call)
            return untouched.again(self, "Allreduce", args, info, call)
        return self._persistent(call, seed)

    def _batch(self, sendbuf: Any, recvbuf: Any, codec: Any, *changes: Any) -> many.Batch:
        arrays = self._checked(sendbuf, recvbuf)
        return many.prepare(self, arrays, codec, lambda c: self._settings.override(c, *changes))

    def _checked(self, sendbuf: Any, recvbuf: Any) -> Any:
        with base.telling(port_of(self)):
            return many.check(sendbuf, recvbuf)

    def _persistent(self, call: allreduce.Call, seed: Optional[int]) -> Prequest:
        if call.memory is not None:
            return MemoryPrequest(call.start_next, call.memory, self._number(call.settings.seed, seed))
        return Prequest(self._starter(call, seed))

    def _starter(self, call: Any, seed: Optional[int]) -> Callable[[], engine.Run]:
        """Starts a persistent call: each time with random numbers of its own, counted from a seed that was given."""
        settle(call.x.data)  # a list's pack
        starts = iter(range(1 << 62))
        if seed is not None:
            return lambda: call.start(call.settings.seed, next(starts))
        return lambda: call.start(*self._number(call.settings.seed, None))

    def plan(
        self, x: Any, codec: Any = None, algorithm: Optional[str] = None, segment: Optional[int] = None
    ) -> planning.Plan:
        """What Allreduce would do for x, and why. Local; sends nothing, so times are known once they were measured."""
        flat = buffers.flat(x, "x")
        if flat is None:
            raise CodecError(f"only floating-point data is compressed, not {getattr(x, 'dtype', type(x).__name__)}")
        wanted, port = self._settings.override(codec, algorithm, None, segment), existing_port(self)
        table = port.tables.get((wanted.codec, wanted.down, flat.kind)) if port is not None else None
        near, nodes = (port.near, len(set(port.nodes))) if port is not None else (False, None)
        plan = planning.choose(wanted, flat.n, flat.kind, self.size, table, flat.shapes, near, nodes)
        return plan if port is None or not planning.has_ways(plan) else calibration.with_ways(port, plan)

    def _prepare(
        self, sendbuf: Any, recvbuf: Any, op: MPI.Op, *changes: Any, later: bool = False
    ) -> Optional[allreduce.Call]:
        if base.left_to_mpi(self, changes, recvbuf):
            return None
        return allreduce.prepare(self, sendbuf, recvbuf, op, lambda: self._settings.override(*changes), later=later)

    def _sums(self, op: MPI.Op) -> bool:
        """Of lists and dicts there is no other operation."""
        if op != _SUM:
            self._refuse(BufferError("lists and dicts of arrays are summed: op must be MPI.SUM"))
        return True

    def _refuse(self, error: Exception) -> NoReturn:
        """The others are told."""
        with base.telling(port_of(self)):
            raise error

    def _number(self, seed: int, given: Optional[int]) -> tuple[int, int]:
        """(seed, call) of the next call with settings of that seed: one that was given with the call stands for both."""
        if given is not None:
            return seed, 0
        self._calls += 1
        return seed, self._calls - 1

    # New communicators keep the settings

    def _keep(self, comm: Any) -> Any:
        if isinstance(comm, Comm):
            comm._settings = self._settings
            return comm
        if type(comm) in (MPI.Cartcomm, MPI.Distgraphcomm):
            from .topocomm import refine

            return self._keep(refine(comm))
        if type(comm) is MPI.Intracomm or (type(comm) is MPI.Comm and comm == MPI.COMM_NULL):
            kept = Comm(comm)
            kept._settings = self._settings
            return kept
        return comm

    _copied = _keep  # duplicates keep all that there is

    def Dup(self, info: Optional[MPI.Info] = None) -> Any:
        return self._copied(super().Dup(info))

    def Clone(self) -> Any:
        return self._copied(super().Clone())

    def Dup_with_info(self, info: MPI.Info) -> Any:
        return self._copied(super().Dup_with_info(info))

    def Idup(self, info: Optional[MPI.Info] = None) -> tuple[Any, MPI.Request]:
        comm, request = super().Idup(info)
        return self._copied(comm), request

    def Idup_with_info(self, info: MPI.Info) -> tuple[Any, MPI.Request]:
        comm, request = super().Idup_with_info(info)
        return self._copied(comm), request

    def __reduce__(self) -> Any:
        """What mpi4py pickles, COMM_WORLD and COMM_SELF, and the settings with it."""
        return (*super().__reduce__(), {"_settings": self._settings})

    def Split(self, color: int = 0, key: int = 0) -> Any:
        return self._keep(super().Split(color, key))

    def Split_type(self, split_type: int, key: int = 0, info: MPI.Info = MPI.INFO_NULL) -> Any:
        return self._keep(super().Split_type(split_type, key, info))

    def Create(self, group: MPI.Group) -> Any:
        return self._keep(super().Create(group))

    def Create_group(self, group: MPI.Group, tag: int = 0) -> Any:
        return self._keep(super().Create_group(group, tag))

    def Create_cart(self, dims: Any, periods: Any = None, reorder: bool = False) -> Any:
        return self._keep(super().Create_cart(dims, periods, reorder))

    def Create_dist_graph_adjacent(self, sources: Any, destinations: Any, *args: Any, **kwargs: Any) -> Any:
        return self._keep(super().Create_dist_graph_adjacent(sources, destinations, *args, **kwargs))

    def Create_dist_graph(self, sources: Any, degrees: Any, destinations: Any, *args: Any, **kwargs: Any) -> Any:
        return self._keep(super().Create_dist_graph(sources, degrees, destinations, *args, **kwargs))


def _forgetful(name: str) -> SettingError:
    return SettingError(f"{name} remembers nothing: feedback needs Allreduce_init, whose request does")


Comm.Allreduce = shortcut.method(Comm, Comm.Allreduce)  # type: ignore[method-assign]
