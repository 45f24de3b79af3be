"""How arrays are cut for their owners and into segments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpicomp import codec
from mpicomp.schedules.cuts import MOST, chunks, segment_for, segments

lengths, owners = st.integers(0, 200_000), st.integers(1, 70)
grains, segment_sizes = st.sampled_from([1, 64, 512]), st.integers(1, 1 << 20)


@settings(deadline=None)
@given(lengths, owners, grains)
def test_chunks_cover_everything_once_and_begin_at_the_grain(n, p, grain):
    cuts = chunks(n, p, grain)
    assert len(cuts) == p and cuts[0][0] == 0 and cuts[-1][1] == n
    assert all(before[1] == after[0] for before, after in zip(cuts, cuts[1:]))
    assert all(lo % grain == 0 or lo == n for lo, _ in cuts)


@settings(deadline=None)
@given(lengths, owners, grains, segment_sizes)
def test_segments_cover_each_chunk_once_whatever_their_size(n, p, grain, segment):
    lanes = segments(n, p, grain, segment)
    assert len(lanes) <= MOST
    for owner, (lo, hi) in enumerate(chunks(n, p, grain)):
        at = lo
        for lane in lanes:
            begin, end = lane[owner]
            assert begin == at and (begin % grain == 0 or begin == end)
            at = end
        assert at == hi or lo == hi


@settings(deadline=None)
@given(lengths, owners, grains, segment_sizes)
def test_no_segment_is_larger_than_asked_for_unless_there_would_be_too_many(n, p, grain, segment):
    lanes = segments(n, p, grain, segment)
    limit = max(segment // p, grain)
    assert all(any(lo < hi for lo, hi in lane) for lane in lanes), "a segment of nothing"
    if max(hi - lo for lo, hi in chunks(n, p, grain)) <= MOST * (limit // grain * grain):
        assert all(hi - lo <= limit for lane in lanes for lo, hi in lane)


@pytest.mark.parametrize(
    "spec, ranks, lanes",
    [("natural", 4, 4), ("bf16", 4, 4), ("qsgd:bits=4", 4, 3), ("qsgd:bits=2", 4, 2), ("sign", 4, 2)]
    + [("topk:ratio=0.01", 4, 2), ("natural", 64, 4), ("natural", 512, 1), ("natural", 4096, 1)],
)
def test_40_mb_are_cut_into_fewer_segments_where_wires_are_short_or_ranks_many(spec, ranks, lanes):
    n, each = 10 << 20, codec(spec)
    segment = segment_for(4 * n, each.size(n, "f32"), ranks)
    assert len(segments(n, ranks, each.grain, segment // 4)) == lanes
