"""Moving shapes: events equal the moving edges, which data reveals the label and which does not, and settings."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import otpe
from otpe.datasets import moving_shapes, shapes

KEY = jax.random.key(0)
SIZE = 34


def drawn(batch=64, key=KEY, **settings):
    """Return spikes [T, B, 2, H, W], labels and scenes of a dataset without noise, in numpy."""
    data = moving_shapes(**{"size": SIZE, "time_steps": 20, "noise": 0, **settings})
    spikes, labels = data.sample(key, batch)
    return np.asarray(spikes, int), np.asarray(labels), jax.tree.map(np.asarray, data.scenes(key, batch))


def around(pixels, centre, size=SIZE):
    """Vectors from a centre to pixels, on the shortest way around the periodic grid."""
    return (pixels - centre + size / 2) % size - size / 2


def events(lit):
    """Pixels that get darker and brighter [T, 2, ...], from pixels that are lit or not [T + 1, ...]."""
    return np.stack([lit[:-1] & ~lit[1:], lit[1:] & ~lit[:-1]], 1)


def mean_place(counts, axis):
    """Mean position of events [..., H, W] along a periodic axis: the direction of the mean vector."""
    angle = 2 * np.pi * np.arange(SIZE) / SIZE
    along = counts.sum(-2 if axis == 0 else -1)
    return np.angle(along @ np.exp(1j * angle)) * SIZE / (2 * np.pi)


def test_the_seed_and_the_step_decide_the_whole_batch():
    data = moving_shapes(size=12, time_steps=5, noise=0.01)
    first, same, others = data.batch(3, 7, 6), data.batch(3, 7, 6), (data.batch(3, 8, 6), data.batch(4, 7, 6))
    np.testing.assert_array_equal(first.spikes, same.spikes)
    np.testing.assert_array_equal(first.labels, same.labels)
    assert all(not np.array_equal(first.spikes, other.spikes) for other in others)
    assert (first.spikes.shape, first.spikes.dtype) == ((5, 6, 2, 12, 12), jnp.uint8)
    assert first.labels.dtype == jnp.int32
    assert (data.steps, data.shape, data.units) == (5, (2, 12, 12), 288)
    assert set(np.unique(first.spikes)) == {0, 1}


@pytest.mark.parametrize(("label", "classes"), [("direction", 8), ("shape", 5)])
def test_labels_are_balanced(label, classes):
    data = moving_shapes(label, size=12, time_steps=1)
    assert len(data.names) == classes
    counts = [np.bincount(data.batch(0, step, 4 * classes).labels, minlength=classes) for step in range(3)]
    np.testing.assert_array_equal(counts, 4)
    uneven = np.array([np.bincount(data.batch(0, step, 3).labels, minlength=classes) for step in range(400)])
    assert uneven.max() == 1
    assert np.abs(uneven.mean(0) - 3 / classes).max() < 5 * np.sqrt(3 / classes / 400)


def test_events_are_where_the_light_changes():
    """Computes each pixel of each step again, one shape at a time, from the edges of the shape."""
    spikes, _, scenes = drawn(40)
    edges = {"square": (0, 90, 180, 270), "triangle": (30, 150, 270)}  # the outward direction of each edge
    for i in range(40):
        kind, time = shapes.KINDS[scenes.kind[i]], np.arange(21)
        centre = scenes.start[:, i, None] + time * scenes.velocity[:, i, None]
        x = around(np.arange(SIZE)[None, None, :], centre[0][:, None, None]) / scenes.radius[i]
        y = around(np.arange(SIZE)[None, :, None], centre[1][:, None, None]) / scenes.radius[i]
        z = (x + 1j * y) * np.exp(-1j * scenes.turn[i])  # rotated into the frame of the shape
        if kind in edges:  # inside of every edge
            distance = np.cos(np.pi / len(edges[kind]))
            covered = np.all([(z * np.exp(-1j * np.deg2rad(way))).real < distance for way in edges[kind]], axis=0)
        elif kind == "cross":
            arm = np.sqrt(15 / 16)
            covered = ((abs(z.real) < arm) & (abs(z.imag) < 0.25)) | ((abs(z.imag) < arm) & (abs(z.real) < 0.25))
        else:
            covered = (abs(z) < 1) & ((abs(z) ** 2 > 0.3) | (kind == "disc"))
        wrong = (spikes[:, i] != events(covered == scenes.bright[i])).sum()
        assert wrong <= 4, f"{kind}: {wrong} of {spikes[:, i].sum()} events. Only pixels on an edge may differ"


def test_events_move_along_the_labelled_direction():
    spikes, labels, scenes = drawn(64)
    both = spikes.sum(2)
    moved = [around(mean_place(both[-5:].sum(0), a) - mean_place(both[:5].sum(0), a), 0) for a in (0, 1)]
    way = labels * np.pi / 4
    np.testing.assert_allclose(np.hypot(*scenes.velocity) * np.stack([np.cos(way), np.sin(way)]), scenes.velocity, atol=1e-5)  # fmt: skip
    right = (
        np.hypot(*scenes.velocity) * 15 < SIZE / 2 - 2
    )  # if it moves further, the shortest way is in the other direction
    assert right.sum() > 30
    np.testing.assert_allclose(np.array(moved)[:, right], 15 * scenes.velocity[:, right], atol=1.5)


def test_on_events_are_ahead_of_bright_shapes_and_behind_dark_ones():
    spikes, labels, scenes = drawn(64)
    off, on = (spikes[:, :, channel].sum(0) for channel in (0, 1))
    one = drawn(64, time_steps=1)[0]
    ahead = [around(mean_place(one[0, :, 1], a), mean_place(one[0, :, 0], a)) for a in (0, 1)]
    seen = one[0].any((2, 3)).all(1)  # steps with events of both kinds
    along = sum(place * np.cos(labels * np.pi / 4 - turn) for place, turn in zip(ahead, (0, np.pi / 2), strict=True))
    assert seen.sum() > 40
    assert ((along > 0) == scenes.bright)[seen].mean() > 0.97
    assert abs(on.sum() / off.sum() - 1) < 0.05
    assert 20 < scenes.bright.sum() < 44


@pytest.mark.parametrize("label", ["direction", "shape"])
def test_time_reversal_with_inverted_contrast_reverses_the_direction(label):
    """So neither a single frame nor the sum of frames reveals the sign of the direction."""
    data = moving_shapes(label, size=SIZE, time_steps=20, noise=0)
    scenes = data.scenes(KEY, 32)
    opposite = scenes._replace(start=scenes.start + 20 * scenes.velocity, velocity=-scenes.velocity)
    bright, dark = (np.asarray(shapes._covered(data, each)) == lit for each, lit in ((scenes, True), (opposite, False)))
    differing = events(bright) != events(dark)[::-1]
    assert differing.sum() < 1e-3 * events(bright).sum(), "except for rounding at edges"


def test_two_frames_tell_the_direction():
    """A decoder without learning: how the mean event position moves from the first half to the second."""
    spikes, labels, _ = drawn(256, time_steps=16)
    halves = [spikes[part].sum((0, 2)) for part in (slice(0, 8), slice(8, 16))]
    x, y = (around(mean_place(halves[1], a), mean_place(halves[0], a)) for a in (0, 1))
    read = np.round(np.arctan2(y, x) / (np.pi / 4)).astype(int) % 8
    assert (read == labels).mean() > 0.9


def test_slow_motion_gives_events_too():
    spikes, _, _ = drawn(32, speed=(0.1, 0.1), time_steps=50)
    assert (spikes.sum((0, 2, 3, 4)) > 50).all()
    assert (spikes.sum((2, 3, 4)) > 0).mean() > 0.7


@pytest.mark.parametrize("noise", [0.002, 0.3])
def test_noise_has_its_rate_and_does_not_change_the_shapes(noise):
    data = moving_shapes(size=16, time_steps=30, noise=noise)
    pure = replace(data, noise=0.0).sample(KEY, 40).spikes
    noisy = data.sample(KEY, 40).spikes
    assert (noisy >= pure).all()
    silent = np.asarray(pure) == 0
    added = np.asarray(noisy)[silent]
    assert abs(added.mean() - noise) < 5 * np.sqrt(noise / added.size)
    per_step = (np.asarray(noisy) * silent).sum((1, 2, 3, 4)) / silent.sum((1, 2, 3, 4))
    np.testing.assert_allclose(per_step, noise, atol=5 * np.sqrt(noise / silent[0].sum()))


def test_sampling_works_inside_jit_scan_and_vmap():
    data = moving_shapes(size=12, time_steps=4, noise=0.01)

    @jax.jit
    def labels(data, seed):
        return jax.lax.scan(lambda c, i: (c, data.batch(seed, i, 6)), 0, jnp.arange(3))[1]

    alone = labels(data, 5)
    together = jax.vmap(labels, (None, 0))(data, jnp.array([5, 6]))
    for i in range(3):
        np.testing.assert_array_equal(alone.labels[i], data.batch(5, i, 6).labels)
        np.testing.assert_array_equal(alone.spikes[i], data.batch(5, i, 6).spikes)
    np.testing.assert_array_equal(together.spikes[0], alone.spikes)
    np.testing.assert_array_equal(together.spikes[1, 2], data.batch(6, 2, 6).spikes)


def test_a_dense_network_takes_the_flat_dataset():
    data = moving_shapes(size=12, time_steps=4)
    flat = data.flat()
    batch = flat.sample(KEY, 3)
    assert (flat.shape, flat.units, flat.steps, flat.names) == ((288,), 288, 4, data.names)
    np.testing.assert_array_equal(batch.spikes, data.sample(KEY, 3).spikes.reshape(4, 3, 288))
    np.testing.assert_array_equal(flat.batch(1, 2, 3).spikes, data.batch(1, 2, 3).spikes.reshape(4, 3, 288))
    net = otpe.dense([flat.units, 8])
    loss, _ = otpe.gradients(net, net.init(KEY), batch.spikes, batch.labels)
    assert np.isfinite(loss)
    assert otpe.datasets.flat(flat) is flat


BAD = [
    ({"label": "speed"}, r"label 'speed' is not known.* Expected one of: 'direction', 'shape'"),
    ({"size": 11}, r"size is 11, expected at least 12 pixels: smaller shapes look alike"),
    ({"size": 3.5}, r"size is 3.5, expected a whole number above 0"),
    ({"time_steps": 0}, r"time_steps is 0, expected a whole number above 0"),
    ({"time_steps": 10**6}, r"time_steps is 1000000 and size is 34: a sample would have 2,312,000,000 entries.*fewer"),
    ({"noise": -0.1}, r"noise is -0.1, expected a probability from 0 to 0.5, such as 0.001"),
    ({"noise": float("nan")}, r"noise is nan, expected a probability"),
    ({"speed": 1.0}, r"speed is 1.0, expected two numbers above 0 and at most 8.5 \(size / 4\), the slower one first"),
    ({"speed": (0, 1)}, r"speed is 0, expected two numbers above 0"),
    ({"speed": (1, 9)}, r"speed is 9, expected two numbers above 0 and at most 8.5"),
    ({"speed": (2, 1)}, r"speed is \(2, 1\), expected .* the slower one first"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=[str(settings) for settings, _ in BAD])
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        moving_shapes(**settings)


def test_invalid_batch_sizes_and_keys_are_refused():
    data = moving_shapes()
    with pytest.raises(ValueError, match="batch is 0, expected a whole number above 0"):
        data.sample(KEY, 0)
    with pytest.raises(TypeError, match=r"key is 3, expected a random key such as jax.random.key\(0\)"):
        data.sample(3, 8)
    with pytest.raises(ValueError, match=r"step is -1, expected a whole number from 0"):
        data.batch(0, -1, 8)
    with pytest.raises(ValueError, match=r"batch is 10{12}, with time_steps 50 and size 34: a mini-batch of spikes"):
        data.sample(KEY, 10**12)
