"""Modules of normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from portable_gpu.arguments import flag, real_number
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ShapeError
from portable_gpu.nn import init
from portable_gpu.nn.modules.base import Buffer, Module
from portable_gpu.nn.modules.linear import positive
from portable_gpu.nn.parameter import ModuleParameter, add_grads
from portable_gpu.ops.floats import statistics_dtype
from portable_gpu.ops.normalize import batch, functions
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import as_array


def _data(parameter: ModuleParameter | None) -> Any:
    return None if parameter is None else parameter.data


class _Normalization(Module):
    """The base of normalisations: a weight of ones and a bias of zeros."""

    weight: ModuleParameter | None = None
    bias: ModuleParameter | None = None

    def _make(self, shape: Any, dtype: Any, engine: Any, weight: bool, bias: bool) -> None:
        kind = as_dtype(dtype)
        if weight:
            self.weight = ModuleParameter(init.filled(shape, 1, kind), engine)
        if bias:
            self.bias = ModuleParameter(init.filled(shape, 0, kind), engine)


class _Tracking(_Normalization):
    """The base of layers with running statistics, in float32 for 16-bit channels."""

    running_mean: Buffer | None = None
    running_var: Buffer | None = None
    #: The numbers of axes that an input may have.
    _ranks: tuple[int, ...] = ()

    def _set_up(
        self, num_features: Any, eps: Any, momentum: Any, affine: Any, track_running_stats: Any,
        bias: Any, dtype: Any, engine: Engine | None,
    ) -> None:  # fmt: skip
        """Check the arguments of a constructor, and make parameters and statistics."""
        shape = (positive(num_features, "num_features"),)
        self.eps = real_number(eps, "eps")
        self.momentum = None if momentum is None else real_number(momentum, "momentum")
        is_affine = flag(affine, "affine")
        self._make(shape, dtype, engine, is_affine, is_affine and flag(bias, "bias"))
        if flag(track_running_stats, "track_running_stats"):
            statistics_kind = statistics_dtype(as_dtype(dtype))
            self.running_mean = Buffer(init.filled(shape, 0, statistics_kind), engine)
            self.running_var = Buffer(init.filled(shape, 1, statistics_kind), engine)
            self.num_batches_tracked = Buffer(np.int64(0), on_host=True)

    def _checked(self, input: Any) -> Any:
        """Return the input as an array.

        Raises:
            ShapeError: It has another number of axes than the layer takes.
        """
        x = as_array(input, "input")
        if x.ndim not in self._ranks:
            expected = " or ".join(str(rank) for rank in self._ranks)
            raise ShapeError(
                f"input has shape {tuple(x.shape)}; {type(self).__name__} takes {expected} axes"
            )
        return x

    def _statistics(self) -> tuple[Any, Any]:
        mean, var = self.running_mean, self.running_var
        return (None, None) if mean is None or var is None else (mean.data, var.data)


class _BatchNorm(_Tracking):
    """The base of batch normalisations."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Take torch's arguments; the weight is 1, the bias 0.

        Without a ``momentum``, running statistics are the means of those of all batches.
        """
        self._set_up(num_features, eps, momentum, affine, track_running_stats, bias, dtype, engine)

    def forward(self, input: Any) -> Any:
        """Normalise by the batch in training, and by the running statistics otherwise."""
        x = self._checked(input)
        by_batch = self.training or self.running_mean is None
        tracks = self.training and self.running_mean is not None
        momentum = self.momentum or 0.0
        if tracks and self.momentum is None:
            momentum = 1 / (1 + int(self.num_batches_tracked.data))
        result, mean, rstd = batch.native_batch_norm(
            x, _data(self.weight), _data(self.bias), *self._statistics(), by_batch, momentum,
            self.eps,
        )  # fmt: skip
        if tracks:
            self.num_batches_tracked.data += 1
        self._saved = x, mean, rstd, by_batch
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of weight and bias."""
        (saved,) = self._from_forward("_saved")
        x, mean, rstd, by_batch = saved
        weight, bias = self.weight, self.bias

        def compute(out: Any) -> Any:
            return batch.batch_norm_backward(
                grad_output, x, _data(weight), *self._statistics(), mean, rstd, by_batch, self.eps,
                _data(bias), out=out,
            )  # fmt: skip

        return add_grads((weight, bias), compute)


class BatchNorm1d(_BatchNorm):
    """As ``torch.nn.BatchNorm1d``; see ``nn.batch_norm``."""

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """As ``torch.nn.BatchNorm2d``; see ``nn.batch_norm``."""

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """As ``torch.nn.BatchNorm3d``; see ``nn.batch_norm``."""

    _ranks = (5,)


class _InstanceNorm(_Tracking):
    """The base of instance normalisations."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Take torch's arguments; the weight is 1, the bias 0.

        Without a ``momentum``, running statistics do not change, as torch's.
        """
        self._set_up(num_features, eps, momentum, affine, track_running_stats, bias, dtype, engine)

    def forward(self, input: Any) -> Any:
        """Normalise by the instances, and in evaluation by running statistics, if there are any.

        An input without the axis of the batch is one instance.
        """
        x = self._checked(input)
        is_single = x.ndim == self._ranks[0]
        if is_single:
            x = x[None]
        parameters = _data(self.weight), _data(self.bias)
        by_instances = self.training or self.running_mean is None
        if by_instances:
            result, mean, rstd = batch.tracked_instance_norm(
                x, *self._statistics(), *parameters, self.momentum or 0.0, self.eps, None, {}
            )
        else:
            mean = rstd = None
            result = batch.batch_norm(x, *self._statistics(), *parameters, eps=self.eps)
        self._saved = x, mean, rstd, by_instances, is_single
        return result[0] if is_single else result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of weight and bias."""
        (saved,) = self._from_forward("_saved")
        x, mean, rstd, by_instances, is_single = saved
        weight, bias = self.weight, self.bias
        if is_single:
            grad_output = as_array(grad_output, "grad_output")[None]

        def compute(out: Any) -> Any:
            if by_instances:
                return functions.group_norm_backward(
                    grad_output, x, x.shape[1], mean, rstd, _data(weight), _data(bias), out=out
                )
            return batch.batch_norm_backward(
                grad_output, x, _data(weight), *self._statistics(), None, None, False, self.eps,
                _data(bias), out=out,
            )  # fmt: skip

        grad = add_grads((weight, bias), compute)
        return grad[0] if is_single else grad


class InstanceNorm1d(_InstanceNorm):
    """As ``torch.nn.InstanceNorm1d``; see ``nn.instance_norm``."""

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """As ``torch.nn.InstanceNorm2d``; see ``nn.instance_norm``."""

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """As ``torch.nn.InstanceNorm3d``; see ``nn.instance_norm``."""

    _ranks = (4, 5)


class _RowNormalization(_Normalization):
    """The base of normalisations of rows, whose statistics are of the input alone."""

    #: The function, which also returns the statistics, and its gradient.
    _pair: ClassVar[tuple[Any, Any]]
    #: The names of the parameters that the functions take.
    _parameters: ClassVar[tuple[str, ...]] = ("weight", "bias")
    eps: float | None

    def _extent(self) -> Any:
        """Return the second argument of the functions: the shape of a row, or the groups."""
        raise NotImplementedError

    def _listed(self) -> list[ModuleParameter | None]:
        return [getattr(self, name) for name in self._parameters]

    def forward(self, input: Any) -> Any:
        """Normalise each row."""
        data = map(_data, self._listed())
        result, *statistics = self._pair[0](input, self._extent(), *data, self.eps)
        self._saved = input, statistics
        return result

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of the parameters."""
        ((x, statistics),) = self._from_forward("_saved")
        parameters = self._listed()

        def compute(out: Any) -> Any:
            arguments = grad_output, x, self._extent(), *statistics, *map(_data, parameters)
            return self._pair[1](*arguments, out=out)

        return add_grads(tuple(parameters), compute)


class _LastAxesNormalization(_RowNormalization):
    """The base of normalisations of the last axes, whose parameters have their shape."""

    def _set_up(
        self, normalized_shape: Any, is_affine: Any, bias: Any, dtype: Any, engine: Any
    ) -> None:
        """Check the arguments of a constructor, and make the parameters."""
        listed = normalized_shape if isinstance(normalized_shape, (tuple, list)) else None
        self.normalized_shape = tuple(
            positive(extent, "normalized_shape") for extent in listed or (normalized_shape,)
        )
        affine = flag(is_affine, "elementwise_affine")
        self._make(self.normalized_shape, dtype, engine, affine, affine and flag(bias, "bias"))

    def _extent(self) -> Any:
        return self.normalized_shape


class LayerNorm(_LastAxesNormalization):
    """As ``torch.nn.LayerNorm``; see ``nn.layer_norm``."""

    _pair = functions.native_layer_norm, functions.layer_norm_backward

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Take torch's arguments; the weight is 1, the bias 0."""
        self.eps = real_number(eps, "eps")
        self._set_up(normalized_shape, elementwise_affine, bias, dtype, engine)


class GroupNorm(_RowNormalization):
    """As ``torch.nn.GroupNorm``; see ``nn.group_norm``."""

    _pair = functions.native_group_norm, functions.group_norm_backward

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Take torch's arguments; the weight is 1, the bias 0."""
        self.num_groups = positive(num_groups, "num_groups")
        self.eps, is_affine = real_number(eps, "eps"), flag(affine, "affine")
        shape = (positive(num_channels, "num_channels"),)
        self._make(shape, dtype, engine, is_affine, is_affine and flag(bias, "bias"))

    def _extent(self) -> Any:
        return self.num_groups


class RMSNorm(_LastAxesNormalization):
    """As ``torch.nn.RMSNorm``; see ``nn.rms_norm``."""

    _pair = functions.native_rms_norm, functions.rms_norm_backward
    _parameters = ("weight",)

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Take torch's arguments; the weight is 1."""
        self.eps = None if eps is None else real_number(eps, "eps")
        self._set_up(normalized_shape, elementwise_affine, False, dtype, engine)
