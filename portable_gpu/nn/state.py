"""State dictionaries: keys of nested ones in files, and checks against what they replace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from portable_gpu.arguments import of_kind
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError
from portable_gpu.nn.serialization import read_state, write_state
from portable_gpu.runtime.transfer import asnumpy
from portable_gpu.runtime.views import as_array


def flat_state(state: Any, prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings and lists of mappings, by keys that are joined by points.

    Values that are ``None`` are left out.

    Raises:
        ArgumentTypeError: ``state`` is not a mapping.
    """
    result: dict[str, Any] = {}
    for key, value in of_kind(state, Mapping, "state", "a mapping, as of state_dict").items():
        name, inner = f"{prefix}{key}", value
        if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
            inner = dict(enumerate(value))
        if isinstance(inner, Mapping):
            result.update(flat_state(inner, f"{name}."))
        elif value is not None:
            result[name] = value
    return result


class Saved(ABC):
    """An object with a state dictionary, which it saves to files and loads from them."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the state by that of a dictionary."""

    def save(self, path: str | Path) -> None:
        """Write the state dictionary to a file, ``.npz`` or ``.safetensors``.

        Keys of nested dictionaries are joined by points: ``param_groups.0.lr``.

        Raises:
            ArgumentError: The name has another suffix.
            OSError: The file cannot be written; one that existed is unchanged.
        """
        values = flat_state(self.state_dict()).items()
        write_state(path, {name: asnumpy(as_array(value, name)) for name, value in values})

    def load(self, path: str | Path) -> None:
        """Replace the state by that of a file, ``.npz`` or ``.safetensors``.

        Raises:
            ArgumentError: The file is none of these, or is damaged; keys do not match.
            ShapeError: Shapes do not match.  Nothing has been replaced after an error; others as
                ``load_state_dict``.
            OSError: The file cannot be read.
        """
        self.load_state_dict(read_state(path))


def fitting(
    state: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    optional: Collection[str] = frozenset(),
) -> dict[str, Any]:
    """The arrays of a state dictionary without nesting, if they fit.

    Args:
        state: Arrays by name.
        shapes: The shape of each name.
        optional: The names that may be missing.

    Raises:
        ArgumentTypeError: It has something else than arrays of real numbers.
        ArgumentError: Keys are missing or unknown; the message names all.
        ShapeError: Arrays have other shapes; the message names all.
    """
    missing = sorted(shapes.keys() - state.keys() - set(optional))
    unknown = sorted(map(str, state.keys() - shapes.keys()))
    if missing or unknown:
        parts = [("lacks", missing), ("has unknown", unknown)]
        raise ArgumentError(
            "state " + " and ".join(f"{say} {', '.join(keys)}" for say, keys in parts if keys)
        )
    arrays = {name: as_array(value, name) for name, value in state.items()}
    wrong = [
        f"{name} {tuple(array.shape)} in place of {shapes[name]}"
        for name, array in arrays.items()
        if tuple(array.shape) != shapes[name]
    ]
    if wrong:
        raise ShapeError(f"state has other shapes: {', '.join(wrong)}")
    complex_names = [name for name, array in arrays.items() if array.dtype.kind == "c"]
    if complex_names:
        raise ArgumentTypeError(f"state has complex numbers: {', '.join(complex_names)}")
    return arrays
