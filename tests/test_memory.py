"""Sizes beyond memory are refused with a sentence before anything is made. Sizes that fit are not refused."""

import re
from dataclasses import replace

import jax
import pytest
from tiny_runs import TINY, arguments

import otpe
from otpe import cli, memory
from otpe.datasets import from_arrays, manifolds
from otpe.lab.runs import build_network, check_settings, custom, loop, task, train
from otpe.lab.settings import BenchConfig, TrainConfig
from otpe.stream import worlds
from otpe.stream.prequential import Prequential

GIB = 2**30
HUGE = 2_000_000_000
SMALL = arguments(TINY)
STUDY = arguments(replace(TINY, rule="otpe"))
STREAM = ["stream", "t-randman", "--classes", "3", "--units", "8", "--dims", "1"]
TABULATE = manifolds.tabulate
EVENTS = ["stream", "some.csv"]
NEEDS = r" would take [\d,]+\.\d GiB of memory or more, and there are 16\.0 GiB\. Make {} smaller\."

REFUSED = [
    (["train", "--batch", "1000000000"], "batch", r"batch is 1000000000, with time_steps 50 and units 50: a mini-batch of spikes"),
    (["train", "--units", str(HUGE)], "units", r"units is 2000000000, with hidden \(128, 128\) and classes 10: the weights"),
    (["train", "--hidden", "100000", "10000000"], "hidden", r"hidden is \(100000, 10000000\), with units 50 and classes 10: the weights"),
    (["train", "--seeds", str(HUGE)], "seeds", r"seeds is 2000000000, with hidden .*: the weights and the state of the optimizer"),
    (["train", "--time-steps", str(HUGE)], "time_steps", r"time_steps is 2000000000, with batch 128 and units 50"),
    (["train", "--classes", str(HUGE)], "classes", r"classes is 2000000000, with hidden .*: the weights"),
    (["train", *SMALL, "--draws", "1000000", "--seeds", "1000000", "--units", "8000"], "(seeds|draws)", r"is 1000000"),
    (["train", "--dims", str(HUGE)], "dims", r"dims is 2000000000, with units 50 and classes 10: the tables"),
    (["train", *SMALL, "--mode", "online", "--hidden", "40000", "--batch", "10000", "--standardize", "fixed"], "hidden", r"hidden is \(40000,\).*the state of otpe for each sample"),
    (["train", *SMALL, "--rule", "rtrl", "--hidden", "20000"], "hidden", r"hidden is \(20000,\).*the state of rtrl for each sample"),
    (["train", *SMALL, "--hidden", "1000000", "--batch", "1000000", "--test-samples", "900000"], "hidden", r"batch 900000.*the spikes of a layer"),
    (["train", "--dataset", "shd", "--hidden", "100000000"], "hidden", r"hidden is \(100000000,\), with units 700"),
    (["compare", "--batch", "1000000000"], "batch", r"batch is 1000000000"),
    (["compare", *STUDY[2:], "--rules", "bptt", "--hidden", "100000", "10000000"], "hidden", r"hidden is \(100000, 10000000\)"),
    (["align", "--seeds", str(HUGE)], "seeds", r"seeds is 2000000000"),
    (["landscape", "--time-steps", str(HUGE)], "time_steps", r"time_steps is 2000000000"),
    (["landscape", "--grid", "1000000"], "grid", r"grid is 1000000: the points of the plane"),
    (["landscape", *STUDY[2:], "--valid-samples", str(HUGE), "--loss-samples", str(HUGE)], "loss_samples", r"loss_samples is 2000000000"),
    (["landscape", "--steps", str(HUGE), "--snapshots", "1"], "steps / snapshots", r"steps / snapshots is 2000000001, with hidden"),
    (["sweep", "--over", "batch=16,1000000000"], "batch", r"batch is 1000000000"),
    (["sweep", "--over", "width=128,1000000000"], "hidden", r"hidden is \(1000000000, 1000000000\)"),
    ([*STREAM, "--hidden", "100000", "10000000"], "hidden", r"hidden is \(100000, 10000000\), with units 8 and classes 3: what the learner remembers"),
    (["stream", "t-randman", "--units", str(HUGE)], "units", r"units is 2000000000, with classes 10: the tables"),
    ([*STREAM, "--time-steps", str(HUGE)], "time_steps", r"time_steps is 2000000000, with block 64 and units 8: the samples that are drawn"),
    ([*EVENTS, "--units", "8", "--classes", str(HUGE)], "classes", r"classes is 2000000000, with hidden \(128, 128\) and units 8"),
]  # fmt: skip


@pytest.fixture
def nothing_is_made(monkeypatch, tmp_path):
    """Simulate 16 GiB of memory. Making manifold tables, weights, programs or files fails the test."""
    monkeypatch.chdir(tmp_path)
    for name in ("host", "device"):
        monkeypatch.setattr(memory, name, lambda: 16.0 * GIB)
    (tmp_path / "some.csv").write_text("0.1,1,1\n")
    for name in ("start", "advance", "score"):
        monkeypatch.setattr(loop, name, lambda *_: pytest.fail("computed something"))
    monkeypatch.setattr(manifolds, "tabulate", lambda *_: pytest.fail("made a table"))
    monkeypatch.setattr("otpe.stream.learner.start", lambda *_: pytest.fail("made a learner"))
    yield
    assert [path.name for path in tmp_path.iterdir()] == ["some.csv"]


@pytest.mark.usefixtures("nothing_is_made")
@pytest.mark.parametrize(("args", "first", "message"), REFUSED, ids=[" ".join(args)[:60] for args, _, _ in REFUSED])
def test_sizes_beyond_memory_are_refused_by_the_command(args, first, message, monkeypatch, capsys):
    if args[: len(STREAM)] == STREAM:  # small tables are allowed
        monkeypatch.setattr(manifolds, "tabulate", TABULATE)
    assert cli.main(args) == 2
    output = capsys.readouterr().err
    assert re.fullmatch(rf"otpe: .*{message}.*{NEEDS.format(first)}\n", output), output


@pytest.mark.usefixtures("nothing_is_made")
@pytest.mark.parametrize("name", ["batch", "seeds", "units", "classes", "time_steps", "dims", "steps", "hidden"])
def test_sizes_of_10_to_the_30_are_refused(name, tmp_path):
    value = (10**30,) if name == "hidden" else 10**30
    with pytest.raises(ValueError, match=rf"{name} is 10{{30}}, expected "):
        otpe.train(replace(TINY, out=tmp_path / "new", **{name: value}))


@pytest.mark.usefixtures("nothing_is_made")
def test_sizes_beyond_memory_are_refused_from_python(tmp_path):
    sentence = (
        r"batch is 1000000000, with units 8 and time_steps 6: a mini-batch of spikes, with the weights, would take 44.7"
    )
    with pytest.raises(ValueError, match=sentence):
        otpe.train(replace(TINY, out=tmp_path / "new", batch=10**9))
    with pytest.raises(ValueError, match=r"seeds is 1000000000.*: the weights and the state"):
        otpe.train(replace(TINY, out=tmp_path / "new", seeds=10**9), net=otpe.dense([8, 6, 3]))
    with pytest.raises(
        ValueError, match=r"units is 2000000000, with classes 10 and dims 3: the tables of the manifolds"
    ):
        otpe.datasets.randman(units=HUGE)
    with pytest.raises(ValueError, match=r"draws is 1000000000, .*: the tables of the manifolds, with random points"):
        otpe.datasets.randman(units=1, seed=range(10**9))
    with pytest.raises(
        ValueError, match=r"hidden is \(100000, 10000000\), with units 8 and classes 3: what the learner"
    ):
        otpe.StreamLearner(otpe.dense([8, 100_000, 10_000_000, 3]))
    with pytest.raises(ValueError, match=r"window is 1000000000000, with classes 3: a score would take"):
        Prequential(3, window=10**12)
    data = from_arrays([[[1]]] * 3, [0])
    with pytest.raises(ValueError, match=r"block is 10{15}, with time_steps 3: the samples that are drawn at once"):
        worlds.samples(data, block=10**15)


def test_a_benchmark_without_a_point_that_fits_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("otpe.lab.bench.points.build", lambda *_: pytest.fail("compiled something"))
    huge = ["--base-batch", str(HUGE), "--batches", "1000000000", "--widths", "64"]
    assert cli.main(["bench", *huge, "--max-gb", "1e9"]) == 2
    output = capsys.readouterr().err
    assert re.search(r"nothing can be measured: the smallest point, offline .*, needs .* GB of memory or more, but --max-gb is 1e\+09, and the machine", output)  # fmt: skip
    assert not list(tmp_path.iterdir())
    assert cli.main(["bench", "--widths", str(10**30)]) == 2
    assert "width is 1000000000000000000000000000000, expected a whole number above 0, 2,147,483,647 at most" in capsys.readouterr().err  # fmt: skip


def test_points_that_are_too_large_are_left_out_before_they_are_compiled(monkeypatch):
    from otpe.lab.bench import bench, points

    monkeypatch.setattr("otpe.lab.bench.points.build", lambda *_: pytest.fail("compiled something"))
    monkeypatch.setattr("otpe.lab.bench.points.state", lambda *_: pytest.fail("looked closer"))
    config = BenchConfig(rules=("otpe",), widths=(HUGE,), steps=(), batches=(), depths=())
    measured = {"points": [], "left_out": []}
    bench.race(points.heats(points.checked(config))[0], config, measured)
    assert re.match(r"needs .* GB, more than --max-gb 1$", measured["left_out"][0]["why"])


def test_a_summary_of_data_beyond_memory_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "host", lambda: 1000)
    args = ["data", "t-randman"]
    monkeypatch.setattr(
        "otpe.lab.explore.reading.read", lambda _: [type("Split", (), {"units": 50, "events": Named()})]
    )
    assert cli.main(args) == 2
    assert "units is 50, with classes 10: the means of each unit in each class would take" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


class Named:
    names = ("a",) * 10


@pytest.mark.parametrize(
    ("change", "seeds"),
    [({}, 3), ({"mode": "online"}, 1), ({"mode": "online", "traces": "factored"}, 1), ({"rule": "rtrl"}, 2)],
    ids=["offline", "online", "factored", "rtrl"],
)
def test_counted_bytes_are_less_than_the_compiler_plans(change, seeds, monkeypatch):
    """The compiler plans more memory than our count: the count never refuses what would fit."""
    config = replace(TINY, hidden=(32,), batch=64, time_steps=40, seeds=seeds, valid_samples=64, **change)
    counted = []
    monkeypatch.setattr(memory, "check_fits", lambda what, needed, *_: counted.append(needed))
    rule = check_settings.checked(config)
    splits = task.loaded(config, custom.NONE, lambda shape: train.check_size(config, rule, shape))
    net = build_network.network(config, splits.train.units, 3)
    evaluation_set = loop.EvaluationSet(0, 1, config.batch)
    recipe = train._recipe(config, rule, net, evaluation_set)
    networks = train._networks(config, splits)
    state = jax.eval_shape(lambda: loop.start(recipe, networks.seed))
    numbers = loop.Numbers(4, 8, 0.1)
    program = loop.advance.lower(recipe, splits.train, splits.valid, networks, state, 1, numbers).compile()
    plan = program.memory_analysis()
    planned = plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes
    needed = planned - memory.size(splits.train)
    assert needed / 10 < max(counted[2:]) <= needed, "without the tables, which are counted separately"


def test_a_finished_run_is_read_on_a_smaller_machine(tmp_path, monkeypatch):
    config = replace(TINY, out=tmp_path / "run", hidden=(64,), steps=4)
    otpe.train(config)
    monkeypatch.setattr(task, "check_memory", lambda *_: pytest.fail("counted"))
    assert otpe.train(replace(config, resume=True)).steps == 4


def test_available_memory_is_read_from_the_system_or_the_device(monkeypatch, tmp_path):
    assert 0 < memory.host() == memory.device(), "on a CPU"

    class Gpu:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 3 * GIB}

    monkeypatch.setattr(jax, "devices", lambda *_: [Gpu()])
    assert memory.device() == 3 * GIB
    monkeypatch.setattr(Gpu, "memory_stats", lambda _: None)
    assert memory.device() == memory.host(), "if the device does not report its memory"


def test_a_control_group_limits_the_available_memory(monkeypatch, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "memory" / "a").mkdir(parents=True)
    (tmp_path / "group").write_text("4:memory:/a\n3:cpu,cpuacct:/\n0::/a/b\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("5000\n")
    (tmp_path / "a" / "b" / "memory.max").write_text("7000\n")
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9000\n")
    places = {"/proc/self/cgroup": tmp_path / "group", "/sys/fs/cgroup": tmp_path}
    monkeypatch.setattr(memory, "Path", lambda place: places.get(place, tmp_path / "none"))
    assert sorted(memory._limits()) == [5000, 7000, 9000]
    memory.host.cache_clear()
    assert memory.host() == 5000
    memory.host.cache_clear()


def test_running_out_of_memory_gives_a_sentence(monkeypatch, capsys):
    error = type("JaxRuntimeError", (RuntimeError,), {})("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.\nmore")
    for raised, message in ((error, ": RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), (MemoryError(), "")):
        job = lambda *_, raised=raised: (_ for _ in ()).throw(raised)  # noqa: E731
        monkeypatch.setattr(cli, "prepare", lambda *_, job=job: job)
        assert cli.main(["train"]) == 1
        output = capsys.readouterr().err
        assert output == f"otpe: there is too little memory{message}. Use smaller settings.\n"


def test_the_shape_of_missing_data_is_taken_from_the_settings():
    assert task.expected_shape(TINY)[:3] == (6, 8, 3)
    assert task.expected_shape(TrainConfig(dataset="shd", bins=20, pool=10))[:3] == (20, 70, 1)
    assert task.expected_shape(TrainConfig(dataset="folder", units=12, dt=0.1))[:3] == (1, 12, 1)
