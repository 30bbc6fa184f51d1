"""A step of an optimiser: the problem, its single variant, and the plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from portable_gpu.codegen.parameters import Parameter, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.groups import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped

#: The scalars of each rule, in the order of the kernel's parameters.
SCALARS = {
    "sgd": ("lr", "weight_decay", "carry", "fresh", "momentum"),
    "adam": ("decay", "first", "beta2", "second", "step_size", "root", "eps"),
}
_FLOP = {"sgd": 7, "adam": 20}


@dataclass(frozen=True)
class StepProblem:
    """The properties of a step that its plan depends on.

    Attributes:
        rule: ``sgd`` or ``adam``.
        elem: The element type of the parameter and of its gradient.
        wide: The element type of the state and of the master copy.
        size: The number of elements.
        states: The names of the state arrays.
        master: Whether there is a master copy.
        flags: The names of the rule's options that are on.
        is_aligned: Whether all addresses allow vectors.
    """

    rule: str
    elem: Element
    wide: Element
    size: int
    states: tuple[str, ...]
    master: bool
    flags: frozenset[str]
    is_aligned: bool

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the kernel's arrays: the gradient, and those that it updates."""
        return ("grad", "param", *self.states, *(("master",) if self.master else ()))

    @property
    def nbytes(self) -> int:
        """The bytes that any kernel must read and write."""
        state_arrays = len(self.states) + self.master
        return self.size * (3 * self.elem.itemsize + 2 * state_arrays * self.wide.itemsize)


def variants(problem: StepProblem, target: Target) -> list[Variant]:
    """The only variant: one pass over all arrays."""
    costs, units = DeviceCosts.of("device", target), target.compute_units
    computing = problem.size * _FLOP[problem.rule] / (costs.multiply_adds * units)
    return [
        Variant(
            name="step",
            estimate=overlapped(computing, problem.nbytes / (costs.bandwidth * units)),
            launches=1,
            why="parameter, gradient and state of an element are read once by one work-item",
            texts=lambda: [render(problem, target)],
            bind=partial(step_plan, problem=problem),
        )
    ]


def _vector(problem: StepProblem, target: Target) -> int:
    """The elements of a vector: the largest accesses have 16 bytes on a GPU."""
    largest = max(problem.elem.itemsize, problem.wide.itemsize)
    return max(2, (target.vector_bytes if target.is_cpu else 16) // largest)


def render(problem: StepProblem, target: Target) -> Specialization:
    """The OpenCL text of a problem's kernel."""
    return specialize(
        "optim/step",
        target,
        {"optim_step": _parameters(problem)},
        rule=problem.rule,
        elem=problem.elem,
        wide=problem.wide,
        states=problem.states,
        master=problem.master,
        flags=problem.flags,
        V=_vector(problem, target),
        aligned=problem.is_aligned and not target.is_cpu,
        G=group_size(target),
    )


def _parameters(problem: StepProblem) -> list[Parameter]:
    elements = [problem.elem] * 2 + [problem.wide] * (len(problem.arrays) - 2)
    arrays = [
        parameter
        for name, elem in zip(problem.arrays, elements, strict=True)
        for parameter in operand(f"{elem.name}_t", name + "_data", writes=name != "grad")
    ]
    numbers = scalars(problem.wide.real, *SCALARS[problem.rule])
    return [*arrays, *numbers, *scalars("long", "elements_each", "size")]


def step_plan(engine: Engine, problem: StepProblem) -> OneLaunch:
    """Return the plan of a step."""
    target, size, vector = engine.target, problem.size, _vector(problem, engine.target)
    vectors = -(-size // vector)
    elements_each = vector * (-(-vectors // target.compute_units) if target.is_cpu else 1)
    group, items = group_size(target), -(-size // elements_each)
    return OneLaunch(
        engine, render(problem, target), "optim_step",
        {"elements_each": elements_each, "size": size},
        [f"{name}_data" for name in problem.arrays], (-(-items // group) * group,), (group,),
        scalars=dict.fromkeys(SCALARS[problem.rule], 0.0), flop=_FLOP[problem.rule] * size,
        nbytes=problem.nbytes,
    )  # fmt: skip
