"""The public functions: one step of an optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import finite, flag, of_kind, whole
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
)
from portable_gpu.ops.operation import CallArguments, Invocation, Operation, Result
from portable_gpu.ops.optim.plan import StepProblem, variants
from portable_gpu.ops.variant import bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array, contiguous_strides


def sgd_step(
    param: Any,
    grad: Any,
    momentum_buffer: Any = None,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    is_first: bool = False,
    master: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Update a parameter by one step of stochastic gradient descent, in place.

    Args:
        param: The parameter: C-ordered, float16, bfloat16, float32 or float64.
        grad: Its gradient, of the same shape and dtype.
        momentum_buffer: The state, of the same shape; float32 for 16-bit parameters.  Needed with
            ``momentum``.
        lr, momentum, dampening, weight_decay, nesterov, maximize: As in ``torch.optim.SGD``.
        is_first: Whether this is the first step, which takes the gradient as the buffer.
        master: The parameter in float32, for 16-bit parameters: it is updated, and ``param`` is
            this value rounded.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``param``.

    Raises:
        ShapeError: An array has another shape than ``param``, or gaps.
        DTypeError: An array has a wrong dtype.
        ArgumentTypeError, ArgumentError: A number is of a wrong type, or out of its range;
            ``nesterov`` is given without momentum or with dampening.
        OverlapError: Two of the arrays share memory.

    Cost: one launch; each array read once, each but ``grad`` written once.  A call with other
        numbers builds no program.
    Accuracy: a rounding for each operation, in float32 for 16-bit parameters.
    Order: elements do not depend on each other; the same bits for one target and size.
    """
    lr, weight_decay = at_least_zero(lr, "lr"), at_least_zero(weight_decay, "weight_decay")
    momentum, dampening = at_least_zero(momentum, "momentum"), finite(dampening, "dampening")
    nesterov_on = flag(nesterov, "nesterov")
    check_nesterov(nesterov_on, momentum, dampening)
    if momentum and momentum_buffer is None:
        raise ArgumentError(f"momentum is {momentum} and there is no momentum_buffer; pass one")
    if not momentum:
        momentum_buffer = None
    first = flag(is_first, "is_first")
    carry, fresh = (0.0, 1.0) if first else (momentum, 1 - dampening)
    scalars = lr, weight_decay, carry, fresh, momentum
    states = {} if momentum_buffer is None else {"buffer": momentum_buffer}
    flags = _on(maximize=flag(maximize, "maximize"), nesterov=nesterov_on)
    return _step("sgd", param, grad, states, master, flags, scalars, engine, queue, wait_for)


def adam_step(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any = None,
    *,
    step: int,
    lr: float = 0.001,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
    master: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Update a parameter by one step of Adam or AdamW, in place.

    Args:
        param, grad, master, engine, queue, wait_for: See :func:`sgd_step`.
        exp_avg, exp_avg_sq: The running means of the gradient and of its square, of the same
            shape; float32 for 16-bit parameters.
        max_exp_avg_sq: The largest mean of squares so far, for AMSGrad.
        step: The number of this step, from 1 on.
        lr, betas, eps, weight_decay, maximize: As in ``torch.optim.Adam``.
        decoupled: Whether the parameter itself decays (AdamW), and not by its gradient.

    Returns, Raises, Cost, Accuracy, Order: As in :func:`sgd_step`.
    Source: Kingma & Ba, arXiv:1412.6980; Loshchilov & Hutter, arXiv:1711.05101 (AdamW); Reddi, Kale
        & Kumar, ICLR 2018 (AMSGrad).
    """
    lr, weight_decay = at_least_zero(lr, "lr"), at_least_zero(weight_decay, "weight_decay")
    eps = at_least_zero(eps, "eps")
    beta1, beta2 = check_betas(betas)
    if whole(step, "step") < 1:
        raise ArgumentError(f"step is {step}; expected 1 or more")
    is_decoupled = flag(decoupled, "decoupled")
    decay = lr * weight_decay if is_decoupled else weight_decay
    step_size, root = lr / (1 - beta1**step), 1 / sqrt(1 - beta2**step)
    # In the order of the kernel's scalars.
    scalars = decay, 1 - beta1, beta2, 1 - beta2, step_size, root, eps
    states = {"average": exp_avg, "squares": exp_avg_sq}
    if max_exp_avg_sq is not None:
        states["largest"] = max_exp_avg_sq
    flags = _on(
        maximize=flag(maximize, "maximize"),
        amsgrad=max_exp_avg_sq is not None,
        decoupled=is_decoupled,
    )
    return _step("adam", param, grad, states, master, flags, scalars, engine, queue, wait_for)


#: The names of the state arrays in messages.
_NAMES = {
    "buffer": "momentum_buffer", "average": "exp_avg", "squares": "exp_avg_sq",
    "largest": "max_exp_avg_sq", "master": "master",
}  # fmt: skip


def at_least_zero(value: Any, name: str) -> float:
    """``value``, if it is a finite number of at least 0."""
    if finite(value, name) < 0:
        raise ArgumentError(f"{name} is {value}; expected at least 0")
    return float(value)


def check_betas(betas: Any) -> tuple[float, float]:
    """The two factors of Adam.

    Raises:
        ArgumentTypeError, ArgumentError: They are not two numbers of at least 0, and below 1.
    """
    pair = tuple(of_kind(betas, (tuple, list), "betas", "a pair of numbers"))
    if len(pair) != 2:
        raise ArgumentError(f"betas has {len(pair)} numbers; expected two")
    for at, value in enumerate(pair):
        if not 0 <= finite(value, f"betas[{at}]") < 1:
            raise ArgumentError(f"betas[{at}] is {value}; expected at least 0 and less than 1")
    return float(pair[0]), float(pair[1])


def check_nesterov(nesterov: bool, momentum: float, dampening: float) -> None:
    """Raise ArgumentError if Nesterov's step lacks momentum or has dampening."""
    if nesterov and (momentum <= 0 or dampening != 0):
        raise ArgumentError(
            f"nesterov is true, momentum {momentum} and dampening {dampening}; "
            "expected a momentum above 0 and no dampening"
        )


def _on(**flags: bool) -> frozenset[str]:
    return frozenset(name for name, is_on in flags.items() if is_on)


def _step(
    rule: str,
    param: Any,
    grad: Any,
    states: dict[str, Any],
    master: Any,
    flags: frozenset[str],
    scalars: tuple[float, ...],
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    if master is not None:
        states = {**states, "master": master}
    options = rule, tuple(states), flags
    written = (param, *states.values())
    out = written if len(written) > 1 else param
    results = _STEP.call((grad,), options, out, scalars, engine, queue, wait_for)
    return results[0] if len(written) > 1 else results


def _normalise(arguments: CallArguments) -> Invocation:
    rule, names, flags = arguments.options
    targets = arguments.out if names else (arguments.out,)
    grad = as_array(arguments.inputs[0], "grad")
    written = {
        name: as_array(array, _NAMES.get(name, name), overwrite=True)
        for name, array in zip(("param", *names), targets, strict=True)
    }
    param = written["param"]
    elem = element(param.dtype)
    if not elem.floating or elem.complex:
        raise DTypeError(f"param is {param.dtype}; expected float16, bfloat16, float32 or float64")
    state_dtype = np.dtype(np.float32) if elem.itemsize == 2 else param.dtype
    for name, array in {"grad": grad, **written}.items():
        expected = param.dtype if name in ("grad", "param") else state_dtype
        shown_name = _NAMES.get(name, name)
        if array.dtype != expected:
            raise DTypeError(
                f"{shown_name} is {array.dtype}; expected {expected} with a param of {param.dtype}"
            )
        if array.shape != param.shape:
            raise ShapeError(
                f"{shown_name} has shape {array.shape}; expected {param.shape}, that of param"
            )
        steps = contiguous_strides(array.shape)
        if array.size and any(
            n > 1 and stride != step * array.dtype.itemsize
            for n, stride, step in zip(array.shape, array.strides, steps, strict=True)
        ):
            raise ShapeError(f"{shown_name} has gaps or another order; expected a C-ordered array")
    if "master" in names and elem.itemsize != 2:
        raise DTypeError(f"master is given and param is {param.dtype}; it serves 16-bit parameters")
    states = tuple(name for name in names if name != "master")

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        is_aligned = all(view.alignment >= 16 for view in views)
        problem = StepProblem(
            rule=rule, elem=elem, wide=element(state_dtype), size=prod(param.shape), states=states,
            master="master" in names, flags=flags, is_aligned=is_aligned,
        )  # fmt: skip
        return engine.plan(problem, lambda: bind_best(engine, variants(problem, engine.target)))

    more = tuple(
        Result(param.shape, array.dtype, _NAMES[name], True)
        for name, array in written.items()
        if name != "param"
    )
    return Invocation(
        inputs=(grad,),
        names=("grad",),
        shape=param.shape,
        dtype=param.dtype,
        plan=plan,
        flop=20 * param.size,
        scalars=arguments.scalars,
        out=arguments.out,
        out_name="param",
        reads_out=True,
        more=more,
        computes=(state_dtype,),
    )


_STEP = Operation("optim step", _normalise)
