"""Modules: gradients by differences, state dictionaries, files, training that repeats its bits."""

from __future__ import annotations

import json
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NotPositiveDefiniteError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.nn.serialization import read_state, write_state
from portable_gpu.runtime import registry
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()


@pytest.fixture(autouse=True)
def _default(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules without ``engine=`` are on the tests' device."""
    monkeypatch.setattr(registry, "_default", engine)


def _net(engine: Engine) -> nn.Sequential:
    nn.manual_seed(3)
    body = nn.Sequential(nn.Linear(6, 5, dtype="f8"), nn.Tanh(), nn.Linear(5, 6, dtype="f8"))
    return nn.Sequential(
        nn.Residual(body),
        nn.Concat(nn.Linear(6, 4, dtype="f8"), nn.Sequential(nn.SiLU(), nn.Sigmoid())),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Residual(nn.GELU(), nn.Linear(10, 10, False, dtype="f8")),
        nn.Linear(10, 3, dtype="f8"),
    )


def check_gradients(module: nn.Module, x: Any, step: float = 1e-5, bound: float = 1e-6) -> None:
    """Compare <g, dy> with differences of <g, y> along random directions, in float64."""
    rng = np.random.default_rng(0)
    y = pg.asnumpy(module(x))
    g = rng.standard_normal(y.shape)
    module.zero_grad()
    module(x)
    by_input = pg.asnumpy(module.backward(pg.asarray(g)))
    assert by_input.shape == x.shape
    state = module.state_dict()
    named = dict(module.named_parameters())
    grads = {name: pg.asnumpy(one.grad) for name, one in named.items() if one.grad is not None}
    assert grads.keys() == named.keys()
    directions = {name: rng.standard_normal(grad.shape) for name, grad in grads.items()}
    d_x = rng.standard_normal(x.shape)
    values = []
    for sign in (1, -1):
        for name, one in named.items():
            one.set(pg.asarray(state[name] + sign * step * directions[name]))
        values.append(float(np.vdot(g, pg.asnumpy(module(x + sign * step * d_x)))))
    module.load_state_dict(state)
    slope = (values[0] - values[1]) / (2 * step)
    expected = float(np.vdot(by_input, d_x))
    expected += sum(float(np.vdot(grads[name], directions[name])) for name in grads)
    assert slope == pytest.approx(expected, rel=bound, abs=bound)


def test_gradients_of_compositions(engine: Engine) -> None:
    if not engine.target.fp64:
        pytest.skip("no double precision")
    net = _net(engine)
    x = np.random.default_rng(1).standard_normal((4, 6))
    net.eval()
    assert not any(child.training for child in net)
    check_gradients(net, x)
    net.train()
    dropout = net[3]
    assert isinstance(dropout, nn.Dropout)
    first, second = (pg.asnumpy(net(x)) for _ in range(2))
    assert not np.array_equal(first, second)  # another mask
    dropout.calls = 0
    assert np.array_equal(pg.asnumpy(net(x)), first)


def test_gradients_add_up(engine: Engine) -> None:
    layer = nn.Linear(3, 2)
    x, g = np.ones((4, 3), np.float32), pg.asarray(np.ones((4, 2), np.float32))
    for count in (1, 2):
        layer(x)
        layer.backward(g)
        assert layer.bias is not None
        assert np.all(pg.asnumpy(layer.bias.grad) == 4 * count)
    layer.zero_grad()
    layer.backward(g)
    assert np.all(pg.asnumpy(layer.weight.grad) == 4)


def test_steps_of_training_are_repeated_calls(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deferred errors of a loss reach the gradients, once each, and no step is prepared."""
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, engine=engine), nn.BatchNorm2d(2, engine=engine), nn.Flatten(),
        nn.Linear(8, 3, engine=engine),
    )  # fmt: skip
    loss = nn.CrossEntropyLoss()
    x = pg.asarray(np.random.default_rng(0).standard_normal((4, 1, 4, 4)), engine=engine)
    x, targets = x.astype(np.float32), pg.asarray(np.array([0, 1, 2, 1]), engine=engine)
    first_calls: list[Any] = []
    plain = Call.__init__
    monkeypatch.setattr(Call, "__init__", lambda *a, **k: first_calls.append(a) or plain(*a, **k))
    counts = []
    for _ in range(4):
        net.zero_grad()
        loss(net(x), targets)
        net.backward(loss.backward())
        counts.append([len(parameter.grad.reports) for parameter in net.parameters()])
        done = len(first_calls)
        first_calls.clear()
    assert done == 0
    assert counts[-1] == counts[0]
    assert min(counts[-1]) >= 1
    net.zero_grad()
    loss(net(x), pg.asarray(np.array([0, 1, 7, 1]), engine=engine))
    net.backward(loss.backward())
    for parameter in net.parameters():
        with pytest.raises(pg.errors.ArgumentError):
            pg.asnumpy(parameter.grad)


def test_initial_values(engine: Engine) -> None:
    nn.manual_seed(1)
    first = nn.Linear(50, 40)
    values = pg.asnumpy(first.weight.data)
    assert values.shape == (40, 50)
    assert 0.98 / np.sqrt(50) < np.abs(values).max() <= 1 / np.sqrt(50)
    nn.manual_seed(1)
    assert np.array_equal(pg.asnumpy(nn.Linear(50, 40).weight.data), values)
    assert not np.array_equal(pg.asnumpy(nn.Linear(50, 40).weight.data), values)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_states_in_files(engine: Engine, tmp_path: Path, suffix: str) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "2.weight"]
    path = tmp_path / f"net{suffix}"
    net.save(path)
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    optimizer = nn.SGD(other.parameters(), lr=1.0)
    other.load(str(path))
    optimizer.step()  # the loaded values are in the optimiser's flat array
    for name, values in other.state_dict().items():
        assert np.array_equal(values, state[name])
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_wrong_states(engine: Engine) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    before = net.state_dict()
    good = {name: values + 1 for name, values in before.items()}
    less = {name: values for name, values in good.items() if name != "1.bias"}
    for error, message, state in (
        (ArgumentError, "lacks 1.bias", less),
        (ArgumentError, "lacks 1.bias and has unknown bias", {**less, "bias": good["1.bias"]}),
        (ShapeError, r"1.bias \(3,\) in place of \(2,\)", {**good, "1.bias": np.ones(3)}),
        (ArgumentTypeError, "0.bias", {**good, "0.bias": "text"}),
        (ArgumentTypeError, "complex", {**good, "0.bias": np.ones(4, complex)}),
        (ArgumentTypeError, "state is", [1]),
        (ArgumentError, "has unknown 3, a", {**good, 3: np.ones(3), "a": np.ones(3)}),
    ):
        with pytest.raises(error, match=message):
            net.load_state_dict(state)
    assert all(np.array_equal(values, before[name]) for name, values in net.state_dict().items())
    net.load_state_dict(good)
    assert all(np.array_equal(values, good[name]) for name, values in net.state_dict().items())


def test_safetensors_is_the_published_format(tmp_path: Path) -> None:
    """A file written by hand from the format's description, and each damage of it."""
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    entry: dict[str, Any] = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    path = tmp_path / "x.safetensors"

    def written(header: Any, data: bytes = values.tobytes(), length: int | None = None) -> None:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)

    written({"__metadata__": {"format": "pt"}, "a": entry})
    assert np.array_equal(read_state(path)["a"], values)
    damages: list[tuple[Any, dict[str, Any]]] = [
        ({"a": {**entry, "shape": [2, 1 << 60]}}, {}),
        ({"a": {**entry, "shape": [2, -3]}}, {}),
        ({"a": {**entry, "shape": [2, 3.0]}}, {}),
        ({"a": {**entry, "data_offsets": [24, 48]}}, {}),
        ({"a": {**entry, "data_offsets": [0, 20]}}, {}),
        ({"a": {**entry, "dtype": "O"}}, {}),
        ({"a": [1]}, {}),
        ([entry], {}),
        (b"{", {}),
        (b"[" * 100_000, {}),
        (b'{"a":' + json.dumps(entry).encode() + b',"a":' + json.dumps(entry).encode() + b"}", {}),
        ({"a": {**entry, "shape": [2, 3] + [1] * 100_000}}, {}),
        ({"a": entry}, {"data": bytes(23)}),
        ({"a": entry}, {"data": bytes(25)}),
        ({"a": entry, "b": entry}, {}),
        ({"a": entry}, {"length": 1 << 62}),
    ]
    for header, options in damages:
        written(header, **options)
        with pytest.raises(ArgumentError, match="not a safetensors file") as refused:
            read_state(path)
        assert len(str(refused.value)) < 1000
    path.write_bytes(b"abc")
    with pytest.raises(ArgumentError, match="not a safetensors file"):
        read_state(path)
    if BFLOAT16 is not None:
        state = {"a": np.ones((2, 0), BFLOAT16), "b": np.ones(3, BFLOAT16)}
        write_state(path, state)
        assert all(np.array_equal(read_state(path)[name], state[name]) for name in state)
        with pytest.raises(ArgumentError, match="bfloat16"):
            write_state(tmp_path / "x.npz", state)
    with pytest.raises(ArgumentError, match=r"ends in \.npz or \.safetensors"):
        read_state(tmp_path / "x.pt")


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=np.ones(300))
    whole = path.read_bytes()
    directory = whole.rindex(b"PK\x01\x02")  # of the file: its last part
    encrypted = bytearray(whole)
    encrypted[directory + 8] |= 1
    far = whole[: directory + 42] + b"\xff\xff\xff\x7f" + whole[directory + 46 :]
    for damaged in (
        whole.replace(b"(300,)", b"(900,)"), whole[:100], bytes(encrypted), far,
        whole.replace(b"PK\x05\x06", b"PK\x05\x06"[::-1]), whole[7:], b"",
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(ArgumentError, match="which is not an"):
            read_state(path)
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(ArgumentError, match="which is not an"):
        read_state(path)
    plain = "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}"
    for text in (  # the parsers raise TokenError, MemoryError, TypeError and SyntaxError
        "(" * 9000, "-" * 9000 + "1", plain.format("True,"), plain.format("9" * 4000 + ","),
        plain.format("1," * 3000), plain.format("0,").replace("<f4", ",f4"),
    ):  # fmt: skip
        header = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", header)
        with pytest.raises(ArgumentError, match="which is not an") as refused:
            read_state(path)
        assert len(str(refused.value)) < 1000
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("a.npy", b"")
    with pytest.raises(ArgumentError, match=r"a\.npy occurs twice"):
        read_state(path)


def test_randomly_damaged_states(engine: Engine, tmp_path: Path) -> None:
    """Each file is loaded or refused by an error of the library, which changes no parameter."""
    rng, module = np.random.default_rng(7), nn.Linear(3, 2, engine=engine)
    before = module.state_dict()
    for suffix in (".npz", ".safetensors"):
        path = tmp_path / f"state{suffix}"
        module.save(path)
        whole = path.read_bytes()
        for _ in range(300):
            damaged = bytearray(whole[: len(whole) if rng.random() < 0.8 else rng.integers(900)])
            for _ in range(int(rng.choice((1, 2, 8)))):
                if damaged:
                    damaged[rng.integers(len(damaged))] = rng.integers(256)
            path.write_bytes(damaged)
            refused = ""
            try:
                module.load(path)
            except PortableGPUError as error:
                refused = str(error)
            assert len(refused) < 1000
            for name, values in module.state_dict().items():
                assert not refused or values.tobytes() == before[name].tobytes()
            module.load_state_dict(before)


def test_wrong_arguments(engine: Engine) -> None:
    x = np.ones((2, 3), np.float32)
    for error, message, call in (
        (ArgumentError, "in_features is 0", lambda: nn.Linear(0, 2)),
        (ArgumentTypeError, "out_features is 1.5", lambda: nn.Linear(1, 1.5)),
        (ArgumentTypeError, r"modules\[0\] is 1", lambda: nn.Sequential(1)),
        (ArgumentError, "branches is empty", lambda: nn.Concat()),
        (ArgumentError, "before forward", lambda: nn.Linear(1, 1).backward(x)),
        (ShapeError, r"body gives \(2, 4\)", lambda: nn.Residual(nn.Linear(3, 4))(x)),
        (ShapeError, "branches give", lambda: nn.Concat(nn.Linear(3, 4), nn.ReLU(), dim=0)(x)),
        (ShapeError, "dim is 2.* input of shape", lambda: nn.Concat(nn.ReLU(), dim=2)(x)),
        (ShapeError, "start_dim is 1.* the input has 2", lambda: nn.Flatten(1, 0)(x)),
        (ArgumentError, "seed is -1", lambda: nn.manual_seed(-1)),
    ):
        with pytest.raises(error, match=message):
            call()


def test_gradients_of_images(engine: Engine) -> None:
    """Convolutions, normalisations and poolings, in training and evaluation."""
    if not engine.target.fp64:
        pytest.skip("no double precision")
    nn.manual_seed(4)
    kind: dict[str, Any] = {"dtype": "f8"}
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, groups=2, **kind),
        nn.BatchNorm2d(4, **kind),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(4, 4, 2, stride=2, bias=False, **kind),
        nn.GroupNorm(2, 4, **kind),
        nn.AvgPool2d(2),
        nn.Upsample(scale_factor=2.0, mode="bilinear"),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.LayerNorm(16, **kind),
        nn.RMSNorm(16, **kind),
    )
    x = np.random.default_rng(5).standard_normal((3, 2, 8, 8))
    for name, parameter in net.named_parameters():
        if name.endswith(("weight", "bias")):
            shape, seed = parameter.shape, len(name)
            noise = np.random.default_rng(seed).standard_normal(shape)
            parameter.set(pg.asarray(pg.asnumpy(parameter.data) + noise / 4))
    check_gradients(net, x, 1e-6, 1e-5)
    keys = list(net.state_dict())
    assert keys[2:7] == [
        "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked",
    ]  # fmt: skip
    assert net.state_dict()["1.num_batches_tracked"] > 0
    net.eval()
    check_gradients(net, x, 1e-6, 1e-5)
    first = pg.asnumpy(net(x))
    assert np.array_equal(pg.asnumpy(net(x)), first)


def test_means_of_the_statistics_of_all_batches(engine: Engine) -> None:
    """Without a momentum, running statistics are means; a bound of roundings in float32."""
    module, rng = nn.BatchNorm1d(3, momentum=None, engine=engine), np.random.default_rng(8)
    batches = [2 + rng.standard_normal((n, 3, 4)).astype(np.float32) for n in (2, 5, 3)]
    for x in batches:
        module(x)
    state, wide = module.state_dict(), [x.astype(np.float64) for x in batches]
    for name, exact in (
        ("running_mean", np.mean([x.mean((0, 2)) for x in wide], 0)),
        ("running_var", np.mean([x.var((0, 2), ddof=1) for x in wide], 0)),
    ):
        np.testing.assert_allclose(state[name], exact, rtol=50 * np.finfo(np.float32).eps)
    assert state["num_batches_tracked"] == 3
    module.eval()
    module(batches[0])
    np.testing.assert_array_equal(module.state_dict()["running_mean"], state["running_mean"])


@pytest.mark.parametrize("kind", ["Conv1d", "ConvTranspose1d"])
def test_algorithms_of_convolutions(engine: Engine, kind: str) -> None:
    """Each call takes its own, or one that was found; one that does not take it is refused."""
    x = np.random.default_rng(2).standard_normal((2, 2, 9)).astype(np.float32)

    def made(**options: Any) -> Any:
        nn.manual_seed(3)
        return getattr(nn, kind)(2, 2, 3, bias=False, engine=engine, **options)

    plain, given = made(algo="direct"), made(algo=["im2col", "direct", "direct"])
    y = plain(x)
    np.testing.assert_allclose(pg.asnumpy(given(x)), pg.asnumpy(y), rtol=0, atol=1e-5)
    grads = [pg.asnumpy(module.backward(y)) for module in (plain, given)]
    np.testing.assert_array_equal(*grads)
    np.testing.assert_array_equal(*(pg.asnumpy(module.weight.grad) for module in (plain, given)))
    for options, message in (
        ({"algo": "found"}, "have not been timed"),
        ({"algo": ("winograd", "direct", "direct")}, "'winograd', which does not take"),
        ({"algo": "im2col", "workspace_limit": 3}, "workspace_limit is 3"),
    ):
        with pytest.raises(ArgumentError, match=message):
            made(**options)(x)
    for wrong in ("fast", ("auto", "auto"), ("auto", "auto", "fast")):
        with pytest.raises(ArgumentError, match="algo is"):
            made(algo=wrong)
    with pytest.raises(ArgumentError, match="workspace_limit is -1"):
        made(workspace_limit=-1)


def test_a_refused_call_or_state_changes_nothing(engine: Engine) -> None:
    """Neither a count of batches nor a parameter, also where a later one cannot be copied."""
    module = nn.BatchNorm1d(3, engine=engine)
    with pytest.raises(ShapeError):
        module(np.ones((2, 4), np.float32))
    assert module.num_batches_tracked.data == 0
    before = module.state_dict()
    state = {name: values + 1 for name, values in before.items()}
    with Engine(engine.device) as other:
        state["running_var"] = pg.linalg.cholesky(pg.asarray(-np.eye(3), engine=other))[0]
        with pytest.raises(NotPositiveDefiniteError):
            module.load_state_dict(state)
    for name, values in module.state_dict().items():
        np.testing.assert_array_equal(values, before[name])


@pytest.mark.parametrize(
    ("make", "shape", "refused"),
    [
        (lambda: nn.Linear(3, 2), (4, 3), (4, 5)),
        (lambda: nn.Conv2d(2, 2, 3), (1, 2, 5, 5), (1, 3, 5, 5)),
        (lambda: nn.MaxPool2d(2), (1, 2, 4, 4), (3,)),
        (lambda: nn.AvgPool2d(2), (1, 2, 4, 4), (3,)),
        (lambda: nn.Upsample(scale_factor=2), (1, 2, 4, 4), (3,)),
        (lambda: nn.Dropout2d(0.5), (2, 3, 4, 4), (2, 3)),
    ],
)
def test_backward_belongs_to_the_last_forward_that_was_not_refused(
    make: Any, shape: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    module = make()
    y = module(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    before = pg.asnumpy(module.backward(y))
    with pytest.raises(ShapeError):
        module(np.ones(refused, np.float32))
    np.testing.assert_array_equal(pg.asnumpy(module.backward(y)), before)


def test_a_refused_mask_of_channels_is_not_counted(engine: Engine) -> None:
    """Integers have no dropout; the next mask is that of the call that was refused."""
    module, x = nn.Dropout2d(0.5, seed=3), np.ones((2, 9, 1, 1), np.float32)
    first = pg.asnumpy(module(x))
    with pytest.raises(DTypeError):
        module(x.astype(np.int32))
    np.testing.assert_array_equal(pg.asnumpy(module.backward(pg.asarray(x))), first)
    assert module.calls == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 4)),
        lambda: nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), nn.ReLU()),
        lambda: nn.Residual(nn.Linear(4, 4), nn.ReLU()),
        lambda: nn.Concat(nn.ReLU(), nn.Linear(4, 4)),
    ],
)
def test_gradients_after_a_later_module_refused_a_call(make: Any) -> None:
    """An array of one column would broadcast in the gradient of the first module."""
    net = make()
    y = net(np.ones((3, 4), np.float32))
    before = pg.asnumpy(net.backward(y))
    with pytest.raises(ShapeError):
        net(np.ones((3, 1), np.float32))
    net.zero_grad()
    with pytest.raises(ArgumentError, match="after a forward that one of its modules refused"):
        net.backward(y)
    assert not any(parameter.has_grad for parameter in net.parameters())
    net(np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(pg.asnumpy(net.backward(y)), before)


def test_a_module_in_several_places_is_refused(engine: Engine) -> None:
    """It has the data of its last call alone, from which gradients of the others would be wrong."""
    x = pg.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), engine=engine)
    relu, layer = nn.ReLU(), nn.Linear(4, 4, engine=engine)
    inner = nn.Sequential(nn.Tanh(), relu)
    for net, name in (
        (nn.Sequential(relu, layer, relu), "'0', a ReLU"),
        (nn.Sequential(layer, nn.Sequential(nn.Tanh(), layer)), "'0', a Linear"),
        (nn.Residual(inner, inner), "'body', a Sequential"),
        (nn.Sequential(nn.Residual(nn.Sequential(relu)), nn.Concat(relu)), "'0', a ReLU"),
    ):
        y = net(x)
        with pytest.raises(ArgumentError, match=f"{name}, was called again after this forward"):
            net.backward(y)
    first, second = nn.Sequential(relu, layer), nn.Sequential(relu, nn.Tanh())
    first.backward(first(x))  # one after the other, each gradient belongs to the last call
    second.backward(second(x))
    with pytest.raises(ArgumentError, match="was called again"):
        first.backward(x)
    same = nn.Identity()  # which keeps nothing
    whole = nn.Sequential(same, nn.Residual(nn.Tanh(), same), same)
    slope = 2 - np.tanh(x.get()) ** 2
    whole(x)
    np.testing.assert_allclose(
        whole.backward(pg.asarray(np.ones((3, 4), "f4"), engine=engine)).get(), slope, 1e-5
    )


def test_modules_with_one_parameter(engine: Engine) -> None:
    """Gradients of both places are added, and optimisers and norms count the parameter once."""
    first, second = (nn.Linear(4, 4, bias=False, engine=engine) for _ in range(2))
    second.weight = first.weight
    net, x = nn.Sequential(first, second), np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    w, g = first.weight.data.get().astype(float), np.ones((3, 4))
    net(x)
    net.backward(pg.asarray(g.astype(np.float32), engine=engine))
    gradient = g.T @ (x @ w.T) + (g @ w).T @ x
    np.testing.assert_allclose(first.weight.grad.get(), gradient, 1e-4, 1e-5)
    optimizer = nn.SGD(net.parameters(), lr=0.5)
    norm = nn.clip_grad_norm_(net.parameters(), 1e9)
    np.testing.assert_allclose(norm.get(), np.linalg.norm(gradient), 1e-5)
    optimizer.step()
    np.testing.assert_allclose(first.weight.data.get(), w - gradient / 2, 1e-4, 1e-5)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_axes_of_normalisations(engine: Engine, axes: int) -> None:
    """An instance without a batch is a batch of one; other numbers of axes are refused."""
    rng, extents = np.random.default_rng(axes), (4, 3, 4)[:axes]
    x, g = (rng.standard_normal((4, *extents)).astype(np.float32) for _ in range(2))
    options: dict[str, Any] = {"affine": True, "track_running_stats": True, "engine": engine}
    for training in (True, False):
        one, batch = (getattr(nn, f"InstanceNorm{axes}d")(4, **options) for _ in range(2))
        one.train(training)
        batch.train(training)
        assert np.array_equal(one(x).get(), batch(x[None]).get()[0])
        there = pg.asarray(g, engine=engine)
        assert np.array_equal(one.backward(there).get(), batch.backward(there[None]).get()[0])
        assert np.array_equal(one.weight.grad.get(), batch.weight.grad.get())
        for name, values in one.state_dict().items():
            assert np.array_equal(values, batch.state_dict()[name]), name
    for name, wrong in (("InstanceNorm", axes), ("BatchNorm", axes + 1), ("BatchNorm", axes + 3)):
        if (name, wrong, axes) != ("BatchNorm", 2, 1):  # rows of channels, without axes of space
            layer = getattr(nn, f"{name}{axes}d")(4, engine=engine)
            with pytest.raises(ShapeError, match=f"{name}{axes}d takes .* axes"):
                layer(np.ones((4,) * wrong, np.float32))


@pytest.mark.parametrize(
    ("start", "end", "rank"), [(1, -1, 0), (3, -1, 2), (0, 3, 3), (-4, -1, 3), (2, 1, 3)]
)
def test_flatten_refuses_axes_that_do_not_exist(start: int, end: int, rank: int) -> None:
    with pytest.raises(ShapeError, match=f"start_dim is {start} and end_dim {end}, .* {rank} axes"):
        nn.Flatten(start, end)(np.ones((2,) * rank, np.float32))


@pytest.mark.parametrize("axes", [1, 2])
def test_output_padding_of_a_stride_or_more(engine: Engine, axes: int) -> None:
    """Places that no product reaches have the gradient of the bias alone: <g, f(x)> is linear."""
    rng, options = np.random.default_rng(axes), {"stride": 2, "dilation": 5, "engine": engine}
    layer = getattr(nn, f"ConvTranspose{axes}d")(3, 2, 2, output_padding=(4, 3)[:axes], **options)
    x = rng.standard_normal((2, 3, 4, 3)[: axes + 2]).astype(np.float32)
    y = layer(x)
    g = rng.standard_normal(y.shape).astype(np.float32)
    by_input = layer.backward(pg.asarray(g, engine=engine)).get()
    product = float((g.astype(np.float64) * y.get()).sum())
    bias = float((layer.bias.data.get().astype(np.float64) * layer.bias.grad.get()).sum())
    for values, grad in ((x, by_input), (layer.weight.data.get(), layer.weight.grad.get())):
        bound = 200 * np.finfo(np.float32).eps * float(np.abs(g).sum())
        assert abs(float((values.astype(np.float64) * grad).sum()) + bias - product) <= bound
    over = (0, *range(2, axes + 2))
    np.testing.assert_allclose(layer.bias.grad.get(), g.sum(over), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Flatten(), (3, 4, 2)),
        (lambda: nn.Unflatten(1, (2, 2)), (3, 4)),
        (lambda: nn.Concat(nn.Tanh(), nn.Tanh()), (3, 4)),
        (lambda: nn.ConvTranspose1d(4, 2, 3), (3, 4, 5)),
        (lambda: nn.MultiheadAttention(4, 2), (3, 2, 4)),
        (lambda: nn.MultiheadAttention(4, 2), (3, 4)),
        (lambda: nn.Sequential(nn.Tanh(), nn.Flatten()), (3, 4, 2)),
    ],
)
def test_wrong_gradients(engine: Engine, make: Any, shape: tuple[int, ...]) -> None:
    """Backward names its argument, also where it would change its shape or take parts of it."""
    module, x = make(), pg.asarray(np.ones(shape, np.float32), engine=engine)
    output = module(x)
    right = (output[0] if isinstance(output, tuple) else output).shape
    for wrong in (right[:-1], (*right[:-1], right[-1] + 1), (right[0], 2 * right[1], *right[2:])):
        with pytest.raises(ShapeError, match="grad_output has shape"):
            module.backward(pg.asarray(np.ones(wrong, np.float32), engine=engine))
    for value in ("x", None, object(), {}):
        with pytest.raises(ArgumentTypeError, match="grad_output is a"):
            module.backward(value)
    assert not any(parameter.has_grad for parameter in module.parameters())
    got = module.backward(pg.asarray(np.ones(right, np.float32), engine=engine))
    assert got.shape == shape


def test_branches_do_not_change_their_input(engine: Engine) -> None:
    """Others read it, in ``forward`` or in ``backward``; torch finds it by versions of arrays."""
    relu = nn.ReLU(inplace=True)
    for message, make in (
        ("body begins", lambda: nn.Residual(nn.Sequential(relu, nn.Tanh()))),
        ("shortcut begins", lambda: nn.Residual(nn.Tanh(), relu)),
        (r"branches\[1\] begins", lambda: nn.Concat(nn.SiLU(), nn.ReLU6(inplace=True))),
    ):
        with pytest.raises(ArgumentError, match=f"{message} with a layer that has inplace=True"):
            make()
    x = pg.asarray(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), engine=engine)
    net = nn.Concat(nn.Sequential(nn.Tanh(), nn.Residual(nn.Sequential(nn.Tanh(), relu))))
    assert (net(x).get() != 0).any()  # in place after the first layer, and of a single branch
    assert nn.Concat(relu)(x) is not x
