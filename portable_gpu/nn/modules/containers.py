"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from portable_gpu.arguments import of_kind, whole
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.nn.modules.base import Module
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.ordered import elementwise_like
from portable_gpu.runtime.array import Array


class _Composition(Module):
    """The base of modules that call several modules one after the other.

    If one of these refuses a call, those before it have stored the data of that call already.  A
    module that is called again, because it has several places in a network, has lost its data.
    """

    #: The modules of the last call, with their numbers of calls.
    _called: Sequence[tuple[Module, int]] = ()

    def _each(self, modules: Iterable[Module], compute: Callable[[Module], None]) -> None:
        """Call ``compute`` with each module, and record whether all have data of the same call."""
        called: list[tuple[Module, int]] = []
        try:
            for module in modules:
                compute(module)
                if not isinstance(module, Identity):
                    module._forwards += 1
                called.append((module, module._forwards))
        except BaseException:
            # If the first module refused the call, all still have the data of the last call.
            if called or not module._is_whole:
                self._is_whole = False
            raise
        self._is_whole, self._called = True, called

    def _check_whole(self) -> None:
        """Check that all modules have data of the same call, which ``backward`` needs.

        Raises:
            ArgumentError: A module after the first one has refused the last call, or one has been
                called again.
        """
        if not self._is_whole:
            raise ArgumentError(
                f"{type(self).__name__}.backward is called after a forward that one of its modules "
                "refused; call forward again"
            )
        for module, forwards in self._called:
            if module._forwards != forwards:
                name = next((name for name, child in self.named_children() if child is module), "")
                raise ArgumentError(
                    f"{type(self).__name__}.backward: module {name!r}, a {type(module).__name__}, "
                    "was called again after this forward and has data of its last call alone; "
                    "expected a module of its own in each place"
                )


class _Numbered(_Composition):
    """The base of lists of modules, whose names are their numbers, from ``"0"`` on."""

    def __iter__(self) -> Iterator[Module]:
        return (child for _, child in self.named_children())

    def __len__(self) -> int:
        return len(list(self.named_children()))

    def __getitem__(self, number: int) -> Module:
        return list(self)[whole(number, "number")]


class Sequential(_Numbered):
    """Modules one after the other; their names are their numbers, from ``"0"`` on.

    A module that has several places in a network keeps the data of its last call alone, so
    ``backward`` refuses it.  Modules of their own may have the same parameters.
    """

    def __init__(self, *modules: Module) -> None:
        """Take the modules in their order."""
        for number, module in enumerate(modules):
            setattr(self, str(number), of_kind(module, Module, f"modules[{number}]"))

    def forward(self, input: Any) -> Any:
        """Compute the output of the last module."""
        result = input

        def compute(module: Module) -> None:
            nonlocal result
            result = module.forward(result)

        self._each(self, compute)
        return result

    def _writes_input(self) -> bool:
        return any(module._writes_input() for module in list(self)[:1])

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, from the last module to the first."""
        self._check_whole()
        for module in reversed(list(self)):
            grad_output = module.backward(grad_output)
        return grad_output


class ModuleList(_Numbered):
    """A list of modules, whose names are their numbers; a subclass of ``Module`` calls them."""

    def __init__(self, modules: Sequence[Module] = ()) -> None:
        """Take the modules in their order."""
        for module in of_kind(modules, (tuple, list), "modules", "a tuple or list of modules"):
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end, and return this list."""
        number = len(self)
        setattr(self, str(number), of_kind(module, Module, f"modules[{number}]"))
        return self


class Identity(Module):
    """The input itself."""

    def forward(self, input: Any) -> Any:
        """Return the input."""
        return input

    def backward(self, grad_output: Any) -> Any:
        """Return the gradient."""
        return grad_output


def _check_inputs(branches: Mapping[str, Module | None]) -> None:
    """Check that no branch changes the input of the others, whose gradients would be wrong.

    Raises:
        ArgumentError: One begins with a layer that has ``inplace=True``.
    """
    for name, branch in branches.items():
        if branch is not None and branch._writes_input():
            raise ArgumentError(
                f"{name} begins with a layer that has inplace=True and changes the input, which "
                "the other branches read; expected inplace=False there"
            )


class Residual(_Composition):
    """``body(x) + shortcut(x)``, without a shortcut ``body(x) + x`` (He et al., CVPR 2016)."""

    def __init__(self, body: Module, shortcut: Module | None = None) -> None:
        """Take the two branches."""
        self.body = of_kind(body, Module, "body")
        self.shortcut = shortcut
        if shortcut is not None:
            of_kind(shortcut, Module, "shortcut", "a Module or None")
        _check_inputs({"body": body, "shortcut": shortcut})

    def forward(self, input: Any) -> Any:
        """Compute the sum of both branches."""
        branches = [self.body] if self.shortcut is None else [self.shortcut, self.body]
        results = [input]
        self._each(branches, lambda branch: results.append(branch.forward(input)))
        other, result = results[-2:]
        if result.shape != other.shape:
            self._is_whole = False
            raise ShapeError(f"body gives {result.shape} and shortcut {other.shape}")
        return elementwise_like("a + b", {"a": result, "b": other}, {}, None)

    def backward(self, grad_output: Any) -> Any:
        """Compute the sum of the gradients of both branches."""
        self._check_whole()
        other = grad_output if self.shortcut is None else self.shortcut.backward(grad_output)
        arrays = {"a": self.body.backward(grad_output), "b": other}
        return elementwise_like("a + b", arrays, {}, None)


class Concat(_Composition):
    """The outputs of several branches of one input, joined along an axis (of channels)."""

    def __init__(self, *branches: Module, dim: int = 1) -> None:
        """Take the branches in their order, and the axis of their outputs that is joined."""
        if not branches:
            raise ArgumentError("branches is empty; expected one or more")
        for number, branch in enumerate(branches):
            setattr(self, str(number), of_kind(branch, Module, f"branches[{number}]"))
        if len(branches) > 1:
            _check_inputs({f"branches[{number}]": branch for number, branch in enumerate(branches)})
        self.dim = whole(dim, "dim")

    def forward(self, input: Any) -> Any:
        """Compute all branches, and join their outputs."""
        parts: list[Any] = []
        branches = [branch for _, branch in self.named_children()]
        self._each(branches, lambda branch: parts.append(branch.forward(input)))
        self._is_whole = False  # until the parts fit
        first = parts[0]
        if not -first.ndim <= self.dim < first.ndim:
            raise ShapeError(
                f"dim is {self.dim}, and the outputs for an input of shape {input.shape} have "
                f"{first.ndim} axes"
            )
        axis = self.dim % first.ndim
        for part in parts:
            if (*part.shape[:axis], *part.shape[axis + 1 :]) != (
                *first.shape[:axis], *first.shape[axis + 1 :],
            ):  # fmt: skip
                raise ShapeError(f"branches give {first.shape} and {part.shape}")
        self._extents = [part.shape[axis] for part in parts]
        shape = (*first.shape[:axis], sum(self._extents), *first.shape[axis + 1 :])
        result = Array(first.queue, shape, first.dtype)
        for part, piece in zip(parts, self._pieces(result), strict=True):
            elementwise("x", x=part, out=piece)
        self._is_whole, self._shape = True, shape
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the sum of the gradients of all branches."""
        self._check_whole()
        (shape,) = self._from_forward("_shape")
        grad_output = self._gradient(grad_output, shape)
        branches = [branch for _, branch in self.named_children()]
        total: Any = None
        for branch, piece in zip(branches, self._pieces(grad_output), strict=True):
            part = branch.backward(piece)
            total = part if total is None else elementwise("a + b", a=total, b=part)
        return total

    def _pieces(self, whole_array: Any) -> list[Any]:
        """Views of the parts that the branches have."""
        axis, start, pieces = self.dim % whole_array.ndim, 0, []
        for extent in self._extents:
            index = (slice(None),) * axis + (slice(start, start + extent),)
            pieces.append(whole_array[index])
            start += extent
        return pieces


class Flatten(Module):
    """Axes from ``start_dim`` to ``end_dim`` as one; a view where strides allow."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        """Take the first and the last axis."""
        self.start_dim, self.end_dim = whole(start_dim, "start_dim"), whole(end_dim, "end_dim")

    def forward(self, input: Any) -> Any:
        """Return the array in its new shape."""
        rank = max(1, input.ndim)
        start, end = (axis + rank * (axis < 0) for axis in (self.start_dim, self.end_dim))
        if not 0 <= start <= end < rank:
            raise ShapeError(
                f"start_dim is {self.start_dim} and end_dim {self.end_dim}, and the input has "
                f"{input.ndim} axes"
            )
        size = prod(input.shape[start : end + 1])
        result = input.reshape((*input.shape[:start], size, *input.shape[end + 1 :]))
        self._shapes = input.shape, result.shape
        return result

    def backward(self, grad_output: Any) -> Any:
        """Return the gradient in the shape of the input."""
        ((before, after),) = self._from_forward("_shapes")
        return self._gradient(grad_output, after).reshape(before)


class Unflatten(Module):
    """Split an axis into several; a view where strides allow."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        """Take the axis, and the extents that it is split into, one of which may be -1."""
        listed = of_kind(unflattened_size, (tuple, list), "unflattened_size", "a tuple of integers")
        self.dim = whole(dim, "dim")
        self.unflattened_size = tuple([whole(n, "unflattened_size") for n in listed])

    def forward(self, input: Any) -> Any:
        """Return the array in its new shape."""
        if not -input.ndim <= self.dim < input.ndim:
            raise ShapeError(f"dim is {self.dim}, and the input has {input.ndim} axes")
        axis, sizes = (
            self.dim % input.ndim,
            [whole(n, "unflattened_size") for n in self.unflattened_size],
        )
        known = prod(n for n in sizes if n != -1)
        if sizes.count(-1) == 1 and known > 0:
            sizes[sizes.index(-1)] = input.shape[axis] // known
        if min(sizes, default=-1) < 0 or prod(sizes) != input.shape[axis]:
            raise ShapeError(
                f"unflattened_size is {self.unflattened_size}, and axis {axis} of input has "
                f"{input.shape[axis]} elements"
            )
        result = input.reshape((*input.shape[:axis], *sizes, *input.shape[axis + 1 :]))
        self._shapes = input.shape, result.shape
        return result

    def backward(self, grad_output: Any) -> Any:
        """Return the gradient in the shape of the input."""
        ((before, after),) = self._from_forward("_shapes")
        return self._gradient(grad_output, after).reshape(before)
