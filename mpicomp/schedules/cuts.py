"""How an array is cut: into one chunk for each owner, and every chunk into the same number of segments."""

from __future__ import annotations

from typing import List, Tuple

Cuts = List[Tuple[int, int]]


def chunks(n: int, owners: int, grain: int) -> Cuts:
    """n values for `owners` ranks: equal parts at multiples of grain; the last ones may be short or empty."""
    share = -(-n // (owners * grain)) * grain if n else 0
    return [(min(r * share, n), min((r + 1) * share, n)) for r in range(owners)]


MOST = 1000  # segments of one call: each has a tag of its own
SHORT = 3.8  # times a wire that is shorter than its array takes less time on its way than the codec


def segment_for(nbytes: int, wire: int, ranks: int = 1) -> int:
    """Bytes of a segment of an array whose wire has so many. What overlaps with nothing is the codec's work on the first
    one or, where wires are short, a segment on its way, and each has a cost of its own, about that of the codec's work on
    2 MB: the sum of both is least with the root of what overlaps. 40 MB are cut into 4, with 2 bits a value or less into 2;
    not into 1, since a link may be slow. Each of the ranks has at least 128 KB of it, for which a codec takes longer than a
    message costs."""
    short = min(max(SHORT * wire / nbytes, 0.25), 1.0) if nbytes and wire else 1.0
    return max(int((nbytes / (40 << 20) / short) ** 0.5 * (10 << 20)), ranks * (128 << 10))


def segments(n: int, owners: int, grain: int, segment: int) -> List[Cuts]:
    """The chunks cut into pieces of at most `segment` / owners values: one Cuts for each lane.

    Who owns an element does not depend on `segment`, so neither do the bits of the result.
    """
    return slices(chunks(n, owners, grain), grain, segment // owners)


def slices(whole: Cuts, grain: int, piece: int) -> List[Cuts]:
    """Each of these ranges cut into the same number of pieces of at most `piece` values (and at least one grain)."""
    longest = max((hi - lo for lo, hi in whole), default=0)
    lanes = min(-(-longest // (max(piece // grain, 1) * grain)), MOST)
    piece = -(-longest // (max(lanes, 1) * grain)) * grain  # even lanes, of which the last need not be needed
    lanes = -(-longest // piece) if lanes else 0
    return [[(min(lo + k * piece, hi), min(lo + (k + 1) * piece, hi)) for lo, hi in whole] for k in range(lanes)]
