"""State dictionaries of optimisers and schedules: training that is resumed has the same bits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine

SHAPES = [(7, 5), (3,), (65,), ()]

OPTIMISERS: list[tuple[Any, dict[str, Any]]] = [
    (nn.SGD, {"lr": 0.1}),
    (nn.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.25}),
    (nn.Adam, {"weight_decay": 0.1, "amsgrad": True}),
    (nn.AdamW, {"lr": 0.01}),
]

SCHEDULES: list[Callable[[Any], Any]] = [
    lambda o: nn.StepLR(o, 3, 0.5),
    lambda o: nn.MultiStepLR(o, [8, 2]),
    lambda o: nn.ExponentialLR(o, 0.9),
    lambda o: nn.CosineAnnealingLR(o, 10, 0.5),
    lambda o: nn.LinearLR(o, 0.25, 1, 4),
    lambda o: nn.OneCycleLR(o, 1.0, 20),
    lambda o: nn.SequentialLR(o, [nn.LinearLR(o, 0.5, 1, 2), nn.CosineAnnealingLR(o, 5)], [3]),
]


class _Training:
    """Parameters in two groups, an optimiser and a schedule, with the same values each time."""

    def __init__(self, engine: Engine, kind: Any, options: Any, dtype: Any = np.float32) -> None:
        rng = np.random.default_rng(5)
        values = [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]
        self.parameters = [nn.Parameter(one, engine) for one in values]
        groups = [{"params": self.parameters[:3], "lr": 0.02}, {"params": self.parameters[3]}]
        self.optimizer = kind(groups, **options)
        self.schedule = nn.LinearLR(self.optimizer, 0.25, 1, 5)

    def steps(self, first: int, stop: int) -> None:
        """Make steps, the second of every three without a gradient of one parameter."""
        for step in range(first, stop):
            rng = np.random.default_rng(step)
            self.optimizer.zero_grad()
            for number, one in enumerate(self.parameters):
                grad = rng.standard_normal(one.shape).astype(one.data.dtype)
                if number != 1 or step % 3 != 1:
                    one.grad = grad
            self.optimizer.step()
            self.schedule.step()

    def values(self) -> list[bytes]:
        """The bits of all parameters."""
        return [pg.asnumpy(one.data).tobytes() for one in self.parameters]

    def set(self, values: list[bytes]) -> None:
        """Replace the parameters, as ``load_state_dict`` of a module does."""
        for one, bits in zip(self.parameters, values, strict=True):
            one.set(np.frombuffer(bits, one.data.dtype).reshape(one.shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("kind", "options"), OPTIMISERS, ids=str)
def test_training_goes_on_with_the_same_bits(
    engine: Engine, tmp_path: Path, kind: Any, options: dict[str, Any], dtype: Any
) -> None:
    """Saved after four of nine steps, and loaded by new objects, whatever is loaded first."""
    whole = _Training(engine, kind, options, dtype)
    whole.steps(0, 4)
    values, files = whole.values(), [tmp_path / "a.npz", tmp_path / "b.safetensors"]
    for file in files:
        whole.optimizer.save(file)
    whole.schedule.save(tmp_path / "schedule.npz")
    whole.steps(4, 9)
    for file, values_first in zip(files, (True, False), strict=True):
        resumed = _Training(engine, kind, options, dtype)
        resumed.steps(0, 2)  # what these have is replaced
        if values_first:
            resumed.set(values)
        resumed.optimizer.load(file)
        if not values_first:
            resumed.set(values)
        resumed.schedule.load(tmp_path / "schedule.npz")
        resumed.optimizer.load_state_dict(resumed.optimizer.state_dict())
        resumed.steps(4, 9)
        assert resumed.values() == whole.values()
        assert resumed.optimizer.steps == 9
        assert resumed.schedule.get_last_lr() == whole.schedule.get_last_lr()


@pytest.mark.parametrize(("kind", "options"), OPTIMISERS, ids=str)
def test_a_part_of_the_parameters_goes_on(
    engine: Engine, kind: Any, options: dict[str, Any]
) -> None:
    """An optimiser of some parameters that another one has moved into flat arrays with others."""
    values = [np.ones(shape, np.float32) for shape in SHAPES]
    runs = [[nn.Parameter(one, engine) for one in values] for _ in "ab"]
    whole, resumed = (
        [nn.SGD(parameters, lr=0.1), kind(parameters[::2], **options)][1] for parameters in runs
    )
    for step in range(5):
        if step == 3:
            resumed.load_state_dict(whole.state_dict())
            for one, other in zip(*runs, strict=True):
                other.set(one.data)
        for optimizer, parameters in ((whole, runs[0]), (resumed, runs[1])):
            if optimizer is whole or step >= 3:
                for number, one in enumerate(parameters):
                    one.grad = np.full(one.shape, step + number, np.float32)
                optimizer.step()
    for one, other in zip(*runs, strict=True):
        assert one.data.get().tobytes() == other.data.get().tobytes()


def test_states_have_torch_s_keys_and_are_copies(engine: Engine) -> None:
    training = _Training(engine, nn.Adam, {"amsgrad": True})
    assert training.optimizer.state_dict()["state"] == {}
    training.steps(1, 2)  # the second parameter has no gradient
    state = training.optimizer.state_dict()
    assert set(state) == {"state", "param_groups", "steps"}
    assert set(state["state"]) == {0, 2, 3}
    assert set(state["state"][2]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    assert [group["params"] for group in state["param_groups"]] == [[0, 1, 2], [3]]
    other = _Training(engine, nn.Adam, {})
    other.optimizer.load_state_dict(state)
    for entry in state["state"].values():
        for array in entry.values():
            if isinstance(array, np.ndarray):
                array[...] = 1e9
    state["param_groups"][0]["lr"] = 7.0
    for one in (training, other):
        again = one.optimizer.state_dict()
        assert all(np.all(np.abs(part["exp_avg"]) < 9) for part in again["state"].values())
        assert again["param_groups"][0]["lr"] < 1
        assert again["param_groups"][0]["amsgrad"]
    assert other.optimizer.param_groups[0]["params"] == other.parameters[:3]


def test_values_of_16_bits_that_were_set_since_are_kept(engine: Engine) -> None:
    """A state may be loaded for other weights: the copies in float32 are made of these."""
    (saved, other), options = (
        (nn.Parameter(np.ones(5, np.float16), engine) for _ in "ab"),
        {"lr": 1e-4},
    )
    first, second = nn.SGD([saved], **options), nn.SGD([other], **options)
    for parameter, optimizer in ((saved, first), (other, second)):
        parameter.grad = np.ones(5, np.float16)
        optimizer.step()
    assert first.state_dict()["state"][0]["master"] == pytest.approx(1 - 1e-4)
    assert set(first.state_dict()["state"][0]) == {"master"}
    other.set(np.array([1, 1, 2, 2, 2], np.float16))
    assert list(second.state_dict()["state"][0]["master"]) == [1, 1, 2, 2, 2]
    second.load_state_dict(first.state_dict())
    np.testing.assert_allclose(
        second.state_dict()["state"][0]["master"], [1 - 1e-4] * 2 + [2] * 3, rtol=1e-7
    )
    second.load_state_dict({**first.state_dict(), "state": {}})
    assert list(second.state_dict()["state"][0]["master"]) == [1, 1, 2, 2, 2]


def test_wrong_states_of_optimisers(engine: Engine) -> None:
    """Errors name keys; nothing is replaced."""
    training = _Training(engine, nn.Adam, {})
    training.steps(0, 1)
    optimizer, before = training.optimizer, training.optimizer.state_dict()
    entry = before["state"][0]
    groups = before["param_groups"]
    less = {name: value for name, value in entry.items() if name != "exp_avg"}

    def state(**new: Any) -> dict[str, Any]:
        return {**before, "state": {**before["state"], 0: {**entry, **new}}}

    def options(**new: Any) -> dict[str, Any]:
        return {**before, "param_groups": [{**groups[0], **new}, groups[1]]}

    wrong: list[tuple[Any, str, Any]] = [
        (ArgumentError, r"lacks state\.0\.exp_avg", {**before, "state": {0: less}}),
        (ArgumentError, r"lacks state\.0\.step", state(step=None)),
        (ArgumentError, r"unknown state\.4\.exp_avg", {**before, "state": {4: entry}}),
        (ArgumentError, r"unknown state\.0\.momentum_buffer", state(momentum_buffer=np.ones(3))),
        (ArgumentError, r"unknown state\.0\.master", state(master=np.ones((7, 5)))),
        (ShapeError, r"state\.0\.exp_avg \(7, 4\) in", state(exp_avg=np.ones((7, 4)))),
        (ArgumentTypeError, r"complex numbers: state\.0\.exp", state(exp_avg=np.ones((7, 5)) * 1j)),
        (ArgumentTypeError, r"state\.0\.exp_avg is a str", state(exp_avg="text")),
        (ArgumentError, r"state\.0\.step is 1\.5", state(step=1.5)),
        (ArgumentError, r"state\.0\.step is -1", state(step=-1)),
        (ArgumentError, r"state\.0\.step is nan", state(step=np.nan)),
        (
            ArgumentError,
            r"lacks param_groups\.1\.amsgrad, ",
            {**before, "param_groups": groups[:1]},
        ),
        (ArgumentError, r"unknown param_groups\.0\.rate", options(rate=1)),
        (ArgumentError, "lr is -1", options(lr=-1.0)),
        (ShapeError, r"param_groups\.0\.params \(2,\) in place of \(3,\)", options(params=[0, 1])),
        (ArgumentError, "expected one for each parameter", options(params=[0, 1, 1])),
        (ArgumentError, "expected one for each parameter", options(params=[0, 1, 2.5])),
        (ShapeError, r"betas \(3,\)", options(betas=(0.1, 0.1, 0.1))),
        (ArgumentError, "steps is -3", {**before, "steps": -3}),
        (ArgumentTypeError, "state is", [1]),
    ]
    for error, message, given in wrong:
        with pytest.raises(error, match=message):
            optimizer.load_state_dict(given)
    after = optimizer.state_dict()
    assert after["param_groups"] == groups
    for number, part in before["state"].items():
        for name, value in part.items():
            assert np.array_equal(after["state"][number][name], value)


def test_wrong_options_before_the_first_step(engine: Engine) -> None:
    """Without the state of a parameter, which needs an option of Adam."""
    optimizer = _Training(engine, nn.Adam, {}).optimizer
    state = optimizer.state_dict()
    first, second = state["param_groups"]
    for name in ("amsgrad", "maximize"):
        groups = [first, {**second, name: 0.5}]
        with pytest.raises(ArgumentTypeError, match=rf"{name} is 0\.5"):
            optimizer.load_state_dict({**state, "param_groups": groups})
    assert optimizer.state_dict() == state


@pytest.mark.parametrize("number", range(len(SCHEDULES)))
def test_schedules_go_on(engine: Engine, tmp_path: Path, number: int) -> None:
    """Wherever a schedule is interrupted, the learning rates that follow have the same bits."""
    make = SCHEDULES[number]

    def fresh() -> tuple[Any, Any]:
        optimizer = nn.SGD([nn.Parameter(np.ones(2, np.float32), engine)], lr=2.0, momentum=0.9)
        return optimizer, make(optimizer)

    optimizer, schedule = fresh()
    expected = []
    for _ in range(12):
        expected.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    for stop in (0, 2, 3, 6):
        first = fresh()
        for _ in range(stop):
            first[1].step()
        second = fresh()
        for one, other, name in zip(first, second, "os", strict=True):
            one.save(tmp_path / f"{name}.safetensors")
            other.load(tmp_path / f"{name}.safetensors")
        for rate in expected[stop:]:
            assert second[0].param_groups[0]["lr"] == rate
            second[1].step()


def test_wrong_states_of_schedules(engine: Engine) -> None:
    optimizer = nn.SGD([nn.Parameter(np.ones(2, np.float32), engine)], lr=2.0)
    parts = [nn.LinearLR(optimizer, 0.5, 1, 2), nn.StepLR(optimizer, 3)]
    schedule = nn.SequentialLR(optimizer, parts, [3])
    before = schedule.state_dict()

    def part(**new: Any) -> dict[str, Any]:
        first, second = before["_schedulers"]
        return {**before, "_schedulers": [first, {**second, **new}]}

    for error, message, state in (
        (ArgumentError, "lacks last_epoch", {k: v for k, v in before.items() if k[0] != "l"}),
        (ArgumentError, "unknown rate", {**before, "rate": 1}),
        (ArgumentError, r"_schedulers\.1\.last_epoch is -1", part(last_epoch=-1)),
        (ArgumentError, "step_size is 0", part(step_size=0)),
        (ArgumentTypeError, r"_schedulers\.1\.last_epoch float64 in place", part(last_epoch=1.0)),
        (ShapeError, r"milestones \(2,\) in place of \(1,\)", {**before, "milestones": [3, 4]}),
        (ArgumentTypeError, "state is", 3),
    ):
        with pytest.raises(error, match=message):
            schedule.load_state_dict(state)
    assert schedule.state_dict() == before
    schedule.load_state_dict(part(step_size=7))
    assert parts[1].step_size == 7


def test_randomly_damaged_states(engine: Engine, tmp_path: Path) -> None:
    """Each file is loaded or refused by an error of the library, which changes nothing."""
    rng, training = np.random.default_rng(7), _Training(engine, nn.Adam, {}, np.float16)
    training.steps(0, 1)
    optimizer = training.optimizer
    before = optimizer.state_dict()
    for suffix in (".npz", ".safetensors"):
        path = tmp_path / f"state{suffix}"
        optimizer.save(path)
        whole = path.read_bytes()
        for _ in range(100):
            damaged = bytearray(whole[: len(whole) if rng.random() < 0.8 else rng.integers(900)])
            for at in rng.integers(len(damaged), size=int(rng.choice((1, 2, 8)))):
                damaged[at] = rng.integers(256)
            path.write_bytes(damaged)
            with suppress(PortableGPUError):
                optimizer.load(path)
                optimizer.load_state_dict(before)
        after = optimizer.state_dict()
        assert after["param_groups"] == before["param_groups"]
        for number, entry in before["state"].items():
            for name, value in entry.items():
                assert np.array_equal(after["state"][number][name], value)


#: Values that are wrong in most places of a state dictionary.
ODD_VALUES: list[Any] = [
    None, "x", b"x", 3, -1, 2.5, np.nan, np.inf, 1j, True, [], [1, 2], {}, {"a": 1}, [{}], object(),
    np.float32(2), np.zeros(0), np.zeros((2, 2, 2)), np.array("s"), np.array(None), 10**400,
    np.zeros(3, "f4,f4"), np.zeros(2, "M8[s]"), np.array([1j]), np.ma.ones(3), np.zeros(3, "g"),
]  # fmt: skip


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and dict in map(type, value))


def _flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """All arrays and numbers of a state, by their places in it."""
    items = state.items() if isinstance(state, dict) else enumerate(state)
    result: dict[str, Any] = {}
    for key, value in items:
        name = f"{prefix}{key}"
        result |= _flat(value, f"{name}.") if _is_nested(value) else {name: value}
    return result


def _change(state: Any, rng: np.random.Generator) -> None:
    """Change one value or key at a random place."""
    keys = list(state.keys() if isinstance(state, dict) else range(len(state)))
    key = keys[rng.integers(len(keys))]
    value = state[key]
    if _is_nested(value) and value and rng.random() < 0.8:
        _change(value, rng)
        return
    kind = rng.integers(5)
    if kind == 0:
        del state[key]
    elif kind == 1 and isinstance(state, dict):
        names: list[Any] = ["new", 7, "a.b", None, ("t",)]
        state[names[rng.integers(5)]] = state.pop(key) if rng.random() < 0.5 else 1
    elif kind == 2 and np.asarray(value).dtype.kind in "fiub":
        dtypes = ("f2", "f8", "i4", "u1", "?", "c8", ">f8", "g", "O", "U9", "S4")
        with np.errstate(all="ignore"):
            state[key] = np.asarray(value).astype(dtypes[rng.integers(len(dtypes))])
    elif kind == 3 and isinstance(value, np.ndarray):
        state[key] = [value[None], value.T, value.ravel(), np.zeros(())][rng.integers(4)]
    else:
        state[key] = ODD_VALUES[rng.integers(len(ODD_VALUES))]


@pytest.mark.parametrize("kind", ["module", "SGD", "Adam", "AdamW of 16 bits", "schedule"])
def test_states_that_are_changed_at_random(engine: Engine, kind: str) -> None:
    """They are loaded, and then used, or an error of the library changes nothing."""
    rng, training = np.random.default_rng([*kind.encode()]), None
    saved: Any
    if kind == "module":
        layers = nn.Conv2d(1, 2, 3, engine=engine), nn.BatchNorm2d(2, engine=engine)
        saved = nn.Sequential(*layers)
    elif kind == "schedule":
        optimizer = nn.SGD([nn.Parameter(np.ones(2, np.float32), engine)], momentum=0.9)
        parts = [nn.LinearLR(optimizer), nn.MultiStepLR(optimizer, [2, 4])]
        saved = nn.SequentialLR(optimizer, parts, [2])
    else:
        options = {"momentum": 0.9} if kind == "SGD" else {"amsgrad": True}
        dtype = np.float16 if kind.endswith("bits") else np.float32
        training = _Training(engine, getattr(nn, kind.split()[0]), options, dtype)
        training.steps(0, 2)
        saved = training.optimizer
    before, refused = saved.state_dict(), 0
    values = [] if training is None else training.values()
    for _ in range(400):
        state = deepcopy(before)
        for _ in range(rng.integers(1, 3)):
            _change(state, rng)
        try:
            saved.load_state_dict(state)
        except PortableGPUError:
            refused += 1
        else:
            saved.state_dict()
            if training is not None:
                training.optimizer.step()
                training.set(values)
            saved.load_state_dict(before)
        after, expected = _flat(saved.state_dict()), _flat(before)
        assert after.keys() == expected.keys()
        for name, value in expected.items():
            assert np.array_equal(after[name], value), name
    assert 200 < refused < 400
