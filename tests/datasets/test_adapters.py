"""Arrays, events, tonic and torch as datasets."""

import subprocess
import sys

import numpy as np
import pytest
import tiny_events
from tonic.transforms import ToFrame

from otpe import datasets
from otpe.datasets import Binning, from_arrays, from_events, from_tonic, from_torch

SPIKES, LABELS = np.ones((5, 3, 2)), np.array([0, 2, 1])
PIXELS = [0.1, 0.9], [0, 2], [0, 2], [0, 1]  # times, x, y, p


class Camera:
    """A dataset as tonic defines it: sensor_size, len, and pairs of events and label."""

    sensor_size = (4, 3, 2)

    def __init__(self, transform=None, recordings=3, sensor_size=sensor_size):
        self.transform, self.recordings, self.sensor_size = transform, recordings, sensor_size

    def __len__(self):
        return self.recordings

    def __getitem__(self, i):
        rng, n = np.random.default_rng(i), 40 + i
        events = np.zeros(n, [("x", "i2"), ("y", "i2"), ("t", "i8"), ("p", "?")])
        for name, most in (("x", 4), ("y", 3), ("p", 2)):
            events[name] = rng.integers(0, most, n)
        events["t"] = np.sort(rng.integers(0, 10_000 * (i + 1), n))
        return (self.transform(events) if self.transform else events), i % 2


def test_tonic_events_become_the_frames_tonic_makes():
    ours = from_tonic(Camera(), Binning(8, remainder="drop"))
    theirs = from_tonic(Camera(ToFrame(sensor_size=Camera.sensor_size, n_time_bins=8)))
    assert ours.frames.shape == (3, 8, 2, 3, 4)
    assert ours.shape == theirs.shape == (2, 3, 4)
    np.testing.assert_array_equal(ours.frames, theirs.frames)
    np.testing.assert_array_equal(ours.labels, [0, 1, 0])


def test_flat_units_have_the_order_of_tonic_sensors():
    """Unit numbers (p·H + y)·W + x, computed by hand."""
    data, counted = from_tonic(Camera(), 1).flat(), np.zeros((3, 24), int)
    for i in range(3):
        events, _ = Camera()[i]
        np.add.at(counted[i], (events["p"].astype(int) * 3 + events["y"]) * 4 + events["x"], 1)
    assert data.shape == (24,)
    np.testing.assert_array_equal(data.frames[:, 0], counted)


def test_camera_events_are_binned_without_tonic():
    def rows(i):
        events, label = Camera()[i]
        return tuple(events[name] for name in "txyp"), label

    recordings, labels = zip(*map(rows, range(3)), strict=True)
    ours, tonics = from_events(recordings, labels, 8, shape=(2, 3, 4)), from_tonic(Camera(), 8)
    assert ours.shape == (2, 3, 4)
    np.testing.assert_array_equal(ours.frames, tonics.frames)


def test_a_grid_is_pooled_in_squares():
    rng = np.random.default_rng(0)
    recordings = [(np.sort(rng.random(900)), *(rng.integers(0, most, 900) for most in (8, 6, 2))) for _ in range(3)]
    whole, pooled = (from_events(recordings, [0, 1, 2], Binning(5, pool=pool), shape=(2, 6, 8)) for pool in (1, 2))
    assert pooled.shape == (2, 3, 4)
    squares = np.asarray(whole.frames, int).reshape(3, 5, 2, 3, 2, 4, 2)
    np.testing.assert_array_equal(pooled.frames, squares.sum((4, 6)))


def test_tonic_frames_of_unequal_length_are_padded():
    data = from_tonic(Camera(ToFrame(sensor_size=Camera.sensor_size, time_window=5000)), names=("still", "moving"))
    longest = int(data.lengths.max())
    assert data.frames.shape == (3, longest, 2, 3, 4)
    assert sorted(data.lengths.tolist()) == data.lengths.tolist() != [longest] * 3
    assert data.frames[0, data.lengths[0] :].sum() == 0
    assert data.names == ("still", "moving")


def test_the_shd_class_of_tonic_gives_the_same_frames(tmp_path, monkeypatch):
    """A file in SHD's layout, read by tonic and binned by otpe, equals the same file read by otpe."""
    from tonic.datasets import SHD

    monkeypatch.setattr(SHD, "_check_exists", lambda self: True)  # it would download the official file
    (tmp_path / "SHD").mkdir()
    tiny_events.make(tmp_path / "SHD" / "shd_train.h5")
    data = from_tonic(SHD(save_to=str(tmp_path)), Binning(10))
    read = datasets.shd(tmp_path / "SHD", "train", 10, validation="none")
    np.testing.assert_array_equal(data.frames, read.frames)
    np.testing.assert_array_equal(data.labels, read.labels)


@pytest.mark.parametrize("layout", ["TBN", "BTN"])
def test_from_torch_takes_any_iterable_in_both_layouts(layout):
    rng = np.random.default_rng(0)
    batches = [(rng.integers(0, 3, (2, 6, 2, 4)), np.array([0, 1])), (rng.integers(0, 3, (1, 4, 2, 4)), np.array([1]))]
    given = [(x if layout == "BTN" else np.moveaxis(x, 1, 0), y) for x, y in batches]
    data = from_torch(given, layout=layout)
    assert data.frames.shape == (3, 6, 2, 4)
    assert data.frames.dtype == np.uint8
    np.testing.assert_array_equal(data.frames[1], batches[0][0][1])
    np.testing.assert_array_equal(data.flat().frames[2, :4], batches[1][0][0].reshape(4, 8))
    np.testing.assert_array_equal(data.lengths, [6, 6, 4])
    np.testing.assert_array_equal(data.labels, [0, 1, 1])


def test_a_loader_may_reuse_its_buffer():
    def loader():
        memory = np.empty((2, 4, 3))
        for i in range(3):
            memory[:] = i
            yield memory, [i, i]

    assert from_torch(loader(), layout="BTN").frames[:, 0, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_empty_event_lists_give_empty_frames():
    data = from_events([([], []), ([0.1, 0.2], [0, 1])], [0, 1], 2, units=2, keep_empty=True)
    assert data.frames.sum((1, 2)).tolist() == [0, 2]


def test_a_torch_data_loader_is_accepted():
    torch = pytest.importorskip("torch")
    spikes = torch.rand(10, 6, 4, requires_grad=True).round()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(spikes, torch.arange(10)), batch_size=4)
    data = from_torch(loader, layout="BTN")
    np.testing.assert_array_equal(data.frames, spikes.detach().numpy())
    assert data.lengths is None


def test_optional_packages_are_imported_only_when_used():
    code = (
        "import otpe.datasets, sys; print([m for m in ('h5py', 'pooch', 'tonic', 'torch', 'tqdm') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_counts_are_stored_in_one_byte_and_other_numbers_unchanged():
    assert from_arrays(SPIKES, LABELS).frames.dtype == np.uint8
    assert from_arrays(255 * SPIKES, LABELS).frames.dtype == np.uint8
    for factor in (256, 0.5, -1):
        data = from_arrays(factor * SPIKES, LABELS)
        assert data.frames.dtype == np.float32
        assert (data.frames == factor).all()


BAD = [
    (lambda: from_arrays(np.ones((5, 3)), LABELS), r"spikes are float64 \[5, 3\], expected numbers \[time, recordings, units\], or \[time, recordings, channels, height, width\]"),
    (lambda: from_arrays(np.ones((5, 0, 3)), []), r"shape \[5, 0, 3\], expected no axis of length 0"),
    (lambda: from_arrays(SPIKES * np.nan, LABELS), r"spikes hold NaN or infinite values"),
    (lambda: from_arrays(SPIKES * 1e300, LABELS), r"spikes hold values that are infinite in float32"),
    (lambda: from_arrays(SPIKES, [0, 1]), r"there are 2 labels and spikes \[5, 3, 2\], expected one label for each of 3 recordings"),
    (lambda: from_arrays(SPIKES, [0.0, 1.0, 2.0]), r"from_arrays has labels of float64 \[3\], expected a row of whole numbers"),
    (lambda: from_arrays(SPIKES, [0, -1, 2]), r"from_arrays: recording 1 has -1 among its labels, expected 0 to 99,999"),
    (lambda: from_arrays(SPIKES, [0, 1, 2**31]), r"recording 2 has 2147483648 among its labels"),
    (lambda: from_arrays(SPIKES, LABELS, names=("a", "b")), r"recording 1 has the label 2, but there are names for 2 classes"),
    (lambda: from_arrays(SPIKES, LABELS, lengths=[5, 5, 6]), r"lengths .* from 1 to the 5 time steps"),
    (lambda: from_arrays(SPIKES, LABELS, lengths=[5, 5, 1.5]), r"lengths are float64 \[3\], expected a whole number for each of 3"),
    (lambda: from_arrays(SPIKES, LABELS, lengths=[5, 5]), r"lengths are int64 \[2\], expected a whole number for each of 3 recordings"),
    (lambda: from_events([([0.1, 0.9], [0, 5])], [0], 4, units=5), r"from_events: recording 0 has a spike of unit 5, expected 0 to 4"),
    (lambda: from_events([([0.1, 0.9], [0])], [0], 4, units=5), r"recording 0 has 2 times but 1 units"),
    (lambda: from_events([([1, 9], [0, 1]), ([0.1, 0.9], [0, 1])], [0, 1], 4, units=5), r"times are whole numbers in some recordings and not in others"),
    (lambda: from_events([], [], 4, units=5), r"from_events has no recordings, expected at least one"),
    (lambda: from_events([([0.1, 0.9], [0, 1])], [0], 4, units=0), r"units is 0, expected a whole number above 0"),
    (lambda: from_tonic(Camera(recordings=0)), r"the tonic dataset is empty"),
    (lambda: from_tonic(Camera(sensor_size=None)), r"sensor_size of the dataset is None, expected width, height and polarities"),
    (lambda: from_tonic(Camera(sensor_size=(3, 3, 2))), r"recording 0 has x from 0 to 3, expected 0 to 2: the dataset's sensor_size is \(3, 3, 2\)"),
    (lambda: from_torch([(np.ones((2, 5, 3)), [0])], layout="BTN"), r"batch 0 has 2 samples and labels \[1\], expected one each"),
    (lambda: from_torch([], layout="BTN"), r"the loader gave no batches"),
    (lambda: from_torch([SPIKES], layout="BTN"), r"batch 0 of the loader is a ndarray, expected a pair"),
    (lambda: from_torch([(SPIKES[0], LABELS)], layout="TBN"), r"batch 0 has spikes of the shape \[3, 2\], expected \[T, B, N\]"),
    (lambda: from_torch([(SPIKES, LABELS)], layout="NTB"), r"layout 'NTB' is not known"),
    (lambda: from_torch([(SPIKES, LABELS), (SPIKES[..., :1], LABELS)], layout="TBN"), r"recordings have the shapes \[1\] and \[2\], expected the same shape"),
    (lambda: from_events([PIXELS], [0]), r"neither units nor shape is given, expected one of them: units=N for recordings \(times, units\), or shape=\(P, H, W\)"),
    (lambda: from_events([PIXELS], [0], units=3, shape=(1, 3, 3)), r"units is 3 and shape is \(1, 3, 3\), expected one of them"),
    (lambda: from_events([PIXELS], [0], shape=(3, 3)), r"shape is \(3, 3\), expected channels, height and width, such as \(2, 34, 34\)"),
    (lambda: from_events([PIXELS], [0], shape=(2, 0, 3)), r"shape is 0, expected a whole number above 0"),
    (lambda: from_events([PIXELS[:2]], [0], shape=(2, 3, 3)), r"recording 0 has 2 rows, expected \(times, x, y, p\)"),
    (lambda: from_events([PIXELS], [0], units=9), r"recording 0 has 4 rows, expected \(times, units\)"),
    (lambda: from_events([(*PIXELS[:3], [0])], [0], shape=(2, 3, 3)), r"recording 0 has rows of the lengths \[2, 2, 2, 1\], expected \(times, x, y, p\) of one length"),
    (lambda: from_events([PIXELS], [0], shape=(2, 2, 3)), r"recording 0 has y from 0 to 2, expected 0 to 1: the shape is \(2, 2, 3\)"),
    (lambda: from_events([([0.1, 0.9], [0, 0.5], *PIXELS[2:])], [0], shape=(2, 3, 3)), r"recording 0 has x between two pixels, expected whole numbers. Round them"),
    (lambda: from_events([PIXELS], [0], Binning(2, pool=2), shape=(2, 3, 3)), r"pool is 2, which does not divide the height and width of the shape \[2, 3, 3\]. Leave pool out"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
