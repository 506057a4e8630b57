"""Files of arrays are read completely or refused with a sentence."""

import ast
import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import strange
from safetensors.numpy import save_file

import otpe
from otpe import tensors

KIND = "thing"


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.standard_normal((3, 4)).astype(np.float32),
        "b.0": rng.integers(0, 255, (5,)).astype(np.uint8),
        "nothing": np.zeros((0, 2)),
        "scalar": np.float64(np.nan),
        "transposed": rng.standard_normal((2, 3)).T,
    }
    tensors.write(tmp_path / "file", KIND, arrays, {"step": 3, "seconds": 0.1, "nested": {"name": "ä"}})
    return tmp_path / "file"


def header(path):
    """Return the length of the header and its content."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return size, json.loads(content[8 : 8 + size])


def with_header(path, **change):
    """Rewrite the metadata in the header. The arrays stay unchanged."""
    size, header_content = header(path)
    header_content["__metadata__"] |= change
    text = json.dumps(header_content).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + path.read_bytes()[8 + size :])


def test_a_saved_file_is_read_back_bitwise(tmp_path):
    original = {
        "bits": np.array([0x7FC00001, 0x80000000, 1], np.uint32).view(
            np.float32
        ),  # a NaN with a payload, −0, a denormal
        "half": np.arange(3).astype(ml_dtypes.bfloat16),
        "flag": np.array([True, False]),
        "row": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "step": np.int32(7),
    }
    tensors.write(tmp_path / "file", KIND, original, {"step": 7})
    loaded, about = tensors.read(tmp_path / "file", KIND)
    assert about == {"kind": KIND, "step": 7}
    assert loaded.keys() == original.keys()
    for name, array in original.items():
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)
        assert loaded[name].tobytes() == array.tobytes()


def test_a_truncated_file_is_refused(path):
    content = path.read_bytes()
    for length in sorted({*range(0, len(content), 29), 1, 7, 8, 9, len(content) - 1}):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"{re.escape(str(path))} is damaged: "):
            tensors.read(path, KIND)


def test_a_file_with_extra_bytes_is_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"is damaged: "):
        tensors.read(path, KIND)


def test_a_flipped_bit_is_refused_wherever_it_is(path):
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 3):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"is damaged: |none of otpe's|has the format "):
            tensors.read(path, KIND)


def test_a_safetensors_file_of_another_program_is_refused(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "file", {"about": "mine"})
    with pytest.raises(ValueError, match=r"is a safetensors file, but none of otpe's: it has no hash of its content"):
        tensors.read(tmp_path / "file", KIND)


def test_a_file_of_another_kind_is_refused(path):
    with pytest.raises(ValueError, match=r"is a thing, expected a cake"):
        tensors.read(path, "cake")


def test_a_file_of_a_newer_format_is_refused(path):
    with_header(path, format="2")
    with pytest.raises(
        ValueError, match=r"has the format 2, which a newer otpe wrote; this one reads 1. Update otpe: pip"
    ):
        tensors.read(path, KIND)


def test_the_hash_covers_the_metadata(path):
    with_header(path)
    assert tensors.read(path, KIND)[1]["step"] == 3
    _, header_content = header(path)
    with_header(path, about=header_content["__metadata__"]["about"].replace('"step": 3', '"step": 4'))
    with pytest.raises(ValueError, match=r"does not match the hash"):
        tensors.read(path, KIND)


def test_an_invalid_header_is_refused(path):
    """For any content and any stated length."""
    size, header_content = header(path)
    numbers, whole = path.read_bytes()[8 + size :], header_content["a"]

    def read(text, length=None):
        content = text.encode() if isinstance(text, str) else text
        path.write_bytes((len(content) if length is None else length).to_bytes(8, "little") + content + numbers)
        tensors.read(path, KIND)

    wrong = [
        {**whole, "dtype": dtype} for dtype in ("F128", "X", "", None, 5, "F8_E4M3")
    ] + [
        {**whole, "shape": shape} for shape in ([-3, 4], [4, 4], [3], [2**64 - 1, 0], [2**63, 0], [2**40, 2**40], None, "x", [None])
    ] + [
        {**whole, "data_offsets": offsets} for offsets in ([0, 2**63], [48, 0], [-1, 47], None, [0])
    ] + [None, 5, [], {}]  # fmt: skip
    texts = [json.dumps({**header_content, "a": each}) for each in wrong]
    texts += [
        json.dumps({**header_content, "__metadata__": each})
        for each in (None, 5, [], {"a": 1}, {"format": "1", "about": None, "sha256": "x"})
    ]
    assert strange.refusals(read, [*texts, *strange.TEXTS], path) == len(texts) + len(strange.TEXTS)
    for length in (2**64 - 1, 2**63, 2**40, 0):
        assert strange.refusals(lambda length: read(json.dumps(header_content), length), [length], path) == 1


def test_a_missing_array_or_field_is_refused(path):
    assert tensors.read(path, KIND, {"step": int, "seconds": float, "nested": dict})[1]["step"] == 3
    for needs, message in (
        ({"stop": int}, r"is damaged: there is no stop in it\."),
        ({"step": str}, r"is damaged: step is 3, expected str\."),
        ({"seconds": int | None}, r"is damaged: seconds is 0.1, expected int \| None\."),
    ):
        with pytest.raises(ValueError, match=message):
            tensors.read(path, KIND, needs)


def test_no_source_file_allows_pickle():
    """No call sets an allow_ option, such as numpy's allow_pickle. (A contract in pyproject.toml forbids unsafe modules.)"""
    for path in Path(otpe.__file__).parent.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        allowed = [word.value for call in calls for word in call.keywords if (word.arg or "").startswith("allow_")]
        assert all(isinstance(value, ast.Constant) and value.value is False for value in allowed), path
