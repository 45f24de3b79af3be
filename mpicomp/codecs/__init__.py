"""HOW AN ARRAY TRAVELS. One wire format a file; frozen dataclasses, no state, no MPI.

`codec("natural:bits=8")` makes one from its spec. A class that derives from Codec with `name=` is registered.
"""

from .base import Codec, Stream
from .bf16 import BF16
from .fp16 import FP16
from .natural import Natural
from .raw import Raw
from .spec import codec, names

__all__ = ["BF16", "FP16", "Codec", "Natural", "Raw", "Stream", "codec", "names"]
