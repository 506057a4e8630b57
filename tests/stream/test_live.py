"""The content of the live page, compared with the blocks that were passed; its memory does not grow."""

import json
import sys
import threading
import time

import numpy as np
import pytest
from made_up_blocks import block, feed

from otpe.stream.page import live_state
from otpe.stream.page.live_state import Live
from otpe.stream.prequential import Prequential

SIZES = (6, 4, 3)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def as_json(live):
    return json.loads(json.dumps(live.now(), allow_nan=False))


def test_before_the_first_step():
    now = as_json(Live(SIZES, title="a <b>", learner_bytes=12))
    assert (now["state"], now["why"], now["title"], now["learner"]) == ("waiting", None, "a <b>", 12)
    assert now["classes"] == ["0", "1", "2"]
    assert now["score"] == {"steps": 0, "labelled": 0, "window": None, "accuracy": None, "recent": None}
    assert now["curve"] == [[], [], []]
    assert now["latency"] is None
    assert [now["raster"][part] for part in ("inputs", "labels", "resets")] == [[], [], []]
    assert now["rates"] == [["input", 6, 0], ["hidden 1", 4, 0], ["output", 3, 0]]


def test_the_page_has_the_last_steps():
    live, score, blocks, taken = Live(SIZES, steps=20), Prequential(3), [], 0
    for size in (1, 5, 33, 2, 20, 1):
        blocks.append(block(size, first=taken))
        taken += size
        feed(live, score, blocks[-1])
    steps = [step for each in blocks for step in each.steps][42:]
    raster = as_json(live)["raster"]
    assert (raster["length"], raster["every"]) == (20, 1)
    assert raster["inputs"] == [np.flatnonzero(step.x).tolist() for step in steps]
    assert raster["labels"] == [step.label for step in steps]
    assert raster["resets"] == [i for i, step in enumerate(steps) if step.reset]
    assert raster["predicted"] == np.concatenate([each.predicted for each in blocks])[42:].tolist()
    spikes = np.concatenate([each.learned.spikes for each in blocks])[42:]
    assert raster["outputs"] == [np.flatnonzero(row).tolist() for row in spikes]
    shares = [np.mean([np.mean(step.x > 0) for each in blocks for step in each.steps][-20:])]
    shares += np.concatenate([each.learned.rates for each in blocks])[-20:].mean(0).tolist()
    assert [rate for _, _, rate in as_json(live)["rates"]] == pytest.approx(shares, abs=1e-4)


def test_rates_of_few_steps_are_means_of_these_steps():
    live, steps = Live(SIZES, steps=20), block(4)
    feed(live, Prequential(3), steps)
    assert live.now()["rates"][1][2] == pytest.approx(steps.learned.rates.mean(0)[0], abs=1e-4)


def test_only_every_fourth_of_many_units_is_shown():
    live, steps = Live((700, 3), steps=5), block(5, sizes=(700, 3))
    feed(live, Prequential(3), steps)
    now = as_json(live)
    assert (now["raster"]["units"], now["raster"]["every"]) == (700, 4)
    assert now["raster"]["inputs"] == [[u // 4 for u in np.flatnonzero(step.x) if u % 4 == 0] for step in steps.steps]
    assert now["rates"][0][2] == pytest.approx(np.mean([step.x > 0 for step in steps.steps]), abs=1e-4), (
        "over all units"
    )


def test_accuracy_is_that_of_the_score():
    clock = Clock()
    live, score = Live(SIZES, clock=clock), Prequential(3, window=50, points=2000)
    for i in range(40):
        feed(live, score, block(100, first=i, right=i / 40))
        clock.now += 0.3
    now = as_json(live)
    assert now["score"] == {
        "steps": 4000,
        "labelled": 4000,
        "window": 50,
        "accuracy": round(score.accuracy, 4),
        "recent": round(score.window_accuracy, 4),
    }
    steps, accuracy, recent = now["curve"]
    assert 250 < len(steps) <= 500
    assert steps == sorted(set(steps))
    known = {s: (round(a, 4), round(w, 4)) for s, _, a, w in zip(*map(np.ndarray.tolist, score.curve), strict=True)}
    assert all(known[s] == (a, w) for s, a, w in zip(steps, accuracy, recent, strict=True))
    assert steps[-1] == 4000


def test_the_curve_always_ends_at_the_current_step():
    live, score = Live(SIZES, clock=Clock()), Prequential(3)
    feed(live, score, block(10, labelled=0.0))
    assert as_json(live)["curve"] == [[], [], []], "without labels there is no accuracy"
    feed(live, score, block(10, right=1.0))
    feed(live, score, block(10, right=0.0, first=1))
    now = as_json(live)
    assert [part[-2:] for part in now["curve"]] == [
        [20, 30],
        [1.0, now["score"]["accuracy"]],
        [1.0, now["score"]["recent"]],
    ]
    live.end()
    assert as_json(live)["curve"][0] == score.curve.steps.tolist()


@pytest.mark.parametrize(("window", "needed"), [(50, 50), (1000, 100), (5000, 500)])
def test_the_curve_begins_when_the_window_has_enough_labels(window, needed):
    clock = Clock()
    live, score = Live(SIZES, clock=clock), Prequential(3, window=window)
    assert as_json(live)["sliding"] == {"labels": 0, "needed": None, "from": None, "span": None}
    feed(live, score, block(7, labelled=0.0))
    clock.now += 1
    feed(live, score, block(needed - 1))
    assert as_json(live)["sliding"] == {"labels": needed - 1, "needed": needed, "from": None, "span": window}
    clock.now += 1
    feed(live, score, block(3 * window))
    first = int(score.curve.steps[score.curve.labelled >= needed][0])
    assert as_json(live)["sliding"] == {"labels": window, "needed": needed, "from": first, "span": window}
    assert 7 + needed <= first <= 15 + needed, "a long curve has every eighth label"


def test_a_curve_of_sequences_with_one_label_each_spans_100_of_them():
    clock, rng = Clock(), np.random.default_rng(0)
    live, score, right = Live(SIZES, clock=clock), Prequential(3, window=100), []
    for i in range(300):
        one = block(50)
        label = int(rng.integers(3))
        right.append(rng.random() < 0.7)
        steps = [step._replace(label=label, reset=t == 0) for t, step in enumerate(one.steps)]
        score.reset()
        feed(live, score, one._replace(steps=steps, predicted=np.full(50, label if right[-1] else -1)))
        clock.now += 1
        if i == 50:
            assert as_json(live)["sliding"]["from"] is None, "50 sequences are too few"
    live.end()
    now = as_json(live)
    assert now["sliding"]["span"] == pytest.approx(5000, rel=0.01)
    assert now["sliding"]["from"] == pytest.approx(5000, rel=0.02)
    steps, _, recent = now["curve"]
    for place in (200, 300, 400, -1):
        at = steps[place] // 50
        assert recent[place] == pytest.approx(np.mean(right[max(0, at - 100) : at]), abs=0.03)
    assert now["score"]["recent"] == round(score.window_accuracy, 4)


def test_accuracy_of_sequences_and_confusions():
    clock = Clock()
    live, score = Live(SIZES, clock=clock), Prequential(3, window=4)
    assert as_json(live)["sequences"] == {"all": 0, "accuracy": None, "window": 0, "recent": None}
    assert as_json(live)["confusions"] == {"labels": 0, "rows": []}
    for right in (True, True, False, False, False, True):
        score.add_many([1, 2 if right else -1], [1, 2])
        score.reset()
    feed(live, score, block(1, labelled=0.0))
    now = as_json(live)
    assert now["sequences"] == {"all": 6, "accuracy": 0.5, "window": 4, "recent": 0.25}
    assert now["confusions"] == {"labels": 4, "rows": [[2, -1, 1]]}
    assert now["chance"] == pytest.approx(1 / 3, abs=1e-4)


class Slow(Prequential):
    """Needs 50 ms to list its confusions, as if its window were large."""

    listed = 0

    def confusions(self, most=10):
        self.listed += 1
        time.sleep(0.05)
        return super().confusions(most)


def test_confusions_take_a_small_share_of_the_learners_time():
    clock = Clock()
    live, score = Live(SIZES, clock=clock), Slow(3)
    for _ in range(45):
        clock.now += 0.1
        feed(live, score, block(2))
    assert score.listed == 1, "0.05 s are 1 % of 5 s"
    live.end()
    assert score.listed == 2, "the end is exact"


def test_changes_are_marked_with_their_name_and_step():
    live = Live(SIZES, changes=[(900, "die 0.3"), (50, "swap 0,1")])
    assert as_json(live)["changes"] == [[50, "swap 0,1"], [900, "die 0.3"]]
    assert as_json(Live(SIZES))["changes"] == []


def test_the_page_has_speed_latency_and_the_end():
    clock = Clock()
    live, score = Live(SIZES, clock=clock), Prequential(3)
    for i in range(200):
        clock.now += 0.1
        feed(live, score, block(4, first=i), seconds=0.004 * (i + 1))
    now = as_json(live)
    assert (now["state"], now["seconds"], now["idle"]) == ("running", 20.0, 0.0)
    assert now["speed"] == pytest.approx(40.0, rel=0.01)
    ms = now["latency"]
    assert (ms["p50"], ms["worst"], ms["blocks"]) == (pytest.approx(0.1005), pytest.approx(0.2), 200)
    assert ms["p99"] == pytest.approx(np.percentile(np.arange(1, 201) / 1000, 99))
    clock.now += 30
    now = as_json(live)
    assert (now["idle"], now["speed"] < 10) == (30.0, True), "the stream pauses"
    live.end("All steps are taken.")
    live.end("a second reason")
    clock.now += 30
    now = as_json(live)
    assert (now["state"], now["why"], now["seconds"]) == ("over", "All steps are taken.", 50.0)


def test_skipped_counts_are_read_when_requested():
    skipped = {}
    live = Live(SIZES, skipped=skipped)
    skipped["late"] = 3
    assert live.now()["skipped"] == {"late": 3}


def test_the_size_of_the_page_stays_constant():
    clock = Clock()
    live, score, steps = Live(SIZES, steps=10, clock=clock), Prequential(3, points=100), block(3)
    sizes = []
    for i in range(2000):
        clock.now += 1
        feed(live, score, steps)
        if i % 500 == 499:
            sizes.append(len(json.dumps(live.now())))
    now = live.now()
    assert len(now["memory"]["course"]) <= live_state.VITAL_POINTS
    assert now["memory"]["course"][0][0] <= 2 < 1000 < now["memory"]["course"][-1][0], (
        "the curve covers the whole stream"
    )
    assert max(sizes) < 12_000
    assert now["latency"]["blocks"] == live_state.BLOCKS


def test_memory_falls_back_to_its_peak_or_to_none(monkeypatch, tmp_path):
    now = live_state.resident()
    monkeypatch.setattr(live_state, "STATM", tmp_path / "statm")
    most = live_state.resident()
    assert 2**20 < now <= 1.01 * most < 2**40
    assert Live(SIZES).now()["memory"]["peak"] is True
    monkeypatch.setitem(sys.modules, "resource", None)
    assert live_state.resident() is None
    live = Live(SIZES)
    feed(live, Prequential(3), block(2))
    assert as_json(live)["memory"] == {"resident": None, "peak": True, "course": []}


class Interrupted(Prequential):
    """Starts a reader while the score is read, in the middle of a block."""

    @property
    def curve(self):
        self.read = []
        self.reader = threading.Thread(target=lambda: self.read.append(self.live.now()["raster"]["labels"]))
        self.reader.start()
        self.reader.join(0.2)
        self.early = list(self.read)
        return super().curve


def test_readers_never_see_half_a_block():
    score, steps = Interrupted(3), block(5)
    score.live = Live(SIZES)
    feed(score.live, score, steps)
    score.reader.join(5)
    assert score.early == [], "the reader waits"
    assert score.read == [[step.label for step in steps.steps]]


BAD = [
    (lambda: Live([6]), r"sizes is \[6\], expected at least two whole numbers above 0"),
    (lambda: Live(SIZES, steps=0), r"steps is 0, expected a whole number above 0"),
    (lambda: Live(SIZES, dt=0), r"dt is 0, expected seconds above 0, or None"),
    (
        lambda: feed(Live((6, 3)), Prequential(3), block(2)),
        r"the block is of a network with 6 inputs, 2 layers and 3 outputs, but sizes is \[6, 3\]. Give Live the sizes of",
    ),
    (lambda: Live(SIZES, changes=[(-1, "swap")]), r"step of a change is -1, expected a whole number"),
    (lambda: Live(SIZES, names=["a"]), r"names has 1 entries, expected 3: one for each class of the network"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:20] for _, message in BAD])
def test_the_error_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()
