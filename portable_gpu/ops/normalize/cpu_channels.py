"""Normalisation of arrays whose channels are neighbours in memory, on CPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element, element
from portable_gpu.ops.normalize.policy import RowsPolicy
from portable_gpu.ops.normalize.problem import RowProblem
from portable_gpu.ops.normalize.programs import program
from portable_gpu.ops.normalize.row_program import Phase, RowProgram
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow, TuningTable

#: Places that are folded at a time.
_PLACES = 8
#: The places of a part for each part, at least: every group adds the sums of all parts.
_PLACES_PER_PART = 16
#: The least number of places, because the sums of channels are added one by one, and the most
#: channels, whose sums and values caches hold.
_LEAST_PLACES, _MOST_CHANNELS = 32, 8192
#: The bytes of few samples for which a second launch, and two groups, are worth their time.
_LEAST_BYTES = 1 << 18
#: The sums of a channel that are results, from the sums of a gradient.
_SUMMED = {"dw_parts": "s.sum_grad_x * rstd", "db_parts": "s.sum_grad"}


@dataclass(frozen=True)
class CpuChannelsKernel:
    """The kernels of a problem whose channels are neighbours, and their partition.

    Attributes:
        problem: The problem.
        row: The policy from which the numbers follow, and its origin.
        samples, row_axis, place: The axes of samples, of the rows of one, and of its places.
        row_channels: The channels of a row.
        keeps: Whether caches hold a sample.
        parts, span: The groups of a sample, and their places.
    """

    problem: RowProblem
    row: PolicyRow[RowsPolicy]
    samples: Axis
    row_axis: Axis
    place: Axis
    row_channels: Axis
    keeps: bool
    parts: int
    span: int

    group = 1

    @property
    def vector(self) -> int:
        """Channels of a vector."""
        return self.row.policy.vector if self.channels >= self.row.policy.vector else 1

    @property
    def groups(self) -> int:
        """Groups of all parts."""
        return self.samples.size * self.parts

    @property
    def channels(self) -> int:
        """The channels of a sample."""
        return self.row_axis.size * self.row_channels.size

    @property
    def kernel_parts(self) -> tuple[str, ...]:
        """The kernels that are launched, one after the other."""
        return ("fold", "map") if self.parts > 1 else ("whole",)

    @property
    def workspace_bytes(self) -> int:
        """The sums, totals and other values of the channels of all groups."""
        arrays = 2 * self._fields + len(self._in_workspace())
        return self.groups * arrays * self.channels * SCALAR_BYTES[self.problem.real]

    @property
    def _is_weighted(self) -> bool:
        """Whether the gradient of a channel is multiplied by its weight before it is summed."""
        return self.problem.name == "norm_backward" and "w" in self.problem.flags

    @property
    def _phases(self) -> tuple[Phase, ...]:
        """The folds; sums of channels are multiplied by their weights later."""
        p = self.problem.program
        if self._is_weighted:
            p = program(self.problem.name, self.problem.flags - {"w"})
        return (p.stream,) if p.stream is not None and not self.keeps else p.phases

    @property
    def _fields(self) -> int:
        return max(len(phase.fields) for phase in self._phases)

    def _near(self) -> list[str]:
        """The operands with a value for each element."""
        return _near(self.problem.program, self.place)

    def _direct(self) -> list[str]:
        """The operands with a value for each channel, which are neighbours."""
        return [name for name in self._by_channel() if self._step(name) == 1]

    def _by_channel(self) -> list[str]:
        """The inputs with one value for each channel."""
        p = self.problem.program
        names = [name for name in p.inputs if name not in self._near()]
        return [*names, *(p.row_inputs if self.row_channels.size == 1 else ())]

    def _in_workspace(self) -> list[str]:
        """The values of channels that are in the workspace."""
        p, phases = self.problem.program, self._phases
        inputs = [
            n for n in (*p.inputs, *p.row_inputs) if n not in (*self._near(), *self._direct())
        ]
        marked = {name: name for name in p.inputs}
        texts = [phase.step([marked]) for phase in phases] + [text for _, text in p.outputs]
        totals = [name for phase in phases for name in phase.values]
        later = [n for n in totals if any(re.search(rf"(?<![.\w]){n}\b", text) for text in texts)]
        return [*inputs, *later]

    def _step(self, name: str) -> int:
        """The stride of an operand from a row to the next, or from a channel to the next."""
        p = self.problem.program
        if name in p.element_names and self.row_channels.size > 1:
            return self.row_channels.strides[p.element_names.index(name)]
        return self.row_axis.strides[p.operands.index(name)]

    def entry(self, target: Target) -> str:
        """The name of the kernel."""
        return "normalize_cpu_channels"

    def specialization(self, target: Target, launch: str) -> Specialization:
        """The text and options of one of the kernels."""
        problem, p = self.problem, self.problem.program
        return specialize(
            "normalize/cpu_channels",
            target,
            {self.entry(target): self._parameters()},
            p=p,
            elems=dict(zip(p.operands, problem.elems, strict=True)),
            wide=_wide(problem),
            results=[name for name, _ in (*p.outputs, *p.row_outputs)],
            real=problem.real,
            V=self.vector,
            U=_PLACES,
            F=self._fields,
            phases=self._phases,
            launch=launch,
            grouped=self.row_channels.size > 1,
            weighted=self._is_weighted,
            near=self._near(),
            direct=self._direct(),
            in_workspace=self._in_workspace(),
            summed={name: _SUMMED[name] for name in p.sums},
        )

    def _parameters(self) -> list[Parameter]:
        problem, p = self.problem, self.problem.program
        written = dict((*p.outputs, *p.row_outputs))
        near, result = self._near(), []
        for name, elem in zip(p.operands, problem.elems, strict=True):
            result += [buffer(f"{elem.name}_t", f"{name}_data", writes=name in written)]
            result += scalars("long", f"{name}_offset")
        result.append(buffer(problem.real, "partial", writes=True))
        for name in p.operands:
            step = f"{name}_place" if name in near else f"{name}_channel"
            result += scalars("long", f"{name}_sample", step)
        result += scalars(problem.real, *p.scalars, *p.varying)
        names = ("channels", "rows", "row_channels", "places", "count", "parts", "span")
        return result + scalars("uint", *names)

    def constants(self) -> dict[str, Any]:
        """The scalars of every launch."""
        p, near = self.problem.program, self._near()
        result: dict[str, Any] = {
            "channels": self.channels,
            "rows": self.row_axis.size,
            "row_channels": self.row_channels.size,
            "places": self.place.size,
            "count": self.problem.count,
            "parts": self.parts,
            "span": self.span,
        }
        for k, name in enumerate(p.operands):
            result[f"{name}_sample"] = self.samples.strides[k]
            if name in near:
                result[f"{name}_place"] = self.place.strides[p.element_names.index(name)]
            else:
                result[f"{name}_channel"] = self._step(name)
        return result | dict(zip(p.scalars, self.problem.scalars, strict=True))


def cpu_channels_kernel(
    problem: RowProblem, target: Target, table: TuningTable
) -> CpuChannelsKernel | None:
    """Return the kernels of a problem, or ``None``.

    Other kernels are used on GPUs, for other programs, if channels are not neighbours, if places
    are few, if caches do not hold the values of all channels, and for few small samples.
    """
    p = problem.program
    if not target.is_cpu or problem.name not in ("norm", "norm_backward") or not p.phases:
        return None
    if len(problem.kept) > 2 or len(problem.outer) > 1:
        return None
    *before, row_axis = problem.kept
    samples = before[0] if before else Axis(1, (0,) * len(p.operands))
    place = problem.outer[0] if problem.outer else problem.inner
    row_channels = problem.inner if problem.outer else Axis(1, (0,) * len(p.element_names))
    if place.size < _LEAST_PLACES or row_axis.size * row_channels.size > _MOST_CHANNELS:
        return None
    if not before and 4 * problem.inner.size > place.size and problem.outer:
        return None  # in images whose channels are planes, places of these would be the channels
    near = _near(p, place)
    if not {name for name, _ in p.outputs} - {*p.sums} <= {*near} or {*p.sums} & {*near}:
        return None
    for name in (*near, *p.sums):
        along = row_axis.strides[p.operands.index(name)]
        if problem.outer:
            step = row_channels.strides[p.element_names.index(name)]
            if step != 1 or along != row_channels.size:
                return None
        elif along != 1:
            return None
    for name in set(p.inputs).difference(near) if problem.outer else ():
        step = row_channels.strides[p.element_names.index(name)]
        if row_axis.strides[p.operands.index(name)] != row_channels.size * step:
            return None  # these are places of a channel, whose values are the same
    row = table.choose("normalize", RowsPolicy, target, problem.elems[0])
    policy, units = row.policy, target.compute_units
    nbytes = (
        place.size
        * row_axis.size
        * row_channels.size
        * sum(
            elem.itemsize
            for elem, name in zip(problem.elems, p.operands, strict=True)
            if name in near
        )
    )
    parts, span = 1, place.size
    if samples.size < 2 * units:
        if nbytes < _LEAST_BYTES:
            return None
        groups = policy.groups_per_unit * units
        max_parts = min(-(-groups // samples.size), isqrt(place.size // _PLACES_PER_PART))
        parts = max(1, min(max_parts, nbytes // policy.grain))
        span = -(-place.size // parts)
        parts = -(-place.size // span)
    keeps = p.stream is None or (parts == 1 and nbytes <= policy.cached_bytes)
    return CpuChannelsKernel(
        problem=problem, row=row, samples=samples, row_axis=row_axis, place=place,
        row_channels=row_channels, keeps=keeps, parts=parts, span=span,
    )  # fmt: skip


def _near(p: RowProgram, place: Axis) -> list[str]:
    return [name for name, step in zip(p.element_names, place.strides, strict=True) if step]


def _wide(problem: RowProblem) -> Element:
    return element(np.float64 if problem.real == "double" else np.float32)
