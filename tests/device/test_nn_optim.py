"""Optimisers against torch's rules in NumPy's float64, clipping, and schedules."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from math import cos, pi
from typing import Any

import numpy as np
import pytest
from layers.optim import Rules

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceMemoryError,
    DTypeError,
    ShapeError,
)
from portable_gpu.nn import parameter as parameter_module
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch

BFLOAT16 = bfloat16()

EPS = np.finfo(np.float32).eps


CASES: list[tuple[Any, str, dict[str, Any]]] = [
    (nn.SGD, "sgd", {"lr": 0.1, "weight_decay": 0.01, "maximize": True}),
    (nn.SGD, "sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25}),
    (nn.SGD, "sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (nn.Adam, "adam", {"lr": 0.01, "weight_decay": 0.1}),
    (nn.Adam, "adam", {"lr": 0.01, "amsgrad": True, "betas": (0.5, 0.6)}),
    (nn.AdamW, "adam", {"lr": 0.01, "weight_decay": 0.1}),
]


def _parameters(engine: Engine, shapes: Any, dtype: Any = np.float32) -> list[nn.Parameter]:
    rng = np.random.default_rng(5)
    return [nn.Parameter(rng.standard_normal(shape).astype(dtype), engine) for shape in shapes]


def _with_gradients(parameters: list[nn.Parameter], rng: Any) -> list[Any]:
    """Give each parameter a random gradient, as a backward pass does; return them."""
    grads = []
    for parameter in parameters:
        values = rng.standard_normal(parameter.shape).astype(parameter.data.dtype)
        grads.append(values)
        device = pg.asarray(values, queue=parameter.data.queue)

        def compute(out: Any, device: Any = device) -> Any:
            return pg.elementwise("x", x=device, out=out)

        parameter.add_grad(compute)
    return grads


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join([c[1], *map(str, c[2])]))
def test_rules(engine: Engine, case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five steps of parameters of odd sizes; one launch for all; other numbers build nothing."""
    kind, rule, options = case
    parameters = _parameters(engine, [(7, 5), (3,), (65,), ()])
    optimizer = kind(parameters, **options)
    exact = [Rules(pg.asnumpy(parameter.data)) for parameter in parameters]
    extra = {"decoupled": True} if kind is nn.AdamW else {}
    rng = np.random.default_rng(0)
    launches: list[str] = []
    plain = Launch.__call__

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        launches.append("step")
        return plain(self, *args, **options)

    for step in range(5):
        optimizer.zero_grad()
        grads = _with_gradients(parameters, rng)
        optimizer.param_groups[0]["lr"] = options["lr"] / (step + 1)
        with monkeypatch.context() as patch:
            patch.setattr(Launch, "__call__", counted)
            optimizer.step()
        for rules, grad in zip(exact, grads, strict=True):
            numbers = {**options, "lr": options["lr"] / (step + 1), **extra}
            getattr(rules, rule)(grad.astype(np.float64), **numbers)
    assert len(launches) <= 2 * 5  # a launch that compiles calls another; 20 would be one each
    for rules, parameter in zip(exact, parameters, strict=True):
        error = np.abs(pg.asnumpy(parameter.data) - rules.p)
        assert np.all(error <= 40 * EPS * (np.abs(rules.p) + 1)), error.max()


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float64])
def test_master_weights(engine: Engine, dtype: Any) -> None:
    """Many small steps of 16-bit parameters: the copy in float32 does not lose them."""
    if dtype is None:
        pytest.skip("ml_dtypes is not installed")
    if dtype is np.float64 and not engine.target.fp64:
        pytest.skip("no double precision")
    parameter = nn.Parameter(np.ones(5, dtype), engine)
    optimizer = nn.SGD([parameter], lr=1e-5)
    ones = pg.asarray(np.ones(5, dtype), engine=engine)
    for _ in range(100):
        optimizer.zero_grad()
        parameter.add_grad(lambda out: pg.elementwise("x", x=ones, out=out))
        optimizer.step()
    expected = np.full(5, 1 - 1e-3).astype(dtype)
    np.testing.assert_allclose(
        pg.asnumpy(parameter.data).astype(float), expected.astype(float), rtol=1e-5
    )
    parameter.set(np.full(5, 2, dtype))
    optimizer.zero_grad()
    optimizer.step()  # without a gradient: nothing changes, and the new values are kept
    assert np.all(pg.asnumpy(parameter.data).astype(float) == 2)


STEADY: list[tuple[Any, str, dict[str, Any]]] = [
    (nn.SGD, "sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25, "weight_decay": 0.1}),
    (nn.Adam, "adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    (nn.AdamW, "adam", {"lr": 0.01, "weight_decay": 0.1}),
]


@pytest.mark.parametrize("case", STEADY, ids=lambda c: c[0].__name__)
@pytest.mark.parametrize("clips", [False, True])
def test_parameters_without_gradients_stay(engine: Engine, case: Any, clips: bool) -> None:
    """Neither they nor their state change, and their first step is that of their first gradient."""
    kind, rule, options = case
    parameters = _parameters(engine, [(7, 5), (3,), (65,), (4,)])
    optimizer = kind(parameters, **options)
    exact = [Rules(pg.asnumpy(parameter.data)) for parameter in parameters]
    extra = {"decoupled": True} if kind is nn.AdamW else {}
    rng = np.random.default_rng(1)
    for active in ((0, 2), (0, 1, 2), (), (2,), (0, 1, 2, 3), (1, 3)):
        optimizer.zero_grad()
        grads = _with_gradients([parameters[k] for k in active], rng)
        if clips:
            nn.clip_grad_norm_(parameters, 1e6)  # also reads the gradients of the others
        optimizer.step()
        for k, grad in zip(active, grads, strict=True):
            getattr(exact[k], rule)(grad.astype(np.float64), **options, **extra)
        for rules, parameter in zip(exact, parameters, strict=True):
            error = np.abs(pg.asnumpy(parameter.data) - rules.p)
            assert np.all(error <= 40 * EPS * (np.abs(rules.p) + 1)), (active, error.max())


def test_a_factor_of_0_leaves_out_what_is_not_a_number(engine: Engine) -> None:
    """The first step does not read its buffer; infinite parameters do not decay by 0."""
    x, grad = np.array([1, np.inf, -np.inf], np.float32), np.ones(3, np.float32)
    buffer = np.full(3, np.nan, np.float32)
    nn.sgd_step(x, grad, buffer, lr=0.5, momentum=0.9, is_first=True, engine=engine)
    np.testing.assert_array_equal(x, [0.5, np.inf, -np.inf])
    np.testing.assert_array_equal(buffer, grad)
    for decoupled in (False, True):
        x = np.array([1, np.inf, -np.inf], np.float32)
        state = [np.zeros(3, np.float32) for _ in range(2)]
        nn.adam_step(x, grad, *state, step=1, lr=0.5, decoupled=decoupled, engine=engine)
        np.testing.assert_allclose(x, [0.5, np.inf, -np.inf], rtol=1e-6)
    state = [np.zeros(1, np.float32) for _ in range(3)]
    nn.adam_step(x[:1], np.full(1, np.nan, np.float32), *state, step=1, engine=engine)
    assert all(np.isnan(each) for each in state)  # also the largest square


def test_momentum_begins_later(engine: Engine) -> None:
    """The first gradient with momentum is the buffer, which steps without momentum leave."""
    parameters = _parameters(engine, [(5,)])
    optimizer, rules = nn.SGD(parameters, lr=0.1), Rules(pg.asnumpy(parameters[0].data))
    rng, dampening = np.random.default_rng(2), 0.25
    optimizer.param_groups[0]["dampening"] = dampening
    for momentum in (0.0, 0.5, 0.5, 0.0, 0.9):
        optimizer.zero_grad()
        (grad,) = _with_gradients(parameters, rng)
        optimizer.param_groups[0]["momentum"] = momentum
        optimizer.step()
        rules.sgd(grad.astype(np.float64), 0.1, momentum, dampening)
        error = np.abs(pg.asnumpy(parameters[0].data) - rules.p)
        assert np.all(error <= 40 * EPS * (np.abs(rules.p) + 1)), (momentum, error.max())


def test_values_that_are_set_leave_the_copies_of_others(engine: Engine) -> None:
    """Setting one of two 16-bit parameters does not lose small steps of the other."""
    first, second = (nn.Parameter(np.ones(5, np.float16), engine) for _ in range(2))
    optimizer = nn.SGD([first, second], lr=1e-4)
    for _ in range(100):
        first.set(np.full(5, 2, np.float16))
        for parameter in (first, second):
            parameter.grad = np.ones(5, np.float16)
        optimizer.step()
    np.testing.assert_array_equal(pg.asnumpy(second.data), np.full(5, 0.99, np.float16))
    np.testing.assert_array_equal(pg.asnumpy(first.data), np.full(5, 2, np.float16))


def test_one_cycle_takes_a_step_after_each_step(engine: Engine) -> None:
    """The usual loop calls the schedule after the last step, too; a further call is refused."""
    optimizer = nn.SGD([nn.Parameter(np.ones(2, np.float32), engine)], lr=0.5, momentum=0.9)
    schedule = nn.OneCycleLR(optimizer, 1.0, 7, pct_start=0.25)
    rates = []
    for _ in range(7):
        rates += schedule.get_last_lr()
        schedule.step()
    assert max(rates) <= 1
    assert rates[-1] == pytest.approx(1 / 25e4)
    with pytest.raises(ArgumentError, match="total_steps is 7, and all of them are done"):
        schedule.step()


def test_groups_and_shared_flat_arrays(engine: Engine) -> None:
    parameters = _parameters(engine, [(4, 3), (4,), (2,)])
    groups = [{"params": parameters[:2], "lr": 0.5}, {"params": parameters[2]}]
    nn.SGD(groups, lr=0.25)
    second = nn.SGD(parameters[1:], lr=1.0)  # a part of one flat array, all of another
    before = [pg.asnumpy(one.data) for one in parameters]
    grads = _with_gradients(parameters, np.random.default_rng(1))
    second.step()
    after = [pg.asnumpy(one.data) for one in parameters]
    assert np.array_equal(after[0], before[0])
    for k in (1, 2):
        np.testing.assert_allclose(after[k], before[k] - grads[k], atol=1e-6)
    _with_gradients(parameters, np.random.default_rng(1))  # a second gradient is added
    np.testing.assert_allclose(pg.asnumpy(parameters[0].grad), 2 * grads[0], atol=1e-6)


def test_clipping(engine: Engine) -> None:
    for flat in (False, True):
        parameters = _parameters(engine, [(40, 3), (7,)])
        if flat:
            nn.SGD(parameters, lr=1.0)
        grads = _with_gradients(parameters, np.random.default_rng(2))
        every = np.concatenate([one.ravel() for one in grads])
        total = float(np.linalg.norm(every))
        assert float(nn.clip_grad_norm_(parameters, 1e3)) == pytest.approx(total, rel=1e-6)
        assert np.array_equal(pg.asnumpy(parameters[0].grad), grads[0])
        assert float(nn.clip_grad_norm_(parameters, 2.0)) == pytest.approx(total, rel=1e-6)
        got = np.concatenate([pg.asnumpy(one.grad).ravel() for one in parameters])
        np.testing.assert_allclose(got, every * (2 / total), rtol=1e-5)
        norm = nn.clip_grad_norm_(parameters, 1e3, np.inf)
        assert float(norm) == pytest.approx(np.abs(got).max(), rel=1e-6)
        nn.clip_grad_value_(parameters, 0.05)
        np.testing.assert_array_equal(
            np.concatenate([pg.asnumpy(one.grad).ravel() for one in parameters]),
            np.clip(got, np.float32(-0.05), np.float32(0.05)),
        )


def _cycle(step: int) -> float:
    """Torch's documentation: up to 1 in 30 % of 20 steps, then down to 1 / 25 / 10^4."""
    top, first, last = 0.3 * 20 - 1, 1 / 25, 1 / 25 / 1e4
    start, end, part = first, 1.0, step / top
    if step > top:
        start, end, part = 1.0, last, (step - top) / (19 - top)
    return end + (start - end) / 2 * (1 + cos(pi * part))


SCHEDULES: list[tuple[Callable[[Any], Any], Callable[[int], float]]] = [
    (lambda o: nn.StepLR(o, 3, 0.5), lambda k: 2 * 0.5 ** (k // 3)),
    (lambda o: nn.MultiStepLR(o, [8, 2]), lambda k: 2 * 0.1 ** ((k >= 2) + (k >= 8))),
    (lambda o: nn.ExponentialLR(o, 0.9), lambda k: 2 * 0.9**k),
    (lambda o: nn.CosineAnnealingLR(o, 10, 0.5), lambda k: 0.5 + 0.75 * (1 + cos(pi * k / 10))),
    (lambda o: nn.LinearLR(o, 0.25, 1, 4), lambda k: 2 * min(1, 0.25 + 0.75 * k / 4)),
    (lambda o: nn.OneCycleLR(o, 1.0, 20), _cycle),
    (
        lambda o: nn.SequentialLR(o, [nn.LinearLR(o, 0.5, 1, 2), nn.ExponentialLR(o, 0.5)], [3]),
        lambda k: 2 * min(1, 0.5 + 0.25 * k) if k < 3 else 2 * 0.5 ** (k - 3),
    ),
]


@pytest.mark.parametrize("number", range(len(SCHEDULES)))
def test_schedules(engine: Engine, number: int) -> None:
    make, expected = SCHEDULES[number]
    optimizer = nn.SGD(_parameters(engine, [(2,)]), lr=2.0, momentum=0.9)
    schedule = make(optimizer)
    rates = []
    for _ in range(15):
        rates += schedule.get_last_lr()
        schedule.step()
    np.testing.assert_allclose(rates, [expected(k) for k in range(15)], rtol=1e-12)


def test_schedules_scale_what_the_groups_have(engine: Engine) -> None:
    """Several schedules of one optimiser multiply, and a learning rate that was set stays set."""
    (parameter,) = _parameters(engine, [(2,)])
    optimizer = nn.SGD([parameter], lr=2.0)
    both = nn.LinearLR(optimizer, 0.5, 1, 4), nn.ExponentialLR(optimizer, 0.9)
    for step in range(8):
        rate = 2 * min(1, 0.5 + step / 8) * 0.9**step
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate, rel=1e-12)
        for schedule in both:
            schedule.step()
    optimizer = nn.SGD([parameter], lr=2.0)
    cosine = nn.CosineAnnealingLR(optimizer, 4, 0.5)
    cosine.step()
    optimizer.param_groups[0]["lr"] = 1.0
    cosine.step()  # torch's rule: the part above eta_min is scaled
    ratio = (1 + cos(pi * 2 / 4)) / (1 + cos(pi / 4))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 + 0.5 * ratio, rel=1e-12)
    for _ in range(4):  # over the end, where there is nothing to scale
        cosine.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 + 0.75 * (1 + cos(pi * 1.5)))


def test_one_cycle_sets_a_momentum_that_was_0(engine: Engine) -> None:
    optimizer = nn.SGD(_parameters(engine, [(2,)]), lr=2.0)
    schedule = nn.OneCycleLR(optimizer, 1.0, 10)
    assert optimizer.param_groups[0]["momentum"] == pytest.approx(0.95)
    for _ in range(2):
        schedule.step()
    assert optimizer.param_groups[0]["momentum"] == pytest.approx(0.85)


def test_wrong_arguments(engine: Engine) -> None:
    parameters = _parameters(engine, [(2,)])
    x, wide = np.ones(4, np.float32), np.ones(4)
    options = {"lr": 0.1, "momentum": 0.9}
    wrong: list[tuple[Any, str, Callable[[], Any]]] = [
        (ArgumentError, "lr is -1", lambda: nn.SGD(parameters, lr=-1)),
        (ArgumentTypeError, "lr is '1'", lambda: nn.SGD(parameters, lr="1")),
        (ArgumentError, "nesterov is true", lambda: nn.SGD(parameters, 1, nesterov=True)),
        (ArgumentError, r"betas\[1\] is 1", lambda: nn.Adam(parameters, betas=(0.9, 1))),
        (ArgumentTypeError, "an element of params", lambda: nn.Adam([x])),
        (ArgumentError, "empty", lambda: nn.Adam([])),
        (ArgumentError, r"\['rate'\]", lambda: nn.Adam([{"params": parameters, "rate": 1}])),
        (ArgumentError, "two groups", lambda: nn.Adam([{"params": parameters}] * 2)),
        (ShapeError, r"grad has shape \(3,\)", lambda: nn.sgd_step(x, x[:3], lr=1)),
        (DTypeError, "momentum_buffer is float64", lambda: nn.sgd_step(x, x, wide, **options)),
        (ShapeError, "grad has gaps", lambda: nn.sgd_step(x, np.ones(8, "f4")[::2], lr=1)),
        (ArgumentError, "no momentum_buffer", lambda: nn.sgd_step(x, x, **options)),
        (ArgumentError, "step is 0", lambda: nn.adam_step(x, x, x, x, step=0)),
        (ArgumentError, "norm_type is 3", lambda: nn.clip_grad_norm_(parameters, 1, 3)),
        (ArgumentError, "max_norm is -1", lambda: nn.clip_grad_norm_(parameters, -1)),
        (ArgumentError, "step_size is 0", lambda: nn.StepLR(nn.SGD(parameters), 0)),
        (ArgumentTypeError, "optimizer", lambda: nn.StepLR(parameters, 1)),
        (ArgumentError, "start_factor", lambda: nn.LinearLR(nn.SGD(parameters), 0)),
        (
            ArgumentError, "another optimizer",
            lambda: nn.SequentialLR(
                nn.SGD(parameters), [nn.StepLR(nn.SGD(parameters), 1)] * 2, [1]
            ),
        ),
    ]  # fmt: skip
    for error, message, call in wrong:
        with pytest.raises(error, match=message):
            call()
    assert np.all(x == 1)


@pytest.mark.parametrize("copied", [deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_of_modules_are_trained_by_themselves(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, copied: Callable[[Any], Any]
) -> None:
    """A copy of a module whose parameters are views of flat arrays has memory of its own."""
    monkeypatch.setattr(registry, "_default", engine)
    module = nn.Linear(3, 2, engine=engine)
    optimizer = nn.SGD(module.parameters(), lr=0.5)
    with pytest.raises(ArgumentTypeError, match="SGD cannot be copied"):
        copied(optimizer)
    other = copied(module)
    nn.SGD(other.parameters(), lr=0.5)  # and moved again
    second = nn.SGD(other.parameters(), lr=0.5)
    before = pg.asnumpy(module.weight.data)
    np.testing.assert_array_equal(pg.asnumpy(other.weight.data), before)
    other(np.ones((4, 3), np.float32))
    other.backward(pg.asarray(np.ones((4, 2), np.float32), engine=engine))
    second.step()
    np.testing.assert_array_equal(pg.asnumpy(module.weight.data), before)
    np.testing.assert_allclose(pg.asnumpy(other.weight.data), before - 2, rtol=4 * EPS)


def test_assigned_gradients_and_values_are_those_of_the_optimizer(engine: Engine) -> None:
    """``grad = None``, as in torch, forgets the gradient; arrays are copied to where it is read."""
    (one,) = _parameters(engine, [(3, 2)])
    one.grad = None
    optimizer = nn.SGD([one], lr=1.0)
    expected = pg.asnumpy(one.data).astype(np.float64)
    for k in range(1, 3):
        one.grad = None
        one.add_grad(lambda out: pg.elementwise("x * 0 + g", x=one.data, g=float(k), out=out))  # noqa: B023
        optimizer.step()
        expected -= k
    one.grad = np.full((3, 2), 4, np.float32)
    optimizer.step()
    one.grad = None
    optimizer.step()  # by 0
    np.testing.assert_allclose(pg.asnumpy(one.data), expected - 4, rtol=16 * EPS)
    one.data = np.full((3, 2), 7, np.float32)
    one.grad = pg.asarray(np.ones((3, 2)), engine=engine)
    optimizer.step()
    np.testing.assert_array_equal(pg.asnumpy(one.data), np.full((3, 2), 6, np.float32))
    for name in ("grad", "data"):
        with pytest.raises(ShapeError, match="shape"):
            setattr(one, name, np.ones(6, np.float32))


def test_a_failure_moves_no_parameter(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = _parameters(engine, [(3, 2), (4,)])
    values, copies = [pg.asnumpy(parameter.data) for parameter in parameters], []

    def failing(*arguments: Any, **options: Any) -> Any:
        copies.append(options["out"])
        if len(copies) == 2:
            raise DeviceMemoryError("no memory")
        return pg.elementwise(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(parameter_module, "elementwise", failing)
        with pytest.raises(DeviceMemoryError):
            nn.SGD(parameters)
    assert len(copies) == 2
    assert all(parameter.flat is None for parameter in parameters)
    nn.SGD(parameters)
    assert parameters[0].flat is parameters[1].flat is not None
    for parameter, before in zip(parameters, values, strict=True):
        np.testing.assert_array_equal(pg.asnumpy(parameter.data), before)


def test_optimizers_of_the_same_short_parameter(engine: Engine) -> None:
    """Each has a copy in float32, and takes over what the other one has computed."""
    (one,) = _parameters(engine, [(5,)], np.float16)
    one.set(np.zeros(5, np.float16))
    first, second = nn.SGD([one], lr=1.0), nn.SGD([one], lr=2.0)
    for optimizer, value in ((first, -1), (second, -3), (first, -4), (first, -5), (second, -7)):
        one.grad = np.ones(5, np.float16)
        optimizer.step()
        np.testing.assert_array_equal(pg.asnumpy(one.data), np.full(5, value, np.float16))


@pytest.mark.parametrize(
    ("kind", "options"), [(nn.SGD, {"momentum": 0.5, "dampening": 0.5}), (nn.Adam, {})]
)
def test_a_step_that_fails_for_some_parameters_is_their_first_one_later(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: Any, options: dict[str, Any]
) -> None:
    """Momentum and the corrections of Adam count the steps that parameters have had."""
    first, second = (nn.Parameter(np.zeros(5, dtype), engine) for dtype in ("f4", "f8"))
    optimizer, updated, update = kind([first, second], lr=0.001, **options), [], kind._update

    def failing(self: Any, group: Any, slot: Any) -> None:
        if updated:
            raise DeviceMemoryError("no memory")
        updated.append(slot)
        update(self, group, slot)

    first.grad, second.grad = np.ones(5, np.float32), np.ones(5)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "_update", failing)
        with pytest.raises(DeviceMemoryError):
            optimizer.step()
    assert optimizer.steps == 0
    optimizer.step()
    assert optimizer.steps == 1
    np.testing.assert_allclose(pg.asnumpy(second.data), -0.001, rtol=1e-6)
