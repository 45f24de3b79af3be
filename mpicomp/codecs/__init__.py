"""HOW AN ARRAY TRAVELS. One wire format a file; frozen dataclasses, no state, no MPI.

`codec("natural:bits=8")` makes one from its spec. A class that derives from Codec with `name=` is registered.
"""

from .base import Codec, Stream
from .bf16 import BF16
from .chain import Chain
from .dithering import Dithering
from .fp16 import FP16
from .grid import Grid
from .lowrank import LowRank
from .natural import Natural
from .natural_dithering import NaturalDithering
from .qsgd import QSGD
from .randk import RandK
from .raw import Raw
from .sign import Sign
from .spec import codec, names
from .terngrad import TernGrad
from .topk import TopK
from .zstd import Zstd

__all__ = [
    "BF16",
    "FP16",
    "QSGD",
    "Chain",
    "Codec",
    "Dithering",
    "Grid",
    "LowRank",
    "Natural",
    "NaturalDithering",
    "RandK",
    "Raw",
    "Sign",
    "Stream",
    "TernGrad",
    "TopK",
    "Zstd",
    "codec",
    "names",
]
