"""The engine: how a backend is chosen, how exact it is, and that every rule gives the same on all backends."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory import networks
from theory.networks import live

import otpe
from otpe.engine import VARIABLE, Engine, engine
from otpe.testing import assert_live, relative_error, scenario

OFFLINE = ("bptt", "ottt", "otpe", "f-approx-otpe", "f-deep-otpe")  # everything that a kernel must handle


@pytest.fixture(scope="module")
def case():
    """A float32 case whose widths and steps are multiples of no tile size."""
    case = scenario((11, 9, 7, 5), steps=13, batch=3, leak=(0.9, 0.8, 0.95), seed=4)
    assert_live(case)
    return case._replace(
        params=jax.tree.map(jnp.float32, case.params), spikes=np.asarray(case.spikes, np.uint8), labels=case.labels
    )


@pytest.mark.parametrize("rule", OFFLINE)
def test_kernels_give_the_gradient_of_plain_loops(case, rule):
    plain, kernels = (otpe.gradients(*case, rule=rule, backend=b) for b in ("plain", "interpret"))
    assert relative_error(kernels, plain) < 1e-5


@pytest.mark.parametrize("rule", ["otpe", "f-approx-deep-otpe"])
def test_kernels_are_exact_in_float64(rule):
    case = scenario((6, 8, 7, 5), leak=(0.9, 0.8, 0.95), reset="zero", seed=2)
    plain, kernels = (otpe.gradients(*case, rule=rule, backend=b, chunk=5) for b in ("plain", "interpret"))
    assert relative_error(kernels, plain) < 1e-12


@pytest.mark.parametrize(("make", "rule"), [(networks.membrane, "f-approx-deep-otpe"), (networks.short, "otpe"), (networks.own, "bptt")])  # fmt: skip
def test_kernels_are_exact_for_every_neuron(make, rule):
    """Several states, trained leaks, a membrane, and user neurons: forward and backward."""
    case = live(make)
    plain, kernels = (otpe.gradients(*case, rule=rule, backend=b) for b in ("plain", "interpret"))
    assert relative_error(kernels, plain) < 1e-12
    assert relative_error(*(case.net.record(*case[1:3], backend=b) for b in ("interpret", "plain"))) == 0


@pytest.mark.parametrize("traces", ["dense", "factored"])
def test_kernels_of_traces_are_exact_for_every_neuron(traces):
    case = live(networks.membrane)
    plain = otpe.gradients(*case, rule="deep-otpe", form="whole")
    kernels = otpe.gradients(*case, rule="deep-otpe", form="steps", traces=traces, backend="interpret")
    assert relative_error(kernels, plain) < 1e-12


@pytest.mark.usefixtures("for_a_gpu")
@pytest.mark.parametrize("make", [networks.membrane, networks.short, networks.own])
def test_kernels_of_every_neuron_can_be_made_for_a_gpu(make):
    """There is one kernel per layer and direction."""
    case = live(make)
    params = jax.tree.map(jnp.float32, case.params)
    text = cuda(case.net, params, np.asarray(case.spikes, np.uint8), case.labels)
    assert text.count("triton_kernel_call") + text.count("__gpu$xla.gpu.triton") == 2 * case.net.depth


@pytest.mark.parametrize("traces", ["dense", "factored"])
def test_kernels_learn_online_as_plain_loops_do(case, traces):
    optimizer = optax.sgd(1e-3)
    states = [
        otpe.online_pass(*case[:2], optimizer.init(case.params), *case[2:], rule="deep-otpe", optimizer=optimizer,
                         traces=traces, backend=backend)
        for backend in ("plain", "interpret")
    ]  # fmt: skip
    assert relative_error(states[1][0], states[0][0]) < 1e-5
    np.testing.assert_allclose(states[1][2], states[0][2], rtol=1e-5)


def test_small_layers_are_cut_into_groups_of_samples():
    """A batch with many divisors: dense traces are computed for one group of samples at a time."""
    case = scenario((4, 3, 2), steps=3, batch=12)
    steps = (
        otpe.gradients(*case, rule="otpe", form="steps", traces="dense", backend=b) for b in ("plain", "interpret")
    )
    assert relative_error(*steps) < 1e-12


def test_every_spike_type_gives_the_same_gradient(case):
    expected = otpe.gradients(*case, backend="plain")
    for dtype, backend in ((bool, "plain"), (np.int8, "interpret"), (np.int32, "plain"), (np.float32, "interpret")):
        actual = otpe.gradients(*case[:2], case.spikes.astype(dtype), case.labels, backend=backend)
        assert actual[0].dtype == jnp.float32
        assert relative_error(actual, expected) < 1e-5


def test_counts_up_to_255_are_exact():
    case = scenario((5, 8, 4), steps=6)
    counts = np.random.default_rng(0).integers(0, 256, case.spikes.shape)
    params = jax.tree.map(lambda p: jnp.float32(p), case.params)
    params = (params[0]._replace(kernel=params[0].kernel / 64), params[1])
    spikes = [case.net.record(params, counts.astype(np.uint8), backend=b) for b in ("plain", "interpret")]
    assert all(0 < s.mean() < 1 for s in spikes[0])
    jax.tree.map(np.testing.assert_array_equal, *spikes)


@pytest.mark.parametrize(("precision", "bound"), [("tf32", 1e-2), ("bf16", 0.5)])
def test_each_precision_stays_within_its_error_bound(case, precision, bound):
    plain = otpe.gradients(*case, backend="plain")
    actual = otpe.gradients(*case, backend="interpret", precision=precision)
    assert relative_error(actual, plain) < bound
    assert relative_error(actual, plain) > 1e-7


def test_differentiating_a_network_goes_through_the_plain_engine(case):
    def total(params, backend, spikes=case.spikes):
        return case.net.run(params, spikes, backend=backend).sum()

    for spikes in (case.spikes, jnp.float32(case.spikes)):
        kernels, plain = (jax.grad(total)(case.params, b, spikes) for b in ("interpret", "plain"))
        assert relative_error(kernels, plain) == 0.0
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(kernels)) > 0


def test_many_seeds_at_once(case):
    params = jax.tree.map(lambda p: jnp.stack([p, 1.1 * p]), case.params)
    one = lambda p: otpe.gradients(case.net, p, case.spikes, case.labels, backend="interpret")  # noqa: E731
    together = jax.vmap(one)(params)
    for k in range(2):
        actual, alone = (jax.tree.map(lambda a, k=k: a[k], tree) for tree in (together, params))
        assert relative_error(actual, one(alone)) < 1e-5


def test_the_backend_follows_the_argument_then_the_environment_then_the_device(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert engine() == Engine("plain", "float32")  # the tests run on a CPU
    assert engine(params=jnp.zeros(1)).backend == "plain"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert engine().backend == "pallas"
    assert engine(params=jnp.zeros(1)).backend == "plain"  # the parameters are on the CPU
    monkeypatch.setenv(VARIABLE, "interpret")
    assert engine().backend == "interpret"
    assert engine("plain").backend == "plain"
    monkeypatch.setenv(VARIABLE, "")
    assert engine().backend == "pallas"


def test_donated_parameters_give_the_same_result(case):
    optimizer = optax.adamax(1e-2)
    copy = jax.tree.map(jnp.copy, case.params)
    retained, donated = (
        otpe.online_pass(case.net, p, optimizer.init(p), *case[2:], optimizer=optimizer, donate=d)
        for p, d in ((case.params, False), (copy, True))
    )
    assert relative_error(donated[0], retained[0]) == 0.0
    assert not case.params[0].kernel.is_deleted()
    assert copy[0].kernel.is_deleted()


def test_a_fresh_state_can_be_donated():
    case = scenario()
    form = otpe.stepper(case.net, "f-deep-otpe", batch=3)
    advance = jax.jit(form.advance, donate_argnums=1)
    state, _ = advance(case.params, form.init(3), case.spikes[0])
    advance(case.params, state, case.spikes[1])


def cuda(net, params, spikes, labels, **kwargs):
    """Return the program for a GPU. Compiling it needs no GPU."""
    run = jax.jit(lambda p: otpe.gradients(net, p, spikes, labels, backend="pallas", **kwargs))
    return run.trace(params).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.usefixtures("for_a_gpu")
@pytest.mark.parametrize("kwargs", [{}, {"rule": "f-approx-deep-otpe"}, {"form": "steps", "traces": "dense"}], ids=str)
def test_kernels_can_be_made_for_a_gpu(case, kwargs):
    """There is one kernel per layer and direction, not one per time step."""
    text = cuda(*case, **kwargs)
    assert "triton" in text
    if not kwargs:
        assert text.count("triton_kernel_call") + text.count("__gpu$xla.gpu.triton") == 2 * case.net.depth


@pytest.mark.usefixtures("for_a_gpu")
@pytest.mark.parametrize(
    "surrogate", [jax.scipy.stats.norm.pdf, lambda d: jnp.exp(-jnp.abs(d)) * jnp.arange(1.0, 3.0)[0]]
)
def test_a_surrogate_without_a_kernel_runs_a_plain_loop(case, surrogate):
    net = otpe.dense([11, 9, 7, 5], surrogate=surrogate)
    with pytest.warns(UserWarning, match="'fire' has no fused kernel, so a plain loop runs"):
        assert "stablehlo.while" in cuda(net, *case[1:])


@pytest.mark.usefixtures("for_a_gpu")
def test_16_bit_numbers_run_plain_loops_in_every_form(case):
    for dtype in (jnp.bfloat16, jnp.float16):
        params = jax.tree.map(lambda p, dtype=dtype: p.astype(dtype), case.params)
        with pytest.warns(UserWarning, match="has no fused kernel.*unsupported types"):
            cuda(case.net, params, *case[2:])
        whole = otpe.gradients(case.net, params, *case[2:], rule="deep-otpe")
        for traces in ("dense", "factored"):
            steps = otpe.gradients(case.net, params, *case[2:], rule="deep-otpe", form="steps", traces=traces)
            assert relative_error(steps[1][-1], whole[1][-1]) < 0.1


def test_a_rule_that_mixes_neurons_runs_a_plain_loop(case):
    class Centred(otpe.Bptt):
        def backward(self, carry, q, now, decay):
            carry, κ, m = super().backward(carry, q, now, decay)
            return carry, κ, m - m.mean(-1, keepdims=True)

    rule = otpe.Rule("centred", Centred(), otpe.Bptt())
    with pytest.warns(UserWarning, match="'backward' has no fused kernel.*in which neurons see each other"):
        actual = otpe.gradients(*case, rule=rule, backend="interpret")
    assert relative_error(actual, otpe.gradients(*case, rule=rule)) < 1e-5


def test_the_slope_of_a_surrogate_can_be_learned():
    case = scenario()

    def size(slope):
        net = otpe.dense([6, 8, 7, 5], leak=0.9, surrogate=lambda d: 1 / (1 + slope * jnp.abs(d)) ** 2)
        _, grads = otpe.gradients(net, *case[1:], rule="bptt")
        return sum(jnp.sum(g**2) for g in jax.tree.leaves(grads))

    by_hand = (size(5.0 + 1e-5) - size(5.0 - 1e-5)) / 2e-5
    assert abs(jax.grad(size)(5.0) / by_hand - 1) < 1e-4


@pytest.mark.usefixtures("for_a_gpu")
def test_odd_sizes_are_replaced_by_one_warp():
    """Lanes past the end repeat the last lane's work. When updating in place, they must do so at the same time."""
    from otpe import scan

    text = jax.jit(
        lambda old: scan.replace(lambda _, c, o, x: (c + o, 2 * o, None), jnp.zeros((201, 100)), old, None, backend="pallas")
    ).trace(jax.ShapeDtypeStruct((4, 201, 100), jnp.float32)).lower(lowering_platforms=("cuda",)).as_text()  # fmt: skip
    assert "num_warps = 1" in text
