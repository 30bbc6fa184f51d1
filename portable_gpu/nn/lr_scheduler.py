"""Schedules of learning rates, by torch's names and arguments.

They are numbers on the host that an optimiser passes to its kernel: no step builds a program.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from copy import copy, deepcopy
from math import cos, pi
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, of_kind, one_of, real_number, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError
from portable_gpu.nn.optim import Adam, Optimizer
from portable_gpu.nn.state import Saved, fitting, flat_state
from portable_gpu.runtime.transfer import asnumpy

#: The kinds of NumPy's dtypes that numbers of a kind are loaded from.
_KINDS = {"b": "b", "i": "iu", "f": "iuf"}


class LRScheduler(Saved):
    """The base of schedules: factors of the learning rate of each group, by the step.

    A step multiplies the learning rate that the group has, as in torch.  So several schedules of
    one optimiser are combined, and a learning rate that was changed in between is what is scaled.

    Attributes:
        optimizer: The optimiser, whose ``param_groups`` have the learning rates.
        base_lrs: Their learning rates before the first schedule.
        last_epoch: The number of calls of :meth:`step`.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        """Take the optimiser, and set its learning rates for step 0."""
        self._check()
        self.optimizer = of_kind(optimizer, Optimizer, "optimizer")
        self.base_lrs = [
            float(group.setdefault("initial_lr", group["lr"])) for group in optimizer.param_groups
        ]
        self._start()

    def step(self) -> None:
        """Go to the next learning rate, after a step of the optimiser or after an epoch."""
        self.last_epoch += 1
        self._set()

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def factor(self, epoch: int) -> float:
        """The learning rate at a step, divided by that of the optimiser at first."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """All numbers of the schedule: ``last_epoch``, ``base_lrs`` and its arguments.

        The learning rates themselves are in the state dictionary of the optimiser.
        """
        return deepcopy(self._numbers())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace all numbers by those of a schedule of the same class.

        It changes no learning rate: those are in the state dictionary of the optimiser, which is to
        be loaded after the schedules have been made.

        Raises:
            ArgumentTypeError: It is not a mapping, or has other kinds of numbers.
            ArgumentError: Keys are missing or unknown, and the message names all; a number is out
                of its range.
            ShapeError: There are more or fewer numbers; the message names all.  Nothing has been
                replaced after an error.
        """
        values, schedules = flat_state(state), dict(self._named())
        mine = {
            prefix + name: np.asarray(value)
            for prefix, schedule in schedules.items()
            for name, value in schedule._numbers().items()
        }
        arrays = fitting(values, {name: value.shape for name, value in mine.items()})
        wrong = [
            f"{name} {arrays[name].dtype} in place of {value.dtype}"
            for name, value in mine.items()
            if value.size and arrays[name].dtype.kind not in _KINDS[value.dtype.kind]
        ]
        if wrong:
            raise ArgumentTypeError(f"state has other kinds of numbers: {', '.join(wrong)}")
        loaded = []
        for prefix, schedule in schedules.items():
            new = copy(schedule)
            for name, value in vars(schedule).items():
                if prefix + name in arrays:
                    number = asnumpy(arrays[prefix + name]).tolist()
                    setattr(new, name, tuple(number) if isinstance(value, tuple) else number)
            new.base_lrs = [real_number(rate, f"{prefix}base_lrs") for rate in new.base_lrs]
            _at_least(new.last_epoch, 0, f"{prefix}last_epoch")
            new._check()
            loaded.append((schedule, new))
        for schedule, new in loaded:
            vars(schedule).update(vars(new))

    def _check(self) -> None:
        """Raise ArgumentTypeError or ArgumentError for a wrong argument."""

    def _numbers(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def _named(self, prefix: str = "") -> Iterator[tuple[str, LRScheduler]]:
        """This schedule, and those of which it is made, by the prefixes of their keys."""
        yield prefix, self

    def _floor(self) -> float:
        """The part of the learning rate that factors do not scale."""
        return 0.0

    def _start(self) -> None:
        """Begin with step 0, from the learning rates that the groups have."""
        self.last_epoch = 0
        self._set()

    def _set(self) -> None:
        factor, floor = self.factor(self.last_epoch), self._floor()
        before = self.factor(self.last_epoch - 1) if self.last_epoch else 1.0
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            if before or not factor:
                ratio = factor / (before or 1.0)
                group["lr"] = float(group["lr"]) * ratio + floor * (1 - ratio)
            else:  # nothing is left to scale, as at the end of half a cosine
                group["lr"] = float(group["lr"]) + (base - floor) * factor


def _at_least(value: Any, least: int, name: str) -> int:
    if whole(value, name) < least:
        raise ArgumentError(f"{name} is {value}; expected at least {least}")
    return whole(value, name)


class StepLR(LRScheduler):
    """A factor of ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        """Take the number of steps between factors, and the factor."""
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def _check(self) -> None:
        self.step_size = _at_least(self.step_size, 1, "step_size")
        self.gamma = real_number(self.gamma, "gamma")

    def factor(self, epoch: int) -> float:
        """See :meth:`LRScheduler.factor`."""
        return float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """A factor of ``gamma`` at each of the steps ``milestones``."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1) -> None:
        """Take the steps and the factor."""
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(optimizer)

    def _check(self) -> None:
        self.milestones = sorted(
            _at_least(milestone, 0, "a milestone") for milestone in self.milestones
        )
        self.gamma = real_number(self.gamma, "gamma")

    def factor(self, epoch: int) -> float:
        """See :meth:`LRScheduler.factor`."""
        return float(self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(LRScheduler):
    """A factor of ``gamma`` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        """Take the factor."""
        self.gamma = gamma
        super().__init__(optimizer)

    def _check(self) -> None:
        self.gamma = real_number(self.gamma, "gamma")

    def factor(self, epoch: int) -> float:
        """See :meth:`LRScheduler.factor`."""
        return float(self.gamma**epoch)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base to ``eta_min`` in ``T_max`` steps (arXiv:1608.03983)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        """Take the number of steps, and the last learning rate."""
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def _check(self) -> None:
        self.T_max = _at_least(self.T_max, 1, "T_max")
        self.eta_min = real_number(self.eta_min, "eta_min")

    def _floor(self) -> float:
        return self.eta_min

    def factor(self, epoch: int) -> float:
        """See :meth:`LRScheduler.factor`."""
        return (1 + cos(pi * epoch / self.T_max)) / 2


class LinearLR(LRScheduler):
    """A warm-up: a factor from ``start_factor`` to ``end_factor`` in ``total_iters`` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        """Take both factors and the number of steps.

        Raises:
            ArgumentError: ``start_factor`` is not above 0 and at most 1, or ``end_factor`` is not
                between 0 and 1.
        """
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def _check(self) -> None:
        self.start_factor = real_number(self.start_factor, "start_factor")
        if not 0 < self.start_factor <= 1:
            raise ArgumentError(
                f"start_factor is {self.start_factor}; expected a number above 0 and at most 1"
            )
        self.end_factor = real_number(self.end_factor, "end_factor")
        if not 0 <= self.end_factor <= 1:
            raise ArgumentError(f"end_factor is {self.end_factor}; expected a number from 0 to 1")
        self.total_iters = _at_least(self.total_iters, 1, "total_iters")

    def factor(self, epoch: int) -> float:
        """See :meth:`LRScheduler.factor`."""
        part = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part


class OneCycleLR(LRScheduler):
    """A warm-up to ``max_lr`` and a decay to far below the first learning rate (arXiv:1708.07120).

    Momentum, or the first of Adam's betas, goes the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        """Take torch's arguments: the cycle begins at ``max_lr / div_factor``.

        Raises:
            ArgumentError: ``pct_start`` is not between 0 and 1; ``anneal_strategy`` is unknown.
        """
        self.total_steps, self.pct_start = total_steps, pct_start
        self.by_cosine = one_of(anneal_strategy, ("cos", "linear"), "anneal_strategy") == "cos"
        self.cycle_momentum = flag(cycle_momentum, "cycle_momentum")
        self.momenta = (
            real_number(base_momentum, "base_momentum"),
            real_number(max_momentum, "max_momentum"),
        )
        self.max_lr = real_number(max_lr, "max_lr")
        self.first = self.max_lr / real_number(div_factor, "div_factor")
        self.last = self.first / real_number(final_div_factor, "final_div_factor")
        self._check()
        for group in of_kind(optimizer, Optimizer, "optimizer").param_groups:
            group["initial_lr"] = self.first
        super().__init__(optimizer)

    def _check(self) -> None:
        self.total_steps = _at_least(self.total_steps, 2, "total_steps")
        self.pct_start = real_number(self.pct_start, "pct_start")
        if not 0 <= self.pct_start <= 1:
            raise ArgumentError(f"pct_start is {self.pct_start}; expected a number from 0 to 1")

    def _set(self) -> None:
        if self.last_epoch > self.total_steps:  # the rate after the last step is never used
            raise ArgumentError(f"total_steps is {self.total_steps}, and all of them are done")
        low, high = self.momenta
        momentum = self._at(self.last_epoch, high, low, high)
        for group in self.optimizer.param_groups:
            group["lr"] = self._at(self.last_epoch, self.first, self.max_lr, self.last)
            if self.cycle_momentum and isinstance(self.optimizer, Adam):
                group["betas"] = (momentum, group["betas"][1])
            elif self.cycle_momentum:
                group["momentum"] = momentum

    def _at(self, epoch: int, first: float, middle: float, last: float) -> float:
        top = self.pct_start * self.total_steps - 1
        if epoch <= top:
            return self._between(first, middle, epoch / top if top > 0 else 1.0)
        return self._between(middle, last, (epoch - top) / (self.total_steps - 1 - top))

    def _between(self, start: float, end: float, part: float) -> float:
        if self.by_cosine:
            return end + (start - end) / 2 * (1 + cos(pi * part))
        return start + (end - start) * part


class SequentialLR(LRScheduler):
    """Several schedules one after the other: a warm-up and what follows it.

    Each schedule begins at its own step 0 from the learning rates that the optimiser had at first.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Iterable[LRScheduler], milestones: Iterable[int]
    ) -> None:
        """Take the schedules, and the steps at which the second one and later ones begin.

        Raises:
            ArgumentError: The number of milestones is not one less than that of schedules.
        """
        self.schedulers = [
            of_kind(scheduler, LRScheduler, "an element of schedulers") for scheduler in schedulers
        ]
        self.milestones = list(milestones)
        if len(self.milestones) + 1 != len(self.schedulers):
            raise ArgumentError(
                f"there are {len(self.schedulers)} schedulers and {len(self.milestones)} "
                "milestones; expected one milestone less than schedulers"
            )
        others = {scheduler.optimizer for scheduler in self.schedulers} - {optimizer}
        if others:
            raise ArgumentError("a schedule is of another optimizer; expected the same one for all")
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`LRScheduler.state_dict`; ``_schedulers`` has those of all schedules."""
        states = [schedule.state_dict() for schedule in self.schedulers]
        return {**super().state_dict(), "_schedulers": states}

    def _check(self) -> None:
        self.milestones = [_at_least(milestone, 1, "a milestone") for milestone in self.milestones]

    def _numbers(self) -> dict[str, Any]:
        return {name: value for name, value in super()._numbers().items() if name != "schedulers"}

    def _named(self, prefix: str = "") -> Iterator[tuple[str, LRScheduler]]:
        yield prefix, self
        for number, schedule in enumerate(self.schedulers):
            yield from schedule._named(f"{prefix}_schedulers.{number}.")

    def _start(self) -> None:
        self.last_epoch = 0
        self._restart(self.schedulers[0])

    def _set(self) -> None:
        number = bisect_right(self.milestones, self.last_epoch)
        if number and self.last_epoch == self.milestones[number - 1]:
            self._restart(self.schedulers[number])
        else:
            self.schedulers[number].step()

    def _restart(self, schedule: LRScheduler) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base
        schedule._start()
