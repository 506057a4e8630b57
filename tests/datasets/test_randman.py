"""Randman: the formula, the protocols, and the properties of spikes that the paper states."""

import hashlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from otpe import datasets
from otpe.datasets import cache, manifolds
from otpe.datasets.manifolds import look_up

SMALL = {"classes": 3, "units": 6, "dims": 2, "alpha": 2.0, "steps": 20, "points": 40}
small = partial(datasets.randman, **SMALL)
KEY = jax.random.key(1)


def direct(k, x, alpha):
    """Return v(x) [points, units] by the formula, for x [points, dims]."""
    f = np.arange(k.a.shape[-1])
    phase = f * x[:, None, :, None] * k.b + k.c  # [points, units, dims, F]
    return (k.a / (f + 2.0) ** alpha * np.sin(2 * np.pi * phase)).sum(-1).prod(-1)


@pytest.fixture(scope="module")
def paper():
    """One manifold as in the paper: 50 units, 3 dimensions, 1,000 terms."""
    return datasets.randman("time", classes=1)


def test_look_up_equals_the_formula_within_the_interpolation_error(paper):
    """Interpolating a sine (amplitude w, frequency ω) between points h apart errs by w·(ωh)²·t(1−t)/2, rms w·(ωh)²/√240."""
    k = manifolds.coefficients(0, 0, 50, 3, 1.0)
    x = np.random.default_rng(0).random((2000, 3))
    one = manifolds.Coefficients(*(part[:1] for part in k))
    formula = np.stack(
        [direct(manifolds.Coefficients(*(p[:, d : d + 1] for p in one)), x[:, d : d + 1], 1.0)[:, 0] for d in range(3)]
    )
    along = jax.vmap(look_up, (None, None, 0))
    places = jnp.asarray(x, jnp.float32)
    given = np.stack([along(paper.tables[:, d : d + 1, :, :1], 0, places[:, d : d + 1])[:, 0] for d in range(3)])
    f = np.arange(1000)
    off = one.a / (f + 2) * (2 * np.pi * f * one.b / manifolds.GRID) ** 2
    expected = np.sqrt((off**2).sum(-1) / 240)[0]
    error = given - formula
    np.testing.assert_allclose(np.sqrt((error**2).mean(1)), expected, rtol=0.15)
    assert (expected / np.ptp(formula, axis=1)).max() < 2e-4


@pytest.mark.parametrize("standardize", ["batch", "fixed"])
def test_several_draws_in_one_dataset_equal_the_draws_of_each_seed(standardize):
    several = small("rate", seed=(4, 7), standardize=standardize)
    for number, seed in enumerate((4, 7)):
        expected = small("rate", seed=seed, standardize=standardize).sample(KEY, 16)
        for given in (several.on(number), jax.jit(lambda k: several.on(k))(number)):
            jax.tree.map(np.testing.assert_array_equal, given.sample(KEY, 16), expected)
    jax.tree.map(np.testing.assert_array_equal, several.sample(KEY, 16), several.on(0).sample(KEY, 16))
    assert several.names == ("manifold 0", "manifold 1", "manifold 2")
    with pytest.raises(ValueError, match="draw is 2, expected a whole number from 0"):
        several.on(2)
    with pytest.raises(ValueError, match="seed is empty"):
        small("rate", seed=())


def test_tables_are_exact_on_their_points(paper):
    k = manifolds.coefficients(0, 0, 50, 3, 1.0)
    points = np.array([0, 1, 127, 128, 4000, 8191, 8192])
    x = np.repeat(points[:, None] / manifolds.GRID, 3, axis=1)
    np.testing.assert_allclose(np.prod(paper.tables[0][:, points], axis=0), direct(k, x, 1.0), atol=1e-6)


def test_the_formula_equals_a_term_by_term_sum():
    """Computes the formula again, term by term, for one unit and one point."""
    k = manifolds.coefficients(4, 2, 3, 2, 2.0)
    x, product = (0.3, 0.9), 1.0
    for d in range(2):
        terms = [
            k.a[1, d, f] / (f + 2) ** 2 * np.sin(2 * np.pi * (f * x[d] * k.b[1, d, f] + k.c[1, d, f]))
            for f in range(32)
        ]
        product *= sum(terms)
    assert direct(k, np.array([x]), 2.0)[0, 1] == pytest.approx(product, rel=1e-12)
    assert (k.a[..., 0] == 0).all()
    assert all(part.min() >= 0 and part.max() < 1 for part in k)


@pytest.mark.parametrize(("alpha", "terms"), [(0.001, 1000), (1.0, 1000), (1.5, 100), (2.0, 32), (3.0, 10), (10.0, 2)])
def test_the_cutoff_sets_the_number_of_terms(alpha, terms):
    assert manifolds.cutoff(alpha) == terms


def test_manifolds_are_equal_on_any_machine():
    """The coefficients are equal bit for bit: this hash was computed once on another machine."""
    k = manifolds.coefficients(7, 3, 5, 2, 2.0)
    assert (
        hashlib.sha256(b"".join(part.tobytes() for part in k)).hexdigest()
        == "c92fcff31ba3526f6a93d9ffd880dc947a79323716c864243432f04aaf698a16"
    )
    assert k.a[1, 1, 1] == 0.2564442758440161


def test_more_classes_do_not_change_the_first_ones():
    np.testing.assert_array_equal(small(classes=2).tables, small(classes=3).tables[:2])
    assert not np.array_equal(small(seed=1).tables, small(seed=0).tables)


def test_t_randman_has_one_spike_per_unit():
    data = small("time")
    values, labels = data.values(KEY, 30)
    spikes, same = data.sample(KEY, 30)
    assert spikes.shape == (20, 30, 6)
    np.testing.assert_array_equal(same, labels)
    np.testing.assert_array_equal(spikes.sum(0), 1)
    np.testing.assert_array_equal(spikes.argmax(0), np.minimum(np.floor(np.asarray(values) * 20), 19))


@pytest.mark.parametrize("steps", [1, 32, 150])
def test_spike_counts_of_r_randman_follow_the_values(steps):
    data = small("rate", steps=steps, standardize="fixed")
    values, _ = data.values(KEY, 30)
    spikes, _ = data.sample(KEY, 30)
    assert spikes.shape == (steps, 30, 6)
    assert set(np.unique(spikes)) <= {0, 1}
    np.testing.assert_array_equal(spikes.sum(0), np.minimum(np.floor(np.asarray(values) * steps) + 1, steps))


def test_spikes_of_r_randman_are_uniform_over_time():
    """Every step is equally likely, independently for each sample and unit."""
    data = small("rate", standardize="fixed", steps=40)
    spikes = np.concatenate([np.asarray(data.sample(key, 500).spikes) for key in jax.random.split(KEY, 6)], axis=1)
    per_step = spikes.sum((1, 2))
    assert abs(per_step / per_step.mean() - 1).max() < 5 / np.sqrt(per_step.mean())
    half = spikes[:, (spikes.sum(0) == 20).any(1)]
    assert not np.array_equal(half[:, 0, 0], half[:, 0, 1])


def test_the_standardised_protocol_of_the_authors():
    """Each unit of each class reaches 0 and 1 within the drawn points. A batch of 120 shows all 120 points."""
    values, labels = small("time").values(KEY, 3 * 40)
    values, labels = np.asarray(values), np.asarray(labels)
    np.testing.assert_array_equal(np.bincount(labels), 40)
    for label in range(3):
        np.testing.assert_array_equal(values[labels == label].min(0), 0)
        np.testing.assert_array_equal(values[labels == label].max(0), 1)


def test_with_fixed_extremes_values_do_not_depend_on_the_batch():
    """The value of a point does not depend on the other points drawn, neither in the table nor in another batch."""
    data = small("time", standardize="fixed")
    values, labels = data.values(KEY, 200)
    x = jax.random.uniform(jax.random.split(jax.random.split(KEY)[0])[0], (200, 2), jnp.float32)
    raw = jax.vmap(look_up, (None, 0, 0))(data.tables, labels, x)
    expected = np.clip((raw - data.low[labels]) / (data.high[labels] - data.low[labels]), 0, 1)
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert ((values == 0) | (values == 1)).mean() < 0.2


def test_the_key_decides_the_whole_batch():
    data = small("rate")
    for batch in (data.sample, data.values):
        a, b, other = batch(KEY, 8), batch(KEY, 8), batch(jax.random.key(2), 8)
        assert all(jax.tree.leaves(jax.tree.map(np.array_equal, a, b)))
        assert not np.array_equal(jax.tree.leaves(a)[0], jax.tree.leaves(other)[0])


def test_sampling_works_inside_jit_scan_and_vmap():
    data = small("time")

    @jax.jit
    def train(data, seed):
        def step(total, i):
            spikes, labels = data.batch(seed, i, 8)
            return total + spikes.sum() + labels.sum(), labels

        return jax.lax.scan(step, 0, jnp.arange(3))[1]

    labels = train(data, 5)
    for i in range(3):
        np.testing.assert_array_equal(labels[i], data.batch(5, i, 8).labels)
    np.testing.assert_array_equal(jax.vmap(train, (None, 0))(data, jnp.array([5, 6]))[0], labels)


def test_tables_are_arguments_not_constants():
    data = small("time")
    argument = jax.jit(lambda data, key: data.sample(key, 8)).lower(data, KEY).as_text()
    constant = jax.jit(lambda key: data.sample(key, 8)).lower(KEY).as_text()
    assert len(argument) < data.tables.size < len(constant)


def test_tables_are_made_once_and_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path))
    make = partial(manifolds.tables, 11, 1, 2, 1, 3.0)
    first = make()
    (cached,) = tmp_path.iterdir()
    monkeypatch.setattr(manifolds, "tabulate", lambda *_: pytest.fail("made again"))
    np.testing.assert_array_equal(make(), first)
    cached.write_bytes(cached.read_bytes()[:-200])
    monkeypatch.undo()
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path))
    with pytest.warns(UserWarning, match="cannot be read .* made anew"):
        np.testing.assert_array_equal(make(), first)
    np.testing.assert_array_equal(make(), first)


def test_a_cache_that_cannot_be_written_gives_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot be written"):
        assert manifolds.tables(12, 1, 2, 1, 3.0).shape == (1, 1, 8193, 2)
    assert (tmp_path / "file").read_text() == "in the way"


def test_the_folder_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("OTPE_CACHE", "~/mine")
    assert "~" not in str(cache.home())
    monkeypatch.delenv("OTPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.home() == tmp_path / "otpe"


BAD = [
    ({"encoding": "times"}, r"encoding 'times' is not known. Did you mean 'time'\? Expected one of: 'time', 'rate'"),
    ({"standardize": "none"}, r"standardize 'none' is not known"),
    ({"classes": 0}, r"classes is 0, expected a whole number above 0"),
    ({"units": 2.5}, r"units is 2.5, expected a whole number above 0"),
    ({"dims": -1}, r"dims is -1"),
    ({"steps": 0}, r"steps is 0"),
    ({"points": 1}, r"points is 1, expected at least 2"),
    ({"alpha": 0}, r"alpha is 0, expected a number above 0 and at most 10"),
    ({"alpha": "1"}, r"alpha is '1', expected a number"),
    ({"seed": 2**64}, r"seed is 18446744073709551616, expected a whole number"),
    ({"seed": -1}, r"seed is -1, expected a whole number from 0 to 4,294,967,295"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=[str(s) for s, _ in BAD])
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        small(**settings)


def test_invalid_batch_sizes_and_keys_are_refused():
    with pytest.raises(
        ValueError, match=r"batch is 121, expected at most 120: that many points are drawn .* 40 of each"
    ):
        small().sample(KEY, 121)
    with pytest.raises(ValueError, match="batch is 0"):
        small().sample(KEY, 0)
    with pytest.raises(TypeError, match=r"key is 3, expected a random key such as jax.random.key\(0\)"):
        small().sample(3, 8)
    small(standardize="fixed").sample(KEY, 121)
