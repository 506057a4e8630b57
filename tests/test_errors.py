"""Bad input is refused with a sentence: what was given, what was expected, and the fix. One row per message."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe

NET = otpe.dense([4, 6, 3])
PARAMS = NET.init(jax.random.key(0))
SPIKES = np.zeros((5, 2, 4))
LABELS = np.array([0, 2])
NAN = SPIKES.copy()
NAN[3, 1, 2] = np.nan


def grads(spikes=SPIKES, labels=LABELS, params=PARAMS, **kwargs):
    return otpe.gradients(NET, params, spikes, labels, **kwargs)


def online(params=PARAMS, opt_state=None, rule="otpe", optimizer=optax.sgd(0.1), **kwargs):
    opt_state = optimizer.init(PARAMS) if opt_state is None else opt_state
    return otpe.online_pass(NET, params, opt_state, SPIKES, LABELS, rule=rule, optimizer=optimizer, **kwargs)


def step(rule, x, labels=LABELS, made_by=None, dtype="float64"):
    form = otpe.stepper(NET, rule)
    state = otpe.stepper(NET, made_by or rule).init(2, dtype)
    state, info = form.advance(PARAMS, state, x)
    return form.emit(PARAMS, state, info, labels)


class PerStepOnly:
    trace, order, stage_leak, averages = "input", 0, "plain", False
    init, advance, emit = otpe.Ottt.init, otpe.Ottt.advance, otpe.Ottt.emit


class PerWeightOnly:
    trace, order, stage_leak, averages = "weight", 0, "plain", False
    init, advance, emit = otpe.Ostl.init, otpe.Ostl.advance, otpe.Ostl.emit


PER_STEP = otpe.Rule("steps", PerWeightOnly(), PerWeightOnly())


def surrogate(function):
    net = otpe.dense([4, 3], surrogate=function)
    return otpe.gradients(net, net.init(jax.random.key(0)), SPIKES, LABELS)


MESSAGES = [
    # spikes
    (lambda: grads(SPIKES[:, 0]), ValueError, r"shape \[5, 4\], expected \[time, batch, 4\].*spikes\[:, None\]"),
    (lambda: grads(SPIKES[None]), ValueError, r"shape \[1, 5, 2, 4\], expected \[time, batch, 4\]"),
    (lambda: grads(SPIKES.swapaxes(0, 1)), ValueError, r"\[2, 5, 4\] and there are 2 labels.*batch-major.*swapaxes\(0, 1\)"),
    (lambda: grads(np.zeros((5, 2, 7))), ValueError, r"\[5, 2, 7\], expected \[time, batch, 4\]: the network has \[4\] inputs"),
    (lambda: grads(np.zeros((5, 4, 2))), ValueError, r"Axis 1 has that size: use np.moveaxis\(spikes, 1, -1\)"),
    (lambda: grads(np.zeros((0, 2, 4))), ValueError, r"\[0, 2, 4\]: there are no time steps"),
    (lambda: grads(np.zeros((5, 0, 4)), np.zeros(0, int)), ValueError, r"\[5, 0, 4\]: there are no samples"),
    (lambda: grads(NAN), ValueError, r"spikes hold nan at \[3, 1, 2\] as float64 \(1 values.*nan_to_num"),
    (lambda: grads(jnp.asarray(NAN)), ValueError, r"spikes hold nan at \[3, 1, 2\]"),
    (lambda: grads(SPIKES + np.inf), ValueError, r"spikes hold inf at \[0, 0, 0\] as float64 \(40 values"),
    (lambda: grads(SPIKES.astype(complex)), TypeError, r"spikes are of type complex128, expected an array of real numbers"),
    (lambda: grads(SPIKES.astype(str)), TypeError, r"spikes are of type <U.*, expected an array of real numbers"),
    (lambda: NET.run(PARAMS, NAN), ValueError, r"spikes hold nan"),
    (lambda: NET.step(PARAMS, NET.start(2), SPIKES), ValueError, r"one time step have the shape \[5, 2, 4\], expected \[2, 4\]"),
    (lambda: NET.step(PARAMS, NET.start(2), NAN[3]), ValueError, r"spikes hold nan at \[1, 2\]"),
    # labels
    (lambda: grads(labels=[0, 3]), ValueError, r"labels run from 0 to 3, expected 0 to 2: there are 3 outputs"),
    (lambda: grads(labels=[-1, 1]), ValueError, r"labels run from -1 to 1, expected 0 to 2"),
    (lambda: grads(labels=[0.0, 1.0]), TypeError, r"labels are of type float64, expected whole numbers.*astype\(int\)"),
    (lambda: grads(labels=np.eye(3)[:2]), TypeError, r"labels are of type float64.*one-hot labels use labels.argmax\(-1\)"),
    (lambda: grads(labels=[0, 1, 2]), ValueError, r"labels have the shape \[3\], expected \[2\]: one label per sample"),
    (lambda: grads(labels=1), ValueError, r"labels have the shape \[\], expected \[2\]"),
    (lambda: grads(labels=np.eye(3, dtype=int)[:2]), ValueError, r"shape \[2, 3\], expected \[2\].*one-hot labels use labels.argmax"),
    (lambda: grads(labels=[[0], [1, 2]]), ValueError, r"labels are a list whose rows differ in length.*pad them"),
    (lambda: grads(labels=None), TypeError, r"labels are of type object, expected an array of real numbers"),
    (lambda: otpe.accuracy(SPIKES, [[0], [1]]), ValueError, r"labels have the shape \[2, 1\], expected \[2\]"),
    (lambda: otpe.predict(SPIKES[0]), ValueError, r"spikes have the shape \[2, 4\], expected \[time, batch, classes\]"),
    # network
    (lambda: otpe.gradients(PARAMS, NET, SPIKES, LABELS), TypeError, r"net is a tuple, expected a network such as otpe.dense"),
    (lambda: otpe.stepper(None), TypeError, r"net is a NoneType, expected a network"),
    (lambda: otpe.dense(5), ValueError, r"sizes is 5, expected at least two whole numbers"),
    (lambda: otpe.dense("43"), ValueError, r"sizes is '43', expected at least two whole numbers"),
    (lambda: NET.init(0), TypeError, r"key is 0, expected a random key such as jax.random.key\(0\)"),
    (lambda: NET.init(jax.random.key(0), int), TypeError, r"dtype is <class 'int'>, expected a floating-point type"),
    (lambda: NET.init(jax.random.key(0), "flot32"), TypeError, r"dtype is 'flot32', expected a floating-point type"),
    (lambda: NET.step(PARAMS, None, SPIKES[0]), ValueError, r"wrong structure, shapes or types, expected net.start\(batch, 'float64'\)"),
    (lambda: NET.step(PARAMS, NET.start(2, "float32"), SPIKES[0]), ValueError, r"expected net.start\(batch, 'float64'\)"),
    (lambda: otpe.Network(NET.layers, NET.neurons[:1]), ValueError, r"2 layers and 1 populations of neurons, expected the same number of both"),
    (lambda: otpe.Network(NET.layers[::-1], NET.neurons), ValueError, r"layer 0 gives \(3,\) and layer 1 takes \(4,\)"),
    (lambda: otpe.dense([4, 3], surrogate=otpe.fast_sigmoid), TypeError, r"surrogate is <class.*expected a function"),
    (lambda: otpe.fast_sigmoid(True), ValueError, r"slope is True, expected a finite number above 0"),
    (lambda: otpe.superspike(scaled=3), TypeError, r"superspike: scaled is 3, expected True or False"),
    (lambda: surrogate(lambda d: d.sum()), ValueError, r"surrogate returned the shape \(\) for \(1,\), expected one number per"),
    (lambda: otpe.dense([4, 3], leak=1.0), ValueError, r"leak is 1.0, expected a number in \[0, 1\).*exp\(−1/τ\)"),
    (lambda: otpe.dense([4, 3], leak=-0.1), ValueError, r"leak is -0.1, expected a number in \[0, 1\)"),
    (lambda: otpe.dense([4, 3], leak=float("nan")), ValueError, r"leak is nan, expected a number in \[0, 1\)"),
    (lambda: otpe.dense([4, 3], leak="0.9"), ValueError, r"leak is '0.9', expected a number in \[0, 1\)"),
    (lambda: otpe.dense([4, 5, 3], leak=[0.9]), ValueError, r"leak has 1 entries, expected 2.*one per layer"),
    (lambda: otpe.dense([4, 3], threshold=0), ValueError, r"threshold is 0, expected a finite number above 0"),
    (lambda: otpe.dense([4, 3], threshold=-1.0), ValueError, r"threshold is -1.0, expected"),
    (lambda: otpe.dense([4, 3], reset="hard"), ValueError, r"reset is 'hard', expected one of 'subtract', 'zero', 'none'"),
    (lambda: otpe.dense([4, 3], surrogate=25.0), TypeError, r"surrogate is 25.0, expected a function.*fast_sigmoid"),
    (lambda: otpe.dense([4]), ValueError, r"sizes is \[4\], expected at least two whole numbers"),
    (lambda: otpe.dense([4, 0, 3]), ValueError, r"sizes is \[4, 0, 3\], expected"),
    (lambda: otpe.dense([4, 2.5, 3]), ValueError, r"sizes is \[4, 2.5, 3\], expected"),
    (lambda: otpe.fast_sigmoid(0.0), ValueError, r"fast_sigmoid: slope is 0.0, expected a finite number above 0"),
    (lambda: otpe.triangular(width=-1.0), ValueError, r"triangular: width is -1.0, expected"),
    # rules
    (lambda: grads(rule=otpe.Otpe()), TypeError, r"which is for one layer, expected a name or a composition: otpe.Rule\("),
    (lambda: grads(traces="sparse"), ValueError, r"traces 'sparse' is not known"),
    (lambda: otpe.alignment(NET, PARAMS, SPIKES, LABELS, rules=("otpe", "otpe")), ValueError, r"expected different names"),
    (lambda: otpe.online_pass(NET, PARAMS, (), SPIKES, LABELS, optimizer=None), TypeError, r"optimizer is None, expected an optax"),
    (lambda: otpe.online_pass(NET, PARAMS, (), SPIKES, LABELS, optimizer=optax.adam), TypeError, r"optimizer is <function adam"),
    (lambda: step("otpe", SPIKES[0], made_by="ostl"), ValueError, r"expected what init\(batch, 'float64'\) of this stepper"),
    (lambda: step("otpe", SPIKES[0], dtype="float32"), ValueError, r"expected what init\(batch, 'float64'\) of this stepper"),
    (lambda: step("rtrl", SPIKES[0], made_by="otpe"), ValueError, r"expected what init\(batch, 'float64'\) of this stepper"),
    (lambda: grads(rule="otp"), ValueError, r"rule 'otp' is not known. Did you mean 'otpe'\? Expected one of: 'bptt', 'rtrl'"),
    (lambda: grads(rule="approx_deep_otpe"), ValueError, r"Did you mean 'approx-deep-otpe'\?"),
    (lambda: grads(rule="OSTL"), ValueError, r"Did you mean 'ostl'\?"),
    (lambda: grads(rule="zzz"), ValueError, r"rule 'zzz' is not known. Expected one of"),
    (lambda: otpe.rule("bptt", readout="sum"), ValueError, r"readout 'sum' is not known.*'spikes', 'leaky'"),
    (lambda: grads(rule="bptt", form="steps"), ValueError, r"rule 'bptt' has no form 'steps', only 'whole'. Use form='whole'"),
    (lambda: grads(rule="rtrl", form="whole"), ValueError, r"rule 'rtrl' has no form 'whole', only 'steps'"),
    (lambda: grads(form="step"), ValueError, r"form 'step' is not known. Did you mean 'steps'\?"),
    (lambda: online(rule="bptt"), ValueError, r"'bptt' has no per-step form: it needs the whole sequence.*'rtrl'"),
    (lambda: online(traces="sparse"), ValueError, r"traces 'sparse' is not known.*'auto', 'dense', 'factored'"),
    (lambda: grads(rule=None), ValueError, r"rule None is not known. Expected one of"),
    (lambda: otpe.Otpe(order=-1), ValueError, r"order is -1, expected a whole number from 0 on, or 'depth'"),
    (lambda: otpe.Approx(order="deep"), ValueError, r"order is 'deep', expected a whole number from 0 on, or 'depth'"),
    (lambda: otpe.Otpe(stage_leak="mean"), ValueError, r"stage_leak 'mean' is not known. Did you mean 'mean-reset'\?"),
    (lambda: otpe.Rule("x", "otpe", otpe.Ostl()), TypeError, r"hidden is 'otpe', expected a local rule such as otpe.Otpe\(\)"),
    (lambda: otpe.Rule("x", otpe.Otpe(), otpe.Ostl), TypeError, r"output is <class .*Ostl.*>, expected a local rule"),
    (lambda: otpe.Rule("x", otpe.Rtrl(), otpe.Ostl()), ValueError, r"sees the whole network cannot be combined with a local one"),
    (lambda: otpe.Rule("x", PerStepOnly(), otpe.Bptt()), ValueError, r"only a per-step form, the other only a whole-sequence form"),
    (lambda: otpe.Rule("x", otpe.Ostl(), otpe.Ostl(), readout="o"), ValueError, r"readout 'o' is not known"),
    (lambda: otpe.stepper(NET, "otpe", batch=0), ValueError, r"batch is 0, expected a whole number above 0"),
    (lambda: otpe.stepper(NET, "otpe", steps=0), ValueError, r"steps is 0, expected a whole number above 0"),
    (lambda: NET.start(0), ValueError, r"batch is 0, expected a whole number above 0"),
    (lambda: step("otpe", SPIKES), ValueError, r"one time step have the shape \[5, 2, 4\], expected \[2, 4\]"),
    (lambda: step("rtrl", SPIKES[0, :, :3]), ValueError, r"one time step have the shape \[2, 3\], expected \[2, 4\]"),
    (lambda: step("otpe", NAN[3]), ValueError, r"spikes hold nan at \[1, 2\]"),
    (lambda: step("otpe", SPIKES[0], labels=[0, 3]), ValueError, r"labels run from 0 to 3, expected 0 to 2"),
    (lambda: step("rtrl", SPIKES[0], labels=[0]), ValueError, r"labels have the shape \[1\], expected \[2\]"),
    # the engine
    (lambda: grads(chunk=0), ValueError, r"chunk is 0, expected a whole number above 0"),
    (lambda: grads(backend="cuda"), ValueError, r"backend 'cuda' is not known. Expected one of: 'auto', 'plain', 'pallas', 'interpret'"),
    (lambda: grads(precision="fp32"), ValueError, r"precision 'fp32' is not known. Did you mean 'tf32'\? Expected one of: 'float32'"),
    (lambda: online(backend="triton"), ValueError, r"backend 'triton' is not known"),
    (lambda: NET.run(PARAMS, SPIKES, precision=16), ValueError, r"precision 16 is not known"),
    (lambda: otpe.stepper(NET, "otpe", precision="high"), ValueError, r"precision 'high' is not known"),
    (lambda: otpe.stepper(NET, PER_STEP, traces="factored"), ValueError, r"rule 'steps' has no whole-sequence form, which factored traces need"),
    (lambda: otpe.stepper(NET, "rtrl", backend="x"), ValueError, r"backend 'x' is not known"),
    (lambda: grads(form="steps", chunk=3), ValueError, r"chunk is 3, but form='steps' stores no sequence that could be cut"),
    (lambda: online(donate="no"), TypeError, r"donate is 'no', expected True or False"),
    (lambda: otpe.stepper(NET, "otpe", narrow=1), TypeError, r"narrow is 1, expected True or False"),
    # parameters
    (lambda: grads(params=PARAMS[:1]), ValueError, r"params has 1 entries, expected a tuple of 2, one per layer. net.init"),
    (lambda: grads(params={"kernel": 1}), ValueError, r"params has the type dict, expected a tuple of 2"),
    (lambda: grads(params=PARAMS[::-1]), ValueError, r"params\[0\] is Dense\(kernel=\[6, 3\].*expected Dense\(kernel=\[4, 6\]"),
    (lambda: grads(params=tuple(tuple(p) for p in PARAMS)), ValueError, r"(?s)params\[0\] is \(Array.*, expected Dense\(kernel=\[4, 6\]"),
    (lambda: grads(params=jax.tree.map(jnp.int32, PARAMS)), ValueError, r"params\[0\] is Dense\(kernel=\[4, 6\] int32"),
    (
        lambda: grads(params=(jax.tree.map(jnp.float32, PARAMS[0]), PARAMS[1])),
        ValueError,
        r"params mix the types \['float32', 'float64'\], expected one type",
    ),
    (lambda: online(opt_state=optax.adam(0.1).init(PARAMS)), ValueError, r"the state has the wrong structure, shapes or types, expected opt_state from optimizer.init"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), MESSAGES, ids=[row[2][:40] for row in MESSAGES])
def test_the_error_message(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_shapes_are_checked_inside_jit_and_values_are_not():
    def loss(spikes, labels):
        return otpe.gradients(NET, PARAMS, spikes, labels)[0]

    with pytest.raises(ValueError, match="batch-major"):
        jax.jit(loss)(SPIKES.swapaxes(0, 1), LABELS)
    assert jax.jit(loss)(NAN, LABELS).shape == ()


def test_a_number_too_large_for_the_parameters_is_not_finite():
    params = jax.tree.map(jnp.float32, PARAMS)
    with pytest.raises(ValueError, match=r"spikes hold inf at \[0, 0, 0\] as float32"):
        grads(SPIKES + 1e300, params=params)


def test_a_constant_inside_jit_is_still_checked():
    constant = jnp.asarray(NAN)
    with pytest.raises(ValueError, match="spikes hold nan"):
        jax.jit(lambda params: otpe.gradients(NET, params, constant, LABELS)[0])(PARAMS)


def test_a_backend_from_the_environment_is_checked(monkeypatch):
    monkeypatch.setenv("OTPE_BACKEND", "gpu")
    with pytest.raises(ValueError, match=r"from the environment variable OTPE_BACKEND\) 'gpu' is not known"):
        grads()


def test_a_rule_without_a_backward_form_learns_with_dense_traces():
    assert [type(t).__name__ for t in otpe.stepper(NET, PER_STEP, batch=128, steps=1).traces] == ["WeightTraces"] * 2
