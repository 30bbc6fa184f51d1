"""Optimisers by torch's names and arguments, and clipping of gradients.

Parameters and gradients are moved into flat arrays, of which modules hold views; the state has the
same layout.  A step is one launch for all parameters of a dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np

from portable_gpu.arguments import finite, flag, of_kind, real_number
from portable_gpu.codegen.operators import BinaryOp
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, ArgumentTypeError, reraise_of_signal
from portable_gpu.nn.parameter import ModuleParameter, as_parameters, flattened, gradients
from portable_gpu.nn.state import Saved, fitting, flat_state
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.optim.api import (
    adam_step,
    at_least_zero,
    check_betas,
    check_nesterov,
    sgd_step,
)
from portable_gpu.ops.reduce import reduce
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import as_array

#: Options of torch's groups that say how torch computes a step, and not what.
_OF_TORCH = ("foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay")


class _Part(NamedTuple):
    """A contiguous range of parameters that one launch updates.

    Attributes:
        data, grad, state, master: See :class:`_Slot`.
        steps: The number of steps so far, the same for each parameter of the range.
    """

    data: Array
    grad: Array
    state: dict[str, Any]
    master: Array | None
    steps: int


class _Slot:
    """Flat values and gradients with the state of an optimiser.

    Attributes:
        data, grad: The flat values and gradients.
        parameters: The parameters that are views of these.
        state: The arrays of state by the names of the parameters of :func:`adam_step` and
            :func:`sgd_step`; of float32 for values of 16 bits.
        master: A copy of values of 16 bits in float32, to which steps are added; else ``None``.
        version: The versions of the parameters from which ``master`` was copied.
        is_loaded: For each parameter, whether ``master`` was loaded since the last step.
        steps: For each parameter, the number of steps that its state has had.
    """

    def __init__(
        self, data: Array, grad: Array, parameters: list[ModuleParameter], names: Iterable[str]
    ) -> None:
        self.data, self.grad, self.parameters = data, grad, parameters
        is_short = element(data.dtype).itemsize == 2
        self._state_dtype = np.dtype(np.float32) if is_short else data.dtype
        self.state: dict[str, Array] = {}
        self._allocate(names)
        self.master = elementwise("x", x=data, dtype=self._state_dtype) if is_short else None
        self.version: list[int | None] = [parameter.version for parameter in parameters]
        self.is_loaded = [False] * len(parameters)
        self.steps = [0] * len(parameters)

    def _allocate(self, names: Iterable[str]) -> None:
        """Make the arrays of state that do not exist yet, of zeros."""
        for name in names:
            if name not in self.state:
                zeros = np.zeros(self.data.shape, self._state_dtype)
                self.state[name] = asarray(zeros, queue=self.data.queue)

    def update(self, names: Sequence[str], compute: Callable[[_Part], None]) -> None:
        """Update all parameters that have gradients: one launch for each range of equal steps.

        Args:
            names: The names of the arrays of state that this step uses; if there are none, the
                step is not counted.
            compute: The update of a range.
        """
        self._allocate(names)
        self._refresh()
        keys = [
            (parameter.has_grad, n)
            for parameter, n in zip(self.parameters, self.steps, strict=True)
        ]
        start = 0
        for (has_grad, steps), members in groupby(keys):
            stop = start + len(list(members))
            if has_grad:
                compute(self._part(names, start, stop, steps))
                for number in range(start, stop):
                    self._changed(number, bool(names))
            start = stop

    def _part(self, names: Sequence[str], start: int, stop: int, steps: int) -> _Part:
        """Return the arrays of the parameters from number ``start`` up to ``stop``."""
        state = {name: self.state[name] for name in names}
        if stop - start == len(self.parameters):
            return _Part(self.data, self.grad, state, self.master, steps)
        span = self._span(start, stop)
        return _Part(
            self.data[span],
            self.grad[span],
            {name: array[span] for name, array in state.items()},
            None if self.master is None else self.master[span],
            steps,
        )

    def _span(self, start: int, stop: int) -> slice:
        """The elements of the parameters from number ``start`` up to ``stop`` in flat arrays."""
        first, last = self.parameters[start].data, self.parameters[stop - 1].data
        begin = (first.offset - self.data.offset) // self.data.dtype.itemsize
        end = (last.offset - self.data.offset) // self.data.dtype.itemsize + last.size
        return slice(begin, end)

    def _refresh(self) -> None:
        """Copy values of 16 bits that were set since the last step to ``master``.

        A copy that was loaded keeps its digits where it rounds to the value, so that modules and
        optimisers may be loaded in any order.
        """
        for number, parameter in enumerate(self.parameters):
            if self.master is not None and parameter.version != self.version[number]:
                part, wide = self._part((), number, number + 1, 0), self._state_dtype
                if self.is_loaded[number]:
                    rounded = elementwise("m", m=part.master, dtype=part.data.dtype)
                    choice: dict[str, Any] = {"m": part.master, "r": rounded, "x": part.data}
                    elementwise("m if r == x else x", dtype=wide, out=part.master, **choice)
                else:
                    elementwise("x", x=part.data, dtype=wide, out=part.master)
                self.version[number] = parameter.version

    def entries(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Copies of the state of each parameter on the host, by torch's names.

        Args:
            names: The names of the arrays of state that the next step uses.
        """
        self._allocate(names)
        self._refresh()
        masters = {} if self.master is None else {"master": self.master}
        result = []
        for number, (parameter, steps) in enumerate(zip(self.parameters, self.steps, strict=True)):
            span = self._span(number, number + 1)
            arrays = {**self.state, **masters} if steps else masters
            entry: dict[str, Any] = {"step": steps} if steps else {}
            for name, array in arrays.items():
                entry[name] = np.array(asnumpy(array[span])).reshape(parameter.shape)
            result.append(entry)
        return result

    def on_device(self, entries: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
        """Copies on the device of the arrays that :meth:`entries` returned, or of others."""
        names = {name for entry in entries for name in entry} - {"step"}
        result = {}
        for name in names:
            # Those of a parameter that is a part of other flat arrays are not flat themselves.
            values = np.zeros(self.data.size, self._state_dtype)
            for number, entry in enumerate(entries):
                if name in entry:
                    with np.errstate(over="ignore"):
                        values[self._span(number, number + 1)] = asnumpy(entry[name]).ravel()
            result[name] = asarray(values.reshape(self.data.shape), queue=self.data.queue)
        return result

    def replace(self, entries: Sequence[Mapping[str, Any]], arrays: dict[str, Array]) -> None:
        """Take the numbers of steps of ``entries``, and their arrays on the device."""
        self.steps = [int(entry.get("step", 0)) for entry in entries]
        self.is_loaded = ["master" in entry for entry in entries]
        self.version = [None] * len(entries)  # ``master`` is compared with all values
        self.master = arrays.pop("master", self.master)
        self.state = arrays

    def _changed(self, number: int, has_state: bool) -> None:
        """Count a step, and raise the parameter's version, by which other optimisers see it."""
        self.steps[number] += has_state
        if self.master is not None:
            self.parameters[number].version += 1
            self.version[number] = self.parameters[number].version
            self.is_loaded[number] = False


class Optimizer(Saved):
    """The base of optimisers.

    Attributes:
        defaults: The options of groups that say nothing else.
        param_groups: The options of each group of parameters, by torch's names; ``lr`` and the
            others may be changed between steps, which builds nothing.
        steps: The number of steps so far.
    """

    #: The names of all arrays of state, and the entries that a state dictionary may lack.
    _arrays: ClassVar[tuple[str, ...]] = ()
    _optional: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        """Take parameters, or a list of dictionaries with ``params`` and options of their own."""
        try:
            listed = [params] if isinstance(params, (ModuleParameter, Mapping)) else list(params)
        except Exception as error:  # raised by the value's own methods, too
            reraise_of_signal(error)
            listed = [params]
        if not any(isinstance(item, Mapping) for item in listed):
            listed = [{"params": listed}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._slots: list[list[_Slot]] = []
        self.steps = 0
        seen: set[int] = set()
        for entry in listed:
            group = dict(of_kind(entry, Mapping, "a group of params", "a dictionary"))
            unknown = sorted(set(group) - set(defaults) - {"params"})
            if unknown or "params" not in group:
                raise ArgumentError(
                    f"a group has {unknown or 'no params'}; expected params, {', '.join(defaults)}"
                )
            group = {**defaults, **group, "params": as_parameters(group["params"], "params")}
            self._check(group)
            if any(id(item) in seen for item in group["params"]):
                raise ArgumentError("a parameter is in two groups; expected one")
            seen |= {id(item) for item in group["params"]}
            self.param_groups.append(group)
        for group in self.param_groups:
            pairs = flattened(group["params"])
            self._slots.append([_Slot(*pair, self._states(group)) for pair in pairs])

    def __getstate__(self) -> Any:
        """Refuse copies and pickles, whose parameters would be those of no module."""
        raise ArgumentTypeError(
            f"{type(self).__name__} cannot be copied; make one of the copied module's parameters"
        )

    def zero_grad(self) -> None:
        """Forget all gradients: the next backward pass replaces them."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.zero_grad()

    def step(self) -> None:
        """Update the parameters that have gradients, in one launch for each group and dtype.

        A parameter without a gradient since :meth:`zero_grad` stays as it is, with its state, as in
        torch.  There are more launches if such parameters, or those that have had fewer steps,
        are between others.
        """
        for group in self.param_groups:
            self._check(group)
        for group, slots in zip(self.param_groups, self._slots, strict=True):
            for slot in slots:
                slot.update(self._states(group), partial(self._update, group))
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        """Copies of the state and of all options on the host, by torch's keys.

        Returns:
            ``state``: for the number of each parameter that has some, ``step``, the arrays by
            torch's names, and ``master``, a 16-bit parameter in float32; ``param_groups``: the
            options of each group, with the numbers of its parameters as ``params``; ``steps``.
        """
        state: dict[int, dict[str, Any]] = {}
        groups: list[dict[str, Any]] = []
        for group, slots in zip(self.param_groups, self._slots, strict=True):
            entries = {
                id(parameter): entry
                for slot in slots
                for parameter, entry in zip(
                    slot.parameters, slot.entries(self._states(group)), strict=True
                )
            }
            first = sum(len(other["params"]) for other in groups)
            numbers = list(range(first, first + len(entries)))
            for number, parameter in zip(numbers, group["params"], strict=True):
                if entries[id(parameter)]:
                    state[number] = entries[id(parameter)]
            options = {name: value for name, value in group.items() if name != "params"}
            groups.append({**deepcopy(options), "params": numbers})
        return {"state": state, "param_groups": groups, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the state and all options; the next step has the bits of the saved optimiser's.

        Args:
            state: A dictionary of :meth:`state_dict`, of this class with as many groups and
                parameters of the same shapes, or of torch's optimiser of the same name.  Numbers
                are converted to the dtypes of this state.  A 16-bit parameter whose value is not
                ``master``, rounded, keeps the value.

        Raises:
            ArgumentTypeError: It is not a mapping, or has something else than real numbers.
            ArgumentError: Keys are missing or unknown, and the message names all; an option or a
                number of steps is out of its range.
            ShapeError: Arrays have other shapes; the message names all.  Nothing has been replaced
                after an error.
        """
        values = flat_state(state)
        options = {name for name in values if name.startswith("param_groups.")}
        groups, numbers = self._loaded_groups({name: values.pop(name) for name in options})
        steps = values.pop("steps", None)
        entries = self._loaded_entries(values, groups, numbers)
        largest = max((entry.get("step", 0) for entry in entries.values()), default=0)
        steps = largest if steps is None else _steps(steps, "steps")
        loaded = []
        for slots in self._slots:
            for slot in slots:
                of_slot = [entries[id(parameter)] for parameter in slot.parameters]
                loaded.append((slot, of_slot, slot.on_device(of_slot)))
        for slot, of_slot, arrays in loaded:
            slot.replace(of_slot, arrays)
        for group, new in zip(self.param_groups, groups, strict=True):
            group.clear()
            group.update(new)
        self.steps = steps

    def _loaded_groups(self, values: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int]]:
        """The groups of a state dictionary, and the numbers of all parameters."""
        shapes: dict[str, tuple[int, ...]] = {}
        for at, group in enumerate(self.param_groups):
            named = {"initial_lr": 0.0, **self.defaults, "params": group["params"]}
            shapes |= {f"param_groups.{at}.{key}": np.shape(value) for key, value in named.items()}
            for key in _OF_TORCH:
                values.pop(f"param_groups.{at}.{key}", None)
        shapes |= {
            f"param_groups.{at}.params": (len(group["params"]),)
            for at, group in enumerate(self.param_groups)
        }
        optional = {name for name in shapes if name.endswith(".initial_lr")}
        arrays = fitting(values, shapes, optional)
        groups, numbers = [], []
        for at, group in enumerate(self.param_groups):
            names = [name for name in arrays if name.startswith(f"param_groups.{at}.")]
            new = {name.split(".", 2)[2]: asnumpy(arrays[name]).tolist() for name in names}
            numbers += new.pop("params")
            new = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in new.items()
            }
            groups.append({**new, "params": group["params"]})
            self._check(groups[-1])
            finite(new.get("initial_lr", 0.0), "initial_lr")
        if len(set(numbers)) != len(numbers) or not all(type(value) is int for value in numbers):
            raise ArgumentError(
                "params of param_groups has other numbers than different integers; "
                "expected one for each parameter"
            )
        return groups, numbers

    def _loaded_entries(
        self, values: dict[str, Any], groups: list[dict[str, Any]], numbers: list[int]
    ) -> dict[int, dict[str, Any]]:
        """The state of each parameter, by its ``id``."""
        listed = [(parameter, group) for group in groups for parameter in group["params"]]
        shapes: dict[str, tuple[int, ...]] = {}
        needed: set[str] = set()
        for number, (parameter, group) in zip(numbers, listed, strict=True):
            is_short = element(parameter.data.dtype).itemsize == 2
            prefix = f"state.{number}."
            if any(prefix + name in values for name in ("step", *self._arrays)):
                needed |= {
                    prefix + name for name in {"step", *self._states(group)} - self._optional
                }
            names = (*self._arrays, "master") if is_short else self._arrays
            shapes |= {f"{prefix}step": (), **{prefix + name: parameter.shape for name in names}}
        arrays = fitting(values, shapes, shapes.keys() - needed)
        result: dict[int, dict[str, Any]] = {}
        for number, (parameter, _) in zip(numbers, listed, strict=True):
            prefix = f"state.{number}."
            names = ("step", *self._arrays, "master")
            entry = {name: arrays[prefix + name] for name in names if prefix + name in arrays}
            if "step" in entry:
                entry["step"] = _steps(entry["step"], f"{prefix}step")
            elif set(entry) - {"master"}:
                entry["step"] = 1  # all that a step asks is whether there was one
            result[id(parameter)] = entry
        return result

    def _states(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The names of the state arrays that a step has, which depend on the options."""
        raise NotImplementedError

    def _check(self, group: dict[str, Any]) -> None:
        """Raise ArgumentTypeError or ArgumentError for a wrong option."""
        raise NotImplementedError

    def _update(self, group: dict[str, Any], part: _Part) -> None:
        """Make a step of a range of parameters, by the options of their group."""
        raise NotImplementedError


def _steps(value: Any, name: str) -> int:
    """A number of steps, also as an array without axes or as a float, as torch has it."""
    number = asnumpy(as_array(value, name))
    if number.shape != () or number.dtype.kind == "c" or not 0 <= float(number) < np.inf:
        raise ArgumentError(f"{name} is {number}; expected a number of steps")
    if float(number) != int(number):
        raise ArgumentError(f"{name} is {number}; expected a whole number of steps")
    return int(number)


class SGD(Optimizer):
    """Stochastic gradient descent, by the rules of ``torch.optim.SGD``.

    Cost: 12 bytes of traffic for each float32 parameter, 20 with momentum.
    """

    _arrays = ("momentum_buffer",)
    _optional = frozenset({"step"})  # torch's SGD counts no steps

    def __init__(
        self,
        params: Any,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        """Take parameters and options.

        Raises:
            ArgumentTypeError, ArgumentError: A number is of a wrong type, or is negative;
                ``nesterov`` is given without momentum or with dampening; a parameter is in two
                groups.
        """
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening,
                "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize,
            },
        )  # fmt: skip

    def _states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            at_least_zero(group[name], name)
        finite(group["dampening"], "dampening")
        flag(group["maximize"], "maximize")
        nesterov = flag(group["nesterov"], "nesterov")
        check_nesterov(nesterov, group["momentum"], group["dampening"])

    def _update(self, group: dict[str, Any], part: _Part) -> None:
        names = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
        options = {name: group[name] for name in names}
        is_first, master = part.steps == 0, part.master
        sgd_step(part.data, part.grad, **part.state, is_first=is_first, master=master, **options)


class Adam(Optimizer):
    """Adam, by the rules of ``torch.optim.Adam``.

    Cost: 28 bytes of traffic for each float32 parameter; 30 for a 16-bit one with its copy in
    float32.
    """

    _decoupled = False
    _arrays = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        """Take parameters and options.

        Raises:
            ArgumentTypeError, ArgumentError: A number is of a wrong type, or out of its range; a
                parameter is in two groups.
        """
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                "amsgrad": amsgrad, "maximize": maximize,
            },
        )  # fmt: skip

    def _states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return self._arrays if flag(group["amsgrad"], "amsgrad") else self._arrays[:2]

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("lr", "eps", "weight_decay"):
            at_least_zero(group[name], name)
        check_betas(group["betas"])
        for name in ("amsgrad", "maximize"):
            flag(group[name], name)

    def _update(self, group: dict[str, Any], part: _Part) -> None:
        adam_step(
            part.data, part.grad, **part.state, step=part.steps + 1, lr=group["lr"],
            betas=group["betas"], eps=group["eps"], weight_decay=group["weight_decay"],
            decoupled=self._decoupled, maximize=group["maximize"], master=part.master,
        )  # fmt: skip


class AdamW(Adam):
    """Adam with decoupled weight decay, by the rules of ``torch.optim.AdamW``.

    Cost: As :class:`Adam`.
    """

    _decoupled = True

    def __init__(
        self,
        params: Any,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        """As :class:`Adam`."""
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


#: For each norm, the term of an element, and the expression that combines two terms.
_SUMS = {1.0: ("fabs(x)", "a + b"), 2.0: ("x * x", "a + b"), np.inf: ("fabs(x)", "max(a, b)")}


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0) -> Any:
    """Scale all gradients so that their common norm is at most ``max_norm``.

    Args:
        parameters: Parameters, or one of them.
        max_norm: The largest norm.
        norm_type: 1, 2 or infinity.

    Returns:
        The norm before the scaling: a device array without axes, of float32, or of float64 for
        float64 gradients; if no parameter has a gradient, the NumPy number 0.

    Raises:
        ArgumentTypeError, ArgumentError: ``parameters`` is empty, ``max_norm`` is negative, or the
            norm is unknown.

    Cost: each gradient is read twice and written once.  The call does not wait: the norm stays on
        the device.
    """
    limit = at_least_zero(max_norm, "max_norm")
    if real_number(norm_type, "norm_type") not in _SUMS:
        raise ArgumentError(f"norm_type is {norm_type}; expected 1, 2 or infinity")
    grads = gradients(as_parameters(parameters))
    if not grads:
        return np.float32(0)
    term, fold = _SUMS[norm_type]
    op = BinaryOp("norm", "0", fold)
    wide = np.result_type(np.float32, *(grad.dtype for grad in grads if grad.dtype.itemsize > 2))
    parts = [reduce(grad, op, term, dtype=wide) for grad in grads]
    names = [f"p{k}" for k in range(len(parts))]
    joined = " + ".join(names)
    if norm_type == np.inf:
        joined = names[0] if len(names) == 1 else f"max({', '.join(names)})"
    root = f"sqrt({joined})" if norm_type == 2 else joined
    norm = elementwise(root, dtype=wide, **dict(zip(names, parts, strict=True)))
    scale = elementwise("min(limit / (norm + 1e-6), 1.0)", norm=norm, limit=limit)
    for grad in grads:
        elementwise("g * scale", g=grad, scale=scale, dtype=grad.dtype, out=grad)
    return norm


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip each element of all gradients to ``[-clip_value, clip_value]``.

    Cost: each gradient read once and written once.

    Raises:
        ArgumentTypeError, ArgumentError: ``parameters`` is empty, or ``clip_value`` is negative.
    """
    limit = at_least_zero(clip_value, "clip_value")
    for grad in gradients(as_parameters(parameters)):
        elementwise("clip(g, -limit, limit)", g=grad, limit=limit, out=grad)
