"""The plane through two models, projections into it, and the loss over it, on cases with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import otpe
from otpe.analysis.landscape import landscape, plane, point, project, surface
from otpe.testing import scenario


def model(seed):
    """Return random parameters of two otpe.Dense layers."""
    rng = np.random.default_rng(seed)
    return tuple(otpe.Dense(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in ((5, 4), (4, 3)))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def added(model, *moves):
    """Return the model, moved by a distance in each of the given directions."""
    for far, direction in moves:
        model = jax.tree.map(lambda a, b, far=far: a + far * b, model, direction)
    return model


def orthogonal(plane, seed=9):
    """Return a unit direction orthogonal to the plane."""
    odd = model(seed)
    for direction in (plane.along, plane.across):
        odd = added(odd, (-flat(odd) @ flat(direction), direction))
    return jax.tree.map(lambda a: a / np.linalg.norm(flat(odd)), odd)


FIRST, LAST = model(0), model(1)
FOUND = plane(FIRST, LAST)


def test_the_directions_are_orthonormal_and_span_both_models():
    along, across = flat(FOUND.along), flat(FOUND.across)
    np.testing.assert_allclose([along @ along, across @ across, along @ across], [1, 1, 0], atol=1e-14)
    np.testing.assert_allclose(along * FOUND.distance, flat(LAST) - flat(FIRST), rtol=1e-12)
    for inside in (flat(FIRST), flat(LAST)):  # so the plane contains the model of zeros
        np.testing.assert_allclose(inside, inside @ along * along + inside @ across * across, rtol=1e-12)
    assert flat(FIRST) @ across > 0


def test_the_initial_model_is_the_origin_and_the_final_one_on_the_first_axis():
    at, share = project(FOUND, FIRST)
    np.testing.assert_array_equal(at, [0, 0])
    assert np.isnan(share)
    at, share = project(FOUND, LAST)
    np.testing.assert_allclose(at, [np.linalg.norm(flat(LAST) - flat(FIRST)), 0], atol=1e-12)
    assert share == pytest.approx(1, abs=1e-12)


def test_models_in_the_plane_project_to_themselves():
    for at in ([0.3, -1.2], [-2.0, 0.7]):
        inside = point(FOUND, at)
        place, share = project(FOUND, inside)
        np.testing.assert_allclose(place, at, rtol=1e-12)
        assert share == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(flat(point(FOUND, place)), flat(inside), rtol=1e-12)


def test_a_part_outside_the_plane_is_not_explained():
    out = orthogonal(FOUND)
    at, share = project(FOUND, added(FIRST, (2.0, out)))
    np.testing.assert_allclose([*at, share], 0, atol=1e-12)
    at, share = project(FOUND, added(FIRST, (1.5, out), (-1.5, FOUND.across)))
    np.testing.assert_allclose(at, [0, -1.5], atol=1e-12)
    assert share == pytest.approx(0.5, abs=1e-12), "45°"
    _, share = project(FOUND, added(FIRST, (4.0, out), (3.0, FOUND.along)))
    assert share == pytest.approx(9 / 25, abs=1e-12)


def test_projection_of_many_models_inside_jit():
    models = [model(seed) for seed in (2, 3, 4)]
    one_by_one = [project(FOUND, each) for each in models]
    stacked = jax.tree.map(lambda *a: np.stack(a), *models)
    both = jax.tree.map(lambda a: np.stack([a, a]), stacked)
    for at, share in (project(FOUND, stacked), jax.jit(jax.vmap(project, (None, 0)))(FOUND, stacked)):
        np.testing.assert_allclose(at, [at for at, _ in one_by_one], rtol=1e-12)
        np.testing.assert_allclose(share, [share for _, share in one_by_one], rtol=1e-12)
    at, share = project(FOUND, both)
    assert (at.shape, share.shape) == ((2, 3, 2), (2, 3))
    np.testing.assert_allclose(jax.jit(plane)(FIRST, LAST).distance, FOUND.distance, rtol=1e-12)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_loss_of_a_bowl_has_circular_contours(batch_size):
    """|θ|² over the plane is a bowl around the model of zeros, and its contours are circles."""
    zero, share = project(FOUND, jax.tree.map(jnp.zeros_like, FIRST))
    assert share == pytest.approx(1, abs=1e-12)
    at_x, at_y = np.linspace(-3, 4, 5), np.linspace(-2, 2, 3)

    def bowl(params):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    heights = surface(bowl, FOUND, at_x, at_y, batch_size=batch_size)
    np.testing.assert_allclose(heights, (at_x - zero[0]) ** 2 + (at_y[:, None] - zero[1]) ** 2, rtol=1e-12)
    angles = np.linspace(0, 6, 7)
    ring = [bowl(point(FOUND, zero + 1.7 * np.array([np.cos(a), np.sin(a)]))) for a in angles]
    np.testing.assert_allclose(ring, 1.7**2, rtol=1e-12)


@pytest.fixture(scope="module")
def case():
    return scenario((8, 6, 5), steps=7, batch=3, seed=1)


@pytest.mark.parametrize("readout", ["spikes", "leaky"])
def test_the_landscape_has_the_losses_of_the_network(case, readout):
    net, initial, spikes, labels = case
    final = net.init(jax.random.key(5))
    way = jax.tree.map(lambda a, b: jnp.stack([a, 0.5 * (a + b), b]), initial, final)
    off = jax.tree.map(lambda a: jnp.stack([a, 3 * a]), initial)
    mask = np.arange(7)[:, None] < np.array([7, 4, 5])
    result = landscape(
        net, initial, final, {"otpe": off, "bptt": way}, spikes, labels, mask, grid=4, margin=0.25, readout=readout
    )
    assert list(result.coordinates) == list(result.explained) == ["otpe", "bptt"], "in the given order"
    far = np.linalg.norm(flat(final) - flat(initial))
    np.testing.assert_allclose(result.coordinates["bptt"], [[0, 0], [far / 2, 0], [far, 0]], atol=1e-12)
    np.testing.assert_allclose(result.explained["bptt"], [np.nan, 1, 1])
    np.testing.assert_allclose(
        result.explained["otpe"], [np.nan, 1], err_msg="multiples of the initial model are in it"
    )
    seen = np.concatenate([*result.coordinates.values()])
    low, high = seen.min(0), seen.max(0)
    beyond = 0.25 * (high - low).max()
    np.testing.assert_allclose([result.at_x[0], result.at_y[0]], low - beyond, atol=1e-12)
    np.testing.assert_allclose([result.at_x[-1], result.at_y[-1]], high + beyond)
    through = plane(initial, final)
    rule = otpe.rule("bptt", readout=readout)
    for j, i in ((0, 0), (1, 2), (3, 1)):
        expected, _ = otpe.gradients(
            net, point(through, [result.at_x[i], result.at_y[j]]), spikes, labels, mask, rule=rule
        )
        assert result.loss[j, i] == pytest.approx(float(expected), rel=1e-10)


def test_a_single_straight_path_still_has_a_window(case):
    net, initial, spikes, labels = case
    result = landscape(net, initial, net.init(jax.random.key(5)), {}, spikes, labels, grid=2)
    assert result.loss.shape == (2, 2)
    assert result.at_y[1] - result.at_y[0] == pytest.approx(0.3 / 1.3 * float(result.at_x[1] - result.at_x[0]))


def test_two_models_that_span_no_plane_are_refused():
    with pytest.raises(
        ValueError, match=r"the final model is the initial one, expected two that differ: train it first"
    ):
        plane(FIRST, FIRST)
    twice = jax.tree.map(lambda a: np.float32(a) * np.float32(1.7), FIRST)
    with pytest.raises(ValueError, match=r"span a line, expected a plane. Start from random weights"):
        plane(jax.tree.map(np.float32, FIRST), twice)
    with pytest.raises(ValueError, match=r"span a line, expected a plane"):
        plane(jax.tree.map(np.zeros_like, FIRST), LAST)


def test_bad_input_is_refused_with_a_sentence(case):
    net, initial, spikes, labels = case
    final = net.init(jax.random.key(5))
    stacked = jax.tree.map(lambda a: a[None], initial)
    ragged = (stacked[0], jax.tree.map(lambda a: jnp.concatenate([a, a]), stacked[1]))
    for bad in (initial, ragged, stacked[:1]):
        with pytest.raises(ValueError, match=r"paths\['ottt'\] does not fit the network.* an axis of models in front"):
            landscape(net, initial, final, {"ottt": bad}, spikes, labels)
    with pytest.raises(ValueError, match=r"grid is 1, expected at least 2 points in each direction"):
        landscape(net, initial, final, {}, spikes, labels, grid=1)
    with pytest.raises(ValueError, match=r"margin is -1, expected a share of the window, 0 or above"):
        landscape(net, initial, final, {}, spikes, labels, margin=-1)
    with pytest.raises(ValueError, match=r"readout 'spike' is not known. Did you mean 'spikes'\?"):
        landscape(net, initial, final, {}, spikes, labels, readout="spike")
    with pytest.raises(ValueError, match=r"params has 1 entries, expected a tuple of 2"):
        landscape(net, initial, final[:1], {}, spikes, labels)
