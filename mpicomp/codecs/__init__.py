"""HOW AN ARRAY TRAVELS. One wire format a file; frozen dataclasses, no state, no MPI.

`codec("natural:bits=8")` makes one from its spec. A class that derives from Codec with `name=` is registered.
"""

from .base import Codec, Stream
from .bf16 import BF16
from .chain import Chain
from .fp16 import FP16
from .grid import Grid
from .natural import Natural
from .randk import RandK
from .raw import Raw
from .spec import codec, names
from .topk import TopK

__all__ = ["BF16", "FP16", "Chain", "Codec", "Grid", "Natural", "RandK", "Raw", "Stream", "TopK", "codec", "names"]
