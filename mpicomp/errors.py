"""The exceptions of mpicomp. Each is also the built-in exception that a caller would expect."""

from __future__ import annotations

import builtins


class Error(Exception):
    """Anything that mpicomp itself raises."""


class CodecError(Error, ValueError):
    """A codec that does not exist, a setting that it does not have, or data that it cannot carry."""


class SettingError(Error, ValueError):
    """A setting with an impossible value."""


class WireError(Error, ValueError):
    """Bytes that are not what the codec writes."""


class BufferError(Error, ValueError, builtins.BufferError):
    """An array that cannot be used as given: not contiguous, read-only, overlapping, of the wrong length."""


class SpecError(BufferError, TypeError):
    """What is no array, and none of mpi4py's descriptions of one."""


class DisagreementError(Error, RuntimeError):
    """The ranks of a collective called it with different arguments. Raised on every rank."""

    settled = False  # True where all ranks know already, and no message of the call is under way


class RemoteError(Error, RuntimeError):
    """Another rank failed in this collective; the message says which, and how."""


class TimeoutError(Error, RuntimeError):
    """Peers did not answer within MPICOMP_TIMEOUT seconds."""
