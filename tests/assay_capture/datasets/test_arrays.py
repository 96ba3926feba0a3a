"""Arrays of an untrusted file: converted exactly, bounded, never unpickled."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy
from safetensors.numpy import save_file

from assay_capture.datasets import read_arrays
from referee_py.errors import AssayError, InvalidEncoding, InvalidInput


def member(array: np.ndarray[Any, Any], **header: Any) -> bytes:
    """Return an .npy file, with a header that may lie."""
    stream = io.BytesIO()
    described = {**npy.header_data_from_array_1_0(array), **header}
    npy.write_array_header_1_0(stream, described)
    return stream.getvalue() + array.tobytes()


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize(
    ("dtype", "becomes"),
    [
        ("u1", np.int64),
        ("u4", np.int64),
        ("i2", np.int64),
        (">i8", np.int64),
        ("f2", np.float32),
        (">f4", np.float32),
        ("?", np.bool_),
    ],
)
def test_smaller_types_become_those_of_the_operator_set_exactly(
    dtype: str, becomes: type, tmp_path: Path
) -> None:
    array = np.array([[0, 1], [5, 100]]).astype(dtype)
    np.savez_compressed(tmp_path / "a.npz", x=array)
    found = read_arrays(tmp_path / "a.npz")["x"]
    assert found.dtype == becomes
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_both_formats_give_the_same_arrays_in_the_order_of_names(tmp_path: Path) -> None:
    x, y = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)), np.arange(2)
    np.savez(tmp_path / "a.npz", y=y, x=x)
    save_file({"y": y, "x": np.ascontiguousarray(x)}, tmp_path / "a.safetensors")
    for file in ("a.npz", "a.safetensors"):
        found = read_arrays(tmp_path / file)
        assert list(found) == ["x", "y"]
        np.testing.assert_array_equal(found["x"], x)
        assert list(read_arrays(tmp_path / file, ["y", "x"])) == ["y", "x"]
        with pytest.raises(InvalidInput, match="no array 'z'; it has x, y"):
            read_arrays(tmp_path / file, ["z"])
        with pytest.raises(InvalidInput, match="different ones"):
            read_arrays(tmp_path / file, ["x", "x"])


def test_rounding_has_to_be_asked_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([0.1, 1e300]))
    with pytest.raises(InvalidInput, match=r"float64.*--round"):
        read_arrays(tmp_path / "a.npz")
    assert read_arrays(tmp_path / "a.npz", rounded=True)["x"].tolist() == [np.float32(0.1), np.inf]


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([1j]), np.array([2**63], np.uint64), np.zeros(2, "f4,i8")]
)
def test_types_without_a_counterpart_are_refused(array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=array)
    with pytest.raises(InvalidInput, match="no exact counterpart"):
        read_arrays(tmp_path / "a.npz")


class Evil:
    """Sets `ran` when it is unpickled."""

    ran = False

    def __reduce__(self) -> Any:
        return (setattr, (Evil, "ran", True))


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([Evil()], dtype=object))
    with pytest.raises(InvalidEncoding, match="Python objects"):
        read_arrays(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"\x80\x04.")
    with pytest.raises(InvalidEncoding):
        read_arrays(tmp_path / "b.npz")
    assert not Evil.ran


ONES = np.ones((2, 3), np.float32)
BAD_MEMBERS: dict[str, bytes] = {
    "a shape beyond its bytes": member(ONES, shape=(1 << 40, 1 << 40)),
    "a shape below its bytes": member(ONES, shape=(1, 3)),
    "a negative shape": member(ONES, shape=(-2, -3)),
    "no magic": b"hello",
    "nothing": b"",
    "a header that is cut": member(ONES)[:20],
    "data that is cut": member(ONES)[:-1],
    "a header that is code": member(ONES).replace(b"'<f4'", b"f(1) "),
}


@pytest.mark.parametrize("name", BAD_MEMBERS)
def test_a_member_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidEncoding, match="npz file of plain arrays"):
        read_arrays(npz(tmp_path / "a.npz", x=BAD_MEMBERS[name]))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_numpy_does_not_write_is_refused(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("x.npy", member(ONES))
    with pytest.raises(InvalidEncoding, match="numpy uses 0 and 8"):
        read_arrays(tmp_path / "a.npz")


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=ONES, y=np.arange(2))
    save_file({"x": ONES}, tmp_path / "a.safetensors")
    path = tmp_path / data.draw(st.sampled_from(["a.npz", "a.safetensors"]))
    sent = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(sent))
    with contextlib.suppress(InvalidInput):
        read_arrays(path)


def test_a_bomb_is_refused_by_the_size_that_it_declares(tmp_path: Path) -> None:
    bomb = npz(tmp_path / "a.npz", x=member(np.zeros(10_000_000, np.uint8)))
    assert bomb.stat().st_size < 20_000
    with pytest.raises(InvalidInput, match="the limit is 1000000"):
        read_arrays(bomb, max_bytes=1_000_000)


def test_a_bomb_that_declares_less_is_refused(tmp_path: Path) -> None:
    bomb = npz(tmp_path / "a.npz", x=member(np.zeros(10_000_000, np.uint8)))
    size = (10_000_000 + len(member(np.zeros(0, np.uint8)))).to_bytes(4, "little")
    assert size in bomb.read_bytes()
    bomb.write_bytes(bomb.read_bytes().replace(size, (1000).to_bytes(4, "little")))
    with pytest.raises(InvalidEncoding):
        read_arrays(bomb, max_bytes=1_000_000)


def test_safetensors_that_lie_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    for data in (b"", b"\xff" * 8, (1 << 40).to_bytes(8, "little") + b"{}", b"\x02" + b"\0" * 7 + b"[]"):
        file.write_bytes(data)
        with pytest.raises(InvalidEncoding, match="not a safetensors file"):
            read_arrays(file)
    save_file({"x": ONES}, file)
    with pytest.raises(InvalidInput, match="the limit is 10"):
        read_arrays(file, max_bytes=10)


@pytest.mark.parametrize("name", ["../x", "a b", ".x", "x" * 65, "é"])
def test_a_name_that_is_not_plain_is_refused(name: str, tmp_path: Path) -> None:
    npz(tmp_path / "a.npz", **{name: member(ONES)})
    with pytest.raises(InvalidInput, match="not a name of a tensor"):
        read_arrays(tmp_path / "a.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"read from \.npz and \.safetensors"):
        read_arrays(tmp_path / "a.pkl")
    with pytest.raises((AssayError, OSError)):
        read_arrays(tmp_path / "missing.npz")
