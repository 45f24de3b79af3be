"""Graphs, mixing matrices and their spectra."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from mpicomp import topology
from mpicomp.topology import TopologyError

ALL = {
    "ring 1": topology.ring(1),
    "ring 2": topology.ring(2),
    "ring 8": topology.ring(8),
    "torus 1x2x3": topology.torus((1, 2, 3)),
    "torus 4x4": topology.torus((4, 4)),
    "grid 3x4": topology.grid((3, 4)),
    "hypercube 8": topology.hypercube(8),
    "exponential 7": topology.exponential(7),
    "complete 5": topology.complete(5),
    "star 6": topology.star(6),
    "graph": topology.graph(networkx.petersen_graph()),
}


@pytest.mark.parametrize("name", ALL)
def test_every_mixing_matrix_is_symmetric_doubly_stochastic_and_matches_its_graph(name):
    t = ALL[name]
    assert np.array_equal(t.matrix, t.matrix.T)
    assert (t.matrix >= 0).all()
    assert np.all(t.matrix.sum(axis=0) == 1)
    for rank in range(t.size):
        assert set(np.flatnonzero(t.matrix[rank])) <= {*t.neighbors[rank], rank}


@pytest.mark.parametrize("name", ALL)
def test_weights_are_exact_in_float32_and_sum_to_one(name):
    for row in ALL[name].weights:
        assert all(float(np.float32(w)) == w for w in row.values())
        assert sum(row.values()) == 1


def test_the_ring_of_eight_has_the_spectrum_of_the_textbooks():
    ring = topology.ring(8)
    assert np.allclose(ring.matrix[0], [1 / 3, 1 / 3, 0, 0, 0, 0, 0, 1 / 3], atol=1e-7)
    assert ring.spectral_gap == pytest.approx(0.1953, abs=1e-4)
    assert ring.diffusion_rate == pytest.approx(1.3084, abs=1e-4)
    assert topology.ring(16).spectral_gap == pytest.approx(0.0507, abs=1e-4)
    assert topology.ring(16).diffusion_rate == pytest.approx(1.445, abs=1e-3)


def test_averaging_contracts_by_the_spectral_gap_and_faster_at_the_diffusion_rate():
    t = topology.grid((3, 4))
    identity, mean = np.eye(12), np.full((12, 12), 1 / 12)
    plain = np.linalg.norm(t.matrix - mean, 2)
    best = np.linalg.norm(identity - t.diffusion_rate * (identity - t.matrix) - mean, 2)
    assert plain == pytest.approx(1 - t.spectral_gap, abs=1e-9)
    assert best < plain
    for other in (0.9, 1.1):
        changed = identity - other * t.diffusion_rate * (identity - t.matrix) - mean
        assert np.linalg.norm(changed, 2) > best


def test_complete_graphs_reach_the_mean_in_one_step():
    assert topology.complete(5).spectral_gap == pytest.approx(1, abs=1e-6)
    assert topology.complete(5).diffusion_rate == pytest.approx(1, abs=1e-6)


def test_rings_of_one_and_two_repeat_their_rows_and_count_a_neighbour_once():
    one, two = topology.ring(1), topology.ring(2)
    assert one.rows == [(0, 0)] and one.neighbors == [()] and one.spectral_gap == one.diffusion_rate == 1
    assert two.rows == [(1, 1), (0, 0)] and two.neighbors == [(1,), (0,)]
    assert np.array_equal(two.matrix, [[0.5, 0.5], [0.5, 0.5]])


def test_rows_of_a_torus_come_dimension_by_dimension_lower_neighbour_first():
    torus = topology.torus((2, 3))
    assert torus.rows[0] == (3, 3, 2, 1)
    assert torus.rows[4] == (1, 1, 3, 5)
    assert topology.torus((1, 2, 3)).rows[4] == (4, 4, 1, 1, 3, 5)


def test_a_grid_ends_with_missing_neighbours():
    grid = topology.grid((2, 3))
    assert grid.rows[0] == (None, 3, None, 1)
    assert grid.neighbors[0] == (1, 3)


def test_hypercube_and_exponential_graph_have_their_neighbours():
    assert topology.hypercube(8).neighbors[5] == (1, 4, 7)
    assert topology.exponential(8).neighbors[0] == (1, 2, 4, 6, 7)
    with pytest.raises(TopologyError, match="power of two"):
        topology.hypercube(6)


def test_uniform_weights_are_the_same_on_every_edge():
    star = topology.star(5, weights="uniform")
    assert star.matrix[0, 1] == star.matrix[3, 0] == pytest.approx(1 / 5, abs=1e-7)
    assert star.matrix[2, 2] == pytest.approx(4 / 5, abs=1e-7)


def test_a_graph_comes_from_networkx_a_matrix_or_lists_of_neighbours():
    g = networkx.cycle_graph(5)
    matrix = networkx.to_numpy_array(g)
    lists = [[1, 4], [0, 2], [1, 3], [2, 4], [3, 0]]
    for given in (g, matrix, matrix.tolist(), lists, dict(enumerate(lists))):
        assert topology.graph(given).neighbors == topology.ring(5).neighbors


@pytest.mark.parametrize("weight", [1, 2, 0.5, -3])
def test_square_lists_are_a_matrix_whatever_its_weights(weight):
    matrix = (weight * networkx.to_numpy_array(networkx.path_graph(4))).tolist()
    assert topology.graph(matrix).neighbors == topology.grid([4]).neighbors
    assert topology.graph([[0, weight], [weight, 0]]).neighbors == [(1,), (0,)]


def test_a_dict_is_of_neighbours_even_if_it_is_square():
    assert topology.graph({r: [0, 1, 2] for r in range(3)}).neighbors == topology.complete(3).neighbors


def test_disconnected_and_one_way_graphs_are_refused():
    with pytest.raises(TopologyError, match="not connected"):
        topology.graph([[1], [0], [3], [2]])
    with pytest.raises(TopologyError, match="not the other way"):
        topology.graph([[1], [2], [0]])
    with pytest.raises(TopologyError, match="ranks are"):
        topology.graph([[5], [0]])


def test_what_is_no_graph_is_refused():
    for make in (lambda: topology.ring(0), lambda: topology.torus((0, 3)), lambda: topology.grid((-1,))):
        with pytest.raises(TopologyError, match="at least 1"):
            make()
    for make in (lambda: topology.complete(0), lambda: topology.star(0), lambda: topology.graph([])):
        with pytest.raises(TopologyError, match="at least one rank"):
            make()
    with pytest.raises(TypeError):
        topology.graph([[1.7], [0], [0]])
    with pytest.raises(TopologyError, match="NaN"):
        topology.graph(np.array([[0, np.nan], [1, 0]]))


def test_rates_do_not_depend_on_the_last_bits_of_eigenvalues():
    graph = topology.ring(16)
    rate = graph.diffusion_rate
    graph.eigenvalues = np.nextafter(np.nextafter(graph.eigenvalues, 9), 9)
    assert graph.diffusion_rate == rate


def test_given_weights_are_checked():
    good = topology.ring(4).matrix
    assert np.allclose(topology.ring(4, weights=good).matrix, good)
    lazy = (good + np.eye(4)) / 2
    assert topology.ring(4, weights=lazy).spectral_gap == pytest.approx(topology.ring(4).spectral_gap / 2, abs=1e-6)
    for bad, why in (
        (good[:3], "4 x 4"),
        (good * 2, "sum to 1"),
        (np.full((4, 4), 0.25), "no neighbours"),
        (np.eye(4), "not connected"),
        (np.eye(4) + 1e-9 * (good - np.eye(4)), "not connected"),
        (-good, "negative"),
        (good + np.diag([0.1] * 3, 1) - np.diag([0.1, 0.1, 0.1, 0]), "symmetric"),
        ("best", "metropolis"),
    ):
        with pytest.raises(TopologyError, match=why):
            topology.ring(4, weights=bad)
