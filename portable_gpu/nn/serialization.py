"""State dictionaries in files: NumPy's ``.npz``, and ``.safetensors`` by a small reader."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from portable_gpu.arguments import of_kind
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import ArgumentError, reraise_of_signal

_SUFFIXES = (".npz", ".safetensors")
#: The largest header of a safetensors file; the format's own limit.
_MOST_HEADER = 100_000_000
#: The most letters of a file's own texts and numbers in a message.
_MOST_TEXT = 300
#: The bit of a zip entry that says that it is encrypted.
_ENCRYPTED = 1
_DTYPES: dict[str, Any] = {
    "BOOL": np.dtype(bool), "U8": np.dtype("u1"), "I8": np.dtype("i1"), "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"), "U32": np.dtype("<u4"), "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"), "I64": np.dtype("<i8"), "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"), "F64": np.dtype("<f8"),
}  # fmt: skip


def _dtypes() -> dict[str, Any]:
    """Return the dtypes of the format by their names."""
    brain = bfloat16()
    return _DTYPES if brain is None else {**_DTYPES, "BF16": brain}


def write_state(path: str | Path, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays by name to a new file, which takes the place of an old one when it is complete.

    Raises:
        ArgumentError: The name has another suffix, or a dtype has no place in the format.
    """
    target = _path(path)
    write = _write_npz if _suffix(target) == ".npz" else _write_safetensors
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file, state)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # it has been renamed already
            os.unlink(name)
        raise


def read_state(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read arrays by name from a file.

    Raises:
        ArgumentError: The name has another suffix, or the file is damaged; nothing in it is
            executed, and no memory is taken for what the file does not hold.
        OSError: It cannot be read.
    """
    source = _path(path)
    read = _read_npz if _suffix(source) == ".npz" else _read_safetensors
    return read(source)


def _path(path: Any) -> Path:
    of_kind(path, (str, Path), "path", "the name of a file")
    return Path(path)


def _suffix(path: Path) -> str:
    if path.suffix not in _SUFFIXES:
        raise ArgumentError(
            f"path is {str(path)!r}; expected a name that ends in .npz or .safetensors"
        )
    return path.suffix


def _write_npz(file: Any, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
    odd = [name for name, array in state.items() if array.dtype.kind == "V"]
    if odd:
        raise ArgumentError(
            f"{odd[0]} is {state[odd[0]].dtype}, which .npz lacks; use .safetensors"
        )
    arrays: dict[str, Any] = dict(state)
    np.savez(file, **arrays)


def _read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            with zipfile.ZipFile(file) as archive:
                _with_names([(entry.filename, entry) for entry in archive.infolist()])
                for entry in archive.infolist():
                    _check_npy(archive, entry, size)
            file.seek(0)
            arrays = np.load(file, allow_pickle=False)
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        raise _damaged(path, f"an .npz file: {error}") from error


def _check_npy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, nbytes: int) -> None:
    """Raise ValueError unless an array has as many bytes as its header says, all in the file."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & _ENCRYPTED:
        raise ValueError(f"{entry.filename} is compressed or encrypted")
    if entry.file_size > nbytes or not 0 <= entry.header_offset < nbytes:
        raise ValueError(f"{entry.filename} is outside of the file")
    try:
        with archive.open(entry) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0
            if version != (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            start = file.tell()
    except OSError:  # of the disk
        raise
    except Exception as error:  # NumPy's and Python's parsers have many
        reraise_of_signal(error)
        raise ValueError(
            f"the header of {entry.filename} is damaged: {type(error).__name__}: {error}"
        ) from error
    if dtype.hasobject or prod(shape) * dtype.itemsize != entry.file_size - start:
        raise ValueError(f"{entry.filename} has the shape {shape} of {dtype} in fewer bytes")


def _write_safetensors(file: Any, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
    names = {dtype: name for name, dtype in _dtypes().items()}
    header: dict[str, Any] = {}
    end = 0
    for name, array in state.items():
        if array.dtype not in names:
            raise ArgumentError(f"{name} is {array.dtype}, which .safetensors lacks")
        header[name] = {
            "dtype": names[array.dtype], "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }  # fmt: skip
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for array in state.values():
        file.write(np.ascontiguousarray(array).tobytes())


def _read_safetensors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        # A file of less than 8 bytes has no length of a header, and is refused below.
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(size - 8, _MOST_HEADER):
            raise _not_safe(path, f"its header would have {length} bytes")
        try:
            header = json.loads(file.read(length).decode(), object_pairs_hook=_with_names)
        except (ValueError, RecursionError) as error:
            raise _not_safe(path, f"its header cannot be read: {error}") from error
        if not isinstance(header, dict):
            raise _not_safe(path, "its header is not a JSON object")
        header.pop("__metadata__", None)
        data = size - 8 - length
        places = {name: _place(path, name, entry, data) for name, entry in header.items()}
        end = 0
        for name, (_, _, begin, stop) in sorted(places.items(), key=lambda item: item[1][2:]):
            if begin != end:
                raise _not_safe(path, f"{name} begins at byte {begin}, and {end} is expected")
            end = stop
        if end != data:
            raise _not_safe(path, f"it has {data} bytes of arrays, and the header {end}")
        result = {}
        for name, (dtype, shape, begin, stop) in places.items():
            file.seek(8 + length + begin)
            array = np.frombuffer(file.read(stop - begin), dtype)
            try:
                result[name] = array.reshape(shape)
            except ValueError as error:  # too many axes
                raise _not_safe(path, f"{name}: {error}") from error
        return result


def _with_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name, or raise ValueError if a name occurs twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} occurs twice")
    return result


def _place(path: Path, name: str, entry: Any, data: int) -> tuple[Any, list[int], int, int]:
    """The dtype, the shape and the bytes of an array, checked against the file's size."""
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise _not_safe(path, f"the entry of {name} is incomplete") from error
    numbers = [*shape, begin, end] if isinstance(shape, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise _not_safe(path, f"the entry of {name} has numbers that are not sizes")
    dtypes = _dtypes()
    dtype = dtypes.get(kind) if isinstance(kind, str) else None
    if dtype is None:
        raise _not_safe(path, f"{name} is {kind}; expected {', '.join(dtypes)}")
    if not begin <= end <= data or prod(shape) * dtype.itemsize != end - begin:
        raise _not_safe(path, f"{name} has the shape {shape} and the bytes {begin} to {end}")
    return dtype, shape, begin, end


def _not_safe(path: Path, why: str) -> ArgumentError:
    return _damaged(path, f"a safetensors file: {why}")


def _damaged(path: Path, why: str) -> ArgumentError:
    """An error whose text is bounded, whatever the file has."""
    text = why if len(why) <= _MOST_TEXT else f"{why[:_MOST_TEXT]} ..."
    return ArgumentError(f"path is {str(path)!r}, which is not {text}")
