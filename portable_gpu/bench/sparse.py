"""Sparse factors and solves: this library and its peers by turns, in the same ordering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from portable_gpu.bench.measure import alternate, ratios
from portable_gpu.bench.sparse_peers import OurFactor, SparsePeer
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared, calls_a_turn, warm_up
from portable_gpu.errors import PortableGPUError, UnsupportedError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray
from portable_gpu.sparse import Symbolic, analyze

#: Right sides of the solves that are timed.
COLUMNS = (1, 64)
#: What ``|A X - B| / (|A| |X| + |B|)`` may be, by the bits of a real number.
BOUNDS = {32: 1e-6, 64: 1e-14}
#: The phase that factorises new values of a host matrix, which are checked, copied and permuted;
#: and the name in the column of peers for values that are on the device.  The difference of the
#: two times is the host's time.
REFACTORISE, DEVICE_ALONE = "refactorise", "device alone"


@dataclass(frozen=True)
class SparseRow:
    """The result of one phase of one system against one peer.

    Attributes:
        problem: The matrix, by its name.
        phase: "factorise", "solve" with the number of right sides, or :data:`REFACTORISE`.
        peer: The name of the peer; None if none was timed.
        ours, theirs: The seconds of our calls and of the peer's.
        ratio: The peer's time over ours, turn by turn.
        gflops: Our rate; the flop of a factor are the sum of the squares of the column counts.
        errors: The backward errors, ours and the peer's.
    """

    problem: str
    phase: str
    peer: str | None
    ours: Statistic
    theirs: Statistic | None
    ratio: Statistic | None
    gflops: float
    errors: tuple[float, ...]


@dataclass(frozen=True)
class SparseRemark:
    """Why a system was not timed.

    Attributes:
        problem: The name of the matrix.
        who: The name of this library or of the peer.
        text: The reason.
        wrong: Whether the result was wrong.
    """

    problem: str
    who: str
    text: str
    wrong: bool = False


@dataclass(frozen=True)
class SparseContest:
    """Times one system.

    Attributes:
        engine: The engine that our calls run on.
        peers: The peers.
        ordering: The ordering of the matrix, which all sides use.
        turns: The number of turns of each side.
        budget: The seconds that the turns of a row may take; None for no limit.
        versions: The versions of the libraries that were timed.
    """

    engine: Engine
    peers: Sequence[type[SparsePeer]]
    ordering: str
    turns: int
    budget: float | None
    versions: dict[str, str] = field(default_factory=dict)

    def run(self, name: str, A: Any) -> Iterator[Symbolic | SparseRow | SparseRemark]:
        """The analysis, and then a row for each phase and peer; nothing wrong is timed."""
        symbolic = analyze(A, self.ordering, engine=self.engine)
        yield symbolic
        us = self._admitted(OurFactor, name, A, symbolic)
        if isinstance(us, SparseRemark):
            yield us
            return
        alone = True
        for kind in self.peers:
            them = self._admitted(kind, name, A, symbolic)
            if isinstance(them, SparseRemark):
                yield them
                continue
            alone = False
            yield from self._rows(name, symbolic, [us, them])
        if alone:
            yield from self._rows(name, symbolic, [us])
        yield self._refactorisation(name, symbolic, us)

    def _admitted(
        self, kind: type[SparsePeer], name: str, A: Any, symbolic: Symbolic
    ) -> _Admitted | SparseRemark:
        """A contestant that solved the system; or why there is none."""
        try:
            peer = kind(self.engine, A, symbolic)
            peer.factor()
            errors = []
            for columns in COLUMNS:
                b = right_sides(A, columns)
                errors.append(backward_error(A, peer.fetch(peer.solve(peer.upload(b))), b))
        except ImportError:
            return SparseRemark(name, kind.name, f"not installed: {kind.install}")
        except UnsupportedError as error:
            return SparseRemark(name, kind.name, f"left out: {error}")
        except (PortableGPUError, RuntimeError, MemoryError, ArithmeticError) as failure:
            first_line = (str(failure).splitlines() or [type(failure).__name__])[0]
            return SparseRemark(name, kind.name, f"left out: {first_line}")
        bound = BOUNDS[64 if np.finfo(A.dtype).bits == 64 else 32]
        if not max(errors) <= bound:
            text = f"its backward error is {max(errors):.1e}, and {bound:g} is allowed; not timed"
            return SparseRemark(name, kind.name, text, wrong=True)
        self.versions[peer.name] = peer.version
        return _Admitted(peer, A, max(errors))

    def _refactorisation(self, name: str, symbolic: Symbolic, us: _Admitted) -> SparseRow:
        """A matrix of the host, and by turns its values on the device."""
        assert isinstance(us.peer, OurFactor)
        factor = us.peer.factor_of
        values = asarray(us.A.data, queue=self.engine.queue)
        sides = [
            Prepared([partial(factor, arguments)], self.engine.queue.finish)
            for arguments in (us.A, values)
        ]
        return self._row((name, REFACTORISE, DEVICE_ALONE), symbolic.flops, sides, (us.error,))

    def _rows(
        self, name: str, symbolic: Symbolic, sides: Sequence[_Admitted]
    ) -> Iterator[SparseRow | SparseRemark]:
        phases: list[tuple[str, float, Callable[[_Admitted], Prepared]]] = [
            ("factorise", symbolic.flops, _Admitted.factors)
        ]
        for columns in COLUMNS:
            work = 4.0 * symbolic.nnz * columns
            phases.append((f"solve {columns}", work, partial(_Admitted.solves, columns=columns)))
        peer = sides[1].peer.name if len(sides) > 1 else None
        for phase, work, prepare in phases:
            errors = tuple(side.error for side in sides)
            prepared = [prepare(side) for side in sides]
            yield self._row((name, phase, peer), work, prepared, errors)

    def _row(
        self,
        names: tuple[str, str, str | None],
        work: float,
        sides: Sequence[Prepared],
        errors: tuple[float, ...],
    ) -> SparseRow:
        """Time one phase, by turns if there are two sides.

        Args:
            names: The problem, the phase, the other side.
            work: Floating-point operations.
            sides: Ours, and the other one.
            errors: The errors of both.
        """
        once = [warm_up(item) for item in sides]
        turns = self.turns
        if self.budget is not None and sum(once) * turns > self.budget:
            turns = max(1, int(self.budget / sum(once)))
        times = alternate(sides, [calls_a_turn(seconds) for seconds in once], turns)
        ours, theirs = Statistic.of(times[0]), times[1] if len(times) > 1 else None
        return SparseRow(
            *names,
            ours,
            None if theirs is None else Statistic.of(theirs),
            None if theirs is None else Statistic.of(ratios(*times)),
            work / ours.median / 1e9,
            errors,
        )


@dataclass(frozen=True)
class _Admitted:
    """A contestant, and its worst backward error."""

    peer: SparsePeer
    A: Any
    error: float

    def factors(self) -> Prepared:
        return Prepared([self.peer.factor], self.peer.finish)

    def solves(self, columns: int) -> Prepared:
        b = self.peer.upload(right_sides(self.A, columns))
        return Prepared([partial(self.peer.solve, b)], self.peer.finish)


def right_sides(A: Any, columns: int) -> Any:
    """Normal numbers: one axis of one column, else two."""
    rng = np.random.default_rng(columns)
    shape = (A.shape[0],) if columns == 1 else (A.shape[0], columns)
    return rng.standard_normal(shape).astype(A.dtype)


def backward_error(A: Any, x: Any, b: Any) -> float:
    """``|A x - b| / (|A| |x| + |b|)`` in the maximum norm, of the worst column."""
    norm = float(abs(A).sum(axis=1).max())
    residual = np.abs(A.astype(_wide(A)) @ x - b).max(axis=0)
    return float(np.max(residual / (norm * np.abs(x).max(axis=0) + np.abs(b).max(axis=0))))


def _wide(A: Any) -> Any:
    return np.result_type(A.dtype, np.float64)
