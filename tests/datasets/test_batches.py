"""The contract: batches by seed and step, the order of epochs, padding, and pytrees."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import otpe
from otpe import datasets
from otpe.datasets.dataset import random_key, shuffled

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def numbered():
    """22 recordings. The only spike count of each is its number."""
    spikes = np.zeros((4, 22, 3), np.uint8)
    spikes[0, :, 0] = np.arange(22)
    return datasets.from_arrays(spikes, np.arange(22) % 5)


def numbers(batch):
    return np.asarray(batch.spikes[0, :, 0]).tolist()


@pytest.mark.parametrize("total", [1, 2, 5, 97])
def test_an_order_contains_every_number_once(total):
    assert sorted(shuffled(KEY, total, jnp.arange(total)).tolist()) == list(range(total))


def test_all_orders_are_equally_likely():
    orders = jax.jit(jax.vmap(lambda key: shuffled(key, 4, jnp.arange(4))))(jax.random.split(KEY, 24_000))
    seen = collections.Counter(map(tuple, np.asarray(orders).tolist()))
    assert len(seen) == 24
    deviation = sum((count - 1000) ** 2 / 1000 for count in seen.values())
    assert deviation < 60, "χ² with 23 degrees of freedom exceeds 60 once in 30,000 times"


def test_positions_of_neighbours_are_independent_after_shuffling():
    """The new positions of two neighbours in a long order are uncorrelated."""
    keys = jax.random.split(KEY, 4000)
    a, b = np.asarray(jax.jit(jax.vmap(lambda key: shuffled(key, 7335, jnp.arange(2))))(keys), float).T
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.06
    assert abs(np.abs(a - b).mean() / 7335 - 1 / 3) < 0.015


def test_an_epoch_shows_everything_once(numbered):
    epochs = [[numbers(numbered.batch(3, 4 * epoch + step, 5)) for step in range(4)] for epoch in range(3)]
    for epoch in epochs:
        seen = [number for batch in epoch for number in batch]
        assert len(set(seen)) == len(seen) == 20, "two of 22 are left out: less than a batch"
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_resumed_run_sees_the_same_batches(numbered):
    straight = [numbers(numbered.batch(3, step, 5)) for step in range(10)]
    assert numbers(numbered.batch(3, 7, 5)) == straight[7]
    assert numbers(numbered.batch(4, 7, 5)) != straight[7]
    _, scanned = jax.jit(
        lambda data, steps: jax.lax.scan(lambda c, step: (c, data.batch(3, step, 5).spikes[0, :, 0]), 0, steps)
    )(numbered, jnp.arange(10))
    assert scanned.tolist() == straight


def test_a_seed_means_the_same_under_any_jax_settings(numbered):
    expected = numbers(numbered.batch(3, 2, 5))
    with jax.default_prng_impl("rbg"):
        assert numbers(numbered.batch(3, 2, 5)) == expected
        assert random_key(0).dtype == jax.random.key(0, impl="threefry2x32").dtype


@pytest.mark.parametrize("kind", ["frames", "randman"])
def test_invalid_seeds_and_steps_are_refused(numbered, kind):
    data = numbered if kind == "frames" else datasets.randman(classes=2, units=3, dims=1, alpha=3.0)
    expected = data.batch(2**32 - 1, 2**31 - 1, 5).labels
    np.testing.assert_array_equal(data.batch(np.uint32(2**32 - 1), jnp.int32(2**31 - 1), 5).labels, expected)
    with jax.enable_x64(False):
        np.testing.assert_array_equal(data.batch(2**32 - 1, 2**31 - 1, 5).labels, expected)
    for bad in (-1, 2**32, 0.5):
        with pytest.raises(ValueError, match=r"seed is .*, expected a whole number from 0 to 4,294,967,295"):
            data.batch(bad, 0, 5)
    for bad in (-1, 2**31, 7.0):
        with pytest.raises(ValueError, match=r"step is .*, expected a whole number from 0 to 2,147,483,647"):
            data.batch(0, bad, 5)


def test_labels_stay_with_their_recordings(numbered):
    batch = numbered.sample(KEY, 22)
    assert sorted(numbers(batch)) == list(range(22))
    np.testing.assert_array_equal(batch.labels, np.array(numbers(batch)) % 5)
    subset = numbered.subset([4, 9])
    assert len(subset) == 2
    assert sorted(numbers(subset.sample(KEY, 2))) == [4, 9]


def test_unshuffled_batches_come_in_order(numbered):
    batches = list(numbered.in_order(8))
    assert [len(batch.labels) for batch in batches] == [8, 8, 6]
    assert [number for batch in batches for number in numbers(batch)] == list(range(22))


def test_a_batch_unpacks_into_two(numbered):
    batch = numbered.batch(0, 0, 5)
    spikes, labels = batch
    assert spikes is batch.spikes
    assert labels is batch.labels
    assert spikes.shape == (4, 5, 3)
    assert (spikes.dtype, labels.dtype) == (jnp.uint8, jnp.int32)
    assert (numbered.steps, numbered.units, numbered.names) == (4, 3, ("0", "1", "2", "3", "4"))


def test_a_dataset_is_one_line_of_text(numbered):
    grid = datasets.from_arrays(np.ones((50, 1234, 2, 3, 4), np.uint8), np.arange(1234) % 20)
    randman = datasets.randman(classes=2, units=3, dims=1, alpha=3.0, standardize="fixed")
    texts = {
        repr(numbered): "FrameSet(22 recordings, 4 steps, shape (3,), 5 classes)",
        repr(grid): "FrameSet(1,234 recordings, 50 steps, shape (2, 3, 4), 20 classes)",
        repr(randman): "Randman('time', 2 classes, 3 units, 1 dims, 50 steps, standardize='fixed')",
        repr(datasets.moving_shapes()): (
            "MovingShapes(label='direction', size=34, steps=50, noise=0.001, speed=(0.25, 1.0))"
        ),
    }
    assert texts == {text: text for text in texts.values()}
    assert all(len(text) <= 100 for text in texts.values())
    for data in (numbered, randman):  # JAX puts other things into the fields
        assert type(data).__name__ in repr(jax.tree.map(lambda _: None, data))
    jax.jit(lambda data: repr(data) and data.batch(0, 0, 2).labels)(numbered)


def test_short_recordings_are_padded_and_masked():
    data = datasets.from_arrays(np.ones((4, 3, 2)), [0, 1, 0], lengths=[4, 1, 2])
    batch = data.take([1, 2])
    np.testing.assert_array_equal(batch.lengths, [1, 2])
    np.testing.assert_array_equal(batch.mask.T, [[1, 0, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_array_equal(jax.jit(lambda b: b.mask)(batch), batch.mask)
    np.testing.assert_array_equal(datasets.from_arrays(np.ones((4, 3, 2)), [0, 1, 0]).take([0]).mask, np.ones((4, 1)))
    assert data.subset([1, 2]).lengths.tolist() == [1, 2]
    stacked = jax.vmap(data.take)(jnp.array([[1, 2], [0, 1]]))
    np.testing.assert_array_equal(stacked.mask[0], batch.mask)


def test_a_grid_keeps_its_axes(numbered):
    spikes = np.random.default_rng(0).integers(0, 3, (4, 6, 2, 3, 5))
    data = datasets.from_arrays(spikes, np.arange(6) % 2, lengths=[4, 1, 2, 3, 4, 4])
    flat = data.flat()
    assert (data.shape, data.units, flat.shape, flat.units) == ((2, 3, 5), 30, (30,), 30)
    batch = data.subset([5, 1, 2]).take([1, 2])
    np.testing.assert_array_equal(batch.spikes, spikes[:, [1, 2]])
    np.testing.assert_array_equal(batch.mask.T, [[1, 0, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_array_equal(flat.take([1, 2]).spikes, spikes[:, [1, 2]].reshape(4, 2, 30))
    np.testing.assert_array_equal(jax.vmap(data.take)(jnp.array([[1], [2]])).mask[:, :, 0], batch.mask.T)
    assert [each.spikes.shape for each in data.in_order(4)] == [(4, 4, 2, 3, 5), (4, 2, 2, 3, 5)]
    assert data.batch(0, 3, 5).spikes.shape == (4, 5, 2, 3, 5)
    unpadded = datasets.from_arrays(spikes, np.arange(6) % 2)
    np.testing.assert_array_equal(jax.vmap(unpadded.take)(jnp.array([[1], [2]])).mask, np.ones((2, 4, 1)))
    assert datasets.flat(numbered) is numbered


class Own:
    """A user's dataset on a grid, with only the methods that the contract requires."""

    steps, shape, names = 2, (1, 2, 3), ("a", "b")

    def batch(self, seed, step, size):
        return datasets.SpikeBatch(jnp.full((2, size, 1, 2, 3), step), jnp.zeros(size, int), jnp.arange(size))

    def sample(self, key, batch):
        return self.batch(0, 5, batch)


def test_any_dataset_can_be_flattened():
    flat = datasets.flat(Own())
    assert (flat.steps, flat.shape, flat.units, flat.names) == (2, (6,), 6, ("a", "b"))
    np.testing.assert_array_equal(flat.batch(0, 3, 4).spikes, np.full((2, 4, 6), 3))
    np.testing.assert_array_equal(flat.sample(KEY, 4).lengths, [0, 1, 2, 3])
    assert flat.sample(KEY, 4).spikes.shape == (2, 4, 6)


def test_a_network_learns_from_a_dataset(numbered):
    """Functions accept a batch in place of spikes, also inside jit."""
    net = otpe.dense([3, 4, 5])
    params = net.init(KEY)

    @jax.jit
    def loss(data, step):
        spikes, labels = data.batch(0, step, 5)
        return otpe.gradients(net, params, spikes, labels, rule="otpe")[0]

    spikes, labels = numbered.batch(0, 1, 5)
    assert loss(numbered, 1) == pytest.approx(float(otpe.gradients(net, params, spikes, labels, rule="otpe")[0]))


def test_invalid_batch_sizes_and_keys_are_refused(numbered):
    with pytest.raises(ValueError, match=r"batch is 23, more than the 22 recordings there are. Use a smaller batch"):
        numbered.batch(0, 0, 23)
    with pytest.raises(ValueError, match="batch is 0, expected a whole number above 0"):
        numbered.sample(KEY, 0)
    with pytest.raises(ValueError, match="size is -1, expected a whole number above 0"):
        next(numbered.in_order(-1))
    for which, message in (
        ([99, -1], r"`which` has numbers from -1 to 99, expected 0 to 21: there are 22 recordings"),
        ([], r"`which` is float64 \[0\], expected a row of recording numbers"),
        (3, r"`which` is int64 \[\]"),
        ([0.5], r"`which` is float64 \[1\]"),
        (np.ones(5, bool), r"`which` is bool \[5\]"),
    ):
        for part in (numbered.take, numbered.subset):
            with pytest.raises(ValueError, match=message):
                part(which)
    assert len(numbered.subset(np.arange(22) < 4)) == 4
    with pytest.raises(TypeError, match="key is 0, expected a random key"):
        numbered.sample(0, 3)
