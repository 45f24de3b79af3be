"""What schedules may ask of a port beyond plain messages: to look at a peer's buffer where it is, instead of a copy."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

Finish = Callable[[Optional[BaseException]], None]


class Port:
    """Here a lent buffer travels like any other. Ports with shared memory do better."""

    isend: Any
    devices: Any = None  # where messages are real, the ports of GPUs on top of this one
    irecv: Any

    def aboard(self, lanes: Iterable[Iterator[Any]], finish: Optional[Finish]) -> tuple[Any, Optional[Finish]]:
        """The lanes of a run and its end as they are to be run here."""
        return lanes, finish

    def lend(self, buffer: Any, dest: int, tag: int) -> Any:
        """As isend, but through only when the peer has given the buffer back."""
        return self.isend(buffer, dest, tag)

    def borrow(self, room: Any, source: int, tag: int) -> Any:
        """As irecv, for what the peer lends. `room` is for the bytes if they must travel."""
        return self.irecv(room, source, tag)

    def borrowed(self, message: Any, room: Any) -> Any:
        """The bytes, once the message is through: in `room` or where the peer has them."""
        return room

    def give_back(self, messages: Sequence[Any]) -> None:
        """Their bytes will not be looked at again."""
