"""A work-group: registers of its threads, shared memory, and who runs next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from emulator.memory import Fault, Memory, whole
from emulator.races import Races
from emulator.text import Address, Constant, Instruction, Kernel, Operand, Register, Symbol

#: What executes an instruction for some threads; of a wait, it gives which of them go on.
Step: TypeAlias = Callable[["Group", Any], Any]

#: The polls of one address after which a group waits for ever, as groups run one by one.
_PATIENCE = 1000
#: Threads that have to come together for an instruction.
_TOGETHER = {"bar": 32, "shfl": 32, "ldmatrix": 32, "mma": 32, "wgmma": 128}  # "bar": of a warp
_BITS: dict[int, Any] = {1: np.bool_, 16: np.uint16, 32: np.uint32, 64: np.uint64}
DTYPES: dict[str, Any] = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16,
    "u16": np.uint16, "s16": np.int16, "f16": np.float16, "b32": np.uint32, "u32": np.uint32,
    "s32": np.int32, "f32": np.float32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64,
    "f64": np.float64,
}  # fmt: skip


@dataclass
class Barrier:
    """An ``mbarrier``: a phase ends when all arrivals and all announced bytes have come.

    Attributes:
        expected: Arrivals of a phase.
        pending: Arrivals, and
        bytes: what copies still have to bring, until this phase ends.
        phase: Phases that have ended.
    """

    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def change(self, arrivals: int = 0, brought: int = 0) -> None:
        """Count arrivals and bytes (announced ones are negative)."""
        self.pending -= arrivals
        self.bytes -= brought
        if self.pending < 0:
            raise Fault(f"{-self.pending} arrivals too many at a barrier of {self.expected}")
        if not self.pending and not self.bytes:
            self.phase += 1
            self.pending = self.expected


@dataclass
class Grid:
    """A launch.

    Attributes:
        kernel: What runs.
        steps: Its instructions, ready to execute.
        memory: Global memory.
        arguments: The bits of each parameter.
        groups, size: Work-groups, and threads of each.
        late: Whether asynchronous copies are done when a thread has to wait, not at once.
        races: Whether to look for races between warps.
    """

    kernel: Kernel
    steps: list[Step]
    memory: Memory
    arguments: dict[str, Any]
    groups: tuple[int, int]
    size: int
    late: bool
    races: bool


@dataclass
class Group:
    """One work-group, at work.

    Attributes:
        grid: The launch.
        place: Its number, in x and y.
        shared: Its shared memory.
        registers: Their bits, by name, for each thread.
        barriers: By address.
        shown, acquired: Barriers that the copy engine has been shown, and tensor maps.
        races: Who touched shared memory since the last barrier.
        unshown: Bytes that were written by threads, and that no fence has shown to the matrix unit.
        copies: What is asynchronous and not done: what to do, and the threads' commit groups.
        commits: Commit groups of copies that each thread has closed.
        products: Of each warpgroup what its matrix instructions in flight read, by commit group:
            how it is read, and its value.
    """

    grid: Grid
    place: tuple[int, int]
    shared: Any = field(init=False)
    registers: dict[str, Any] = field(default_factory=dict)
    barriers: dict[int, Barrier] = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    acquired: set[int] = field(default_factory=set)
    races: Races | None = field(init=False)
    unshown: Any = field(init=False)
    copies: deque[tuple[Any, Any, Any]] = field(default_factory=deque)
    commits: Any = field(init=False)
    products: dict[int, list[list[tuple[Callable[[], Any], Any]]]] = field(default_factory=dict)
    _looks: Counter[int] = field(default_factory=Counter)
    _fronts: dict[int, Any] = field(default_factory=dict)
    _asleep: list[tuple[int, Any]] = field(default_factory=list)
    _gathered: dict[int, list[tuple[int, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared = np.full(self.grid.kernel.shared_bytes, 0xFF, np.uint8)
        self.races = Races(self.shared.size) if self.grid.races else None
        self.unshown = np.zeros(self.shared.size, np.bool_)
        self.commits = np.zeros(self.grid.size, np.int64)

    def run(self) -> None:
        """All threads to their end.

        Threads at the same instruction go together; of several places the first in the text is
        next, so that those who took a branch meet the others after it.

        Raises:
            Fault: See :mod:`emulator`; the message has the instruction.
        """
        self._fronts[0] = np.arange(self.grid.size)
        while self._fronts or self._asleep or self._gathered:
            if self._fronts:
                at = min(self._fronts)
                self._follow(at, self._fronts.pop(at))
            else:
                self._wake()
        while self.copies:
            self.copies.popleft()[0]()

    def _follow(self, at: int, threads: Any) -> None:
        """Threads on their way from one instruction to where they part, wait or meet others."""
        code = self.grid.kernel.code
        chosen = _selection(threads)
        while True:
            instruction = code[at]
            active, skip = threads, None
            if instruction.guard is not None:
                name, negated = instruction.guard
                mask = self.registers[name][chosen] != negated
                active, skip = threads[mask], threads[~mask]
            try:
                if instruction.name == "bra":
                    target = instruction.operands[0]
                    assert isinstance(target, Symbol)
                    self._join(self.grid.kernel.labels[target.name], active)
                    self._join(at + 1, threads[:0] if skip is None else skip)
                    return
                if instruction.name in ("ret", "exit"):
                    self._join(at + 1, threads[:0] if skip is None else skip)
                    return
                if instruction.name == "bar" and "warp" not in instruction.modifiers:
                    self._gather(at, instruction, active)
                    return
                asleep = self._execute(at, active)
                if asleep.size:
                    self._asleep.append((at, asleep))
                    threads = np.setdiff1d(threads, asleep)
                    if not threads.size:
                        return
                    chosen = _selection(threads)
            except Fault as fault:
                raise Fault(f"{fault}: {instruction.text[:120]} (group {self.place})") from None
            at += 1
            if at in self._fronts:
                self._join(at, threads)
                return

    def _execute(self, at: int, threads: Any) -> Any:
        """Execute an instruction for threads; returns those that have to wait."""
        together = _TOGETHER.get(self.grid.kernel.code[at].name, 1)
        waiting = threads[:0]
        if together > 1:
            come = np.bincount(threads // together)[threads // together] == together
            threads, waiting = threads[come], threads[~come]
        if not threads.size:
            return waiting
        go = self.grid.steps[at](self, _selection(threads))
        return waiting if go is None else np.concatenate([waiting, threads[~go]])

    def _join(self, at: int, threads: Any) -> None:
        if threads.size:
            others = self._fronts.get(at)
            joined = threads if others is None else np.concatenate([others, threads])
            self._fronts[at] = np.sort(joined)

    def _gather(self, at: int, instruction: Instruction, threads: Any) -> None:
        """``bar.sync number, count``."""
        number, *rest = (x.value for x in instruction.operands if isinstance(x, Constant))
        gathered = self._gathered.setdefault(number, [])
        gathered.append((at, threads))
        if sum(some.size for _, some in gathered) == (rest[0] if rest else self.grid.size):
            if self.races is not None and not rest:
                self.races.barrier()
            for place, some in self._gathered.pop(number):
                self._join(place + 1, some)

    def _wake(self) -> None:
        """Let those that wait ask again; if nothing has changed, let a copy be done."""
        places: dict[int, list[Any]] = {}
        for at, threads in self._asleep:
            places.setdefault(at, []).append(threads)
        self._asleep = []
        for at, some in places.items():
            threads = np.sort(np.concatenate(some))
            asleep = self._execute(at, threads)
            if asleep.size:
                self._asleep.append((at, asleep))
            self._join(at + 1, np.setdiff1d(threads, asleep))
        if self._fronts:
            return
        if not self.copies:
            waiting = [self.grid.kernel.code[at].text for at, _ in self._asleep]
            raise Fault(f"all threads wait for ever: {waiting}, {list(self._gathered)}")
        self.copies.popleft()[0]()

    def look(self, addresses: Any) -> None:
        """Count volatile loads, by which a group waits for others.

        Raises:
            Fault: What it waits for does not come.
        """
        self._looks.update(np.unique(addresses).tolist())
        if max(self._looks.values()) > _PATIENCE:
            raise Fault("a group waits for ever for another one")

    def later(self, threads: Any, work: Callable[[], None]) -> None:
        """Do something asynchronous."""
        if self.grid.late:
            self.copies.append((work, threads, self.commits[threads].copy()))
        else:
            work()

    def finish(self, threads: Any, pending: int) -> None:
        """Do the copies of threads, all but those of their last ``pending`` commit groups."""
        oldest = np.full(self.grid.size, -1)
        oldest[threads] = self.commits[threads] - pending
        retained = deque()
        for work, some, numbers in self.copies:
            if np.any(numbers < oldest[some]):
                work()
            else:
                retained.append((work, some, numbers))
        self.copies = retained

    def register(self, name: str) -> Any:
        """The bits of a register; 0 until it is written."""
        result = self.registers.get(name)
        if result is None:
            kind = _BITS[self.grid.kernel.widths[name]]
            result = self.registers[name] = np.zeros(self.grid.size, kind)
        return result


def _selection(threads: Any) -> Any:
    """Thread numbers as an index; a slice, where they are neighbours."""
    if threads.size and threads[-1] - threads[0] + 1 == threads.size:
        return slice(int(threads[0]), int(threads[-1]) + 1)
    return threads


def reader(operand: Operand, kind: str) -> Callable[[Group, Any], Any]:
    """Return a reader of an operand's value as type ``kind``, for some threads."""
    dtype = np.dtype(DTYPES[kind])
    if isinstance(operand, Register):
        name = operand.name

        def read(group: Group, threads: Any) -> Any:
            bits = group.register(name)[threads]
            if bits.dtype.itemsize == dtype.itemsize or dtype == np.bool_:
                return bits.view(dtype)
            unsigned = np.dtype(f"u{dtype.itemsize}")
            return bits.astype(unsigned).view(dtype)

        return read
    if isinstance(operand, Constant):
        bits = operand.value & ((1 << 8 * dtype.itemsize) - 1)
        if dtype == np.bool_:  # a true predicate is -1 in the text, and 1 here
            bits &= 1
        value = np.array(bits, f"u{dtype.itemsize}").view(dtype)
        return lambda group, threads: value
    assert isinstance(operand, Symbol), operand
    special = _SPECIAL.get(operand.name)
    if special is not None:
        return lambda group, threads: special(group)[threads].astype(dtype)
    symbol = operand.name
    return lambda group, threads: np.array(group.grid.kernel.shared[symbol], dtype)


def writer(operand: Operand) -> Callable[[Group, Any, Any], None]:
    """Return a writer of values into a register, which may be wider."""
    assert isinstance(operand, Register), operand
    name = operand.name

    def write(group: Group, threads: Any, values: Any) -> None:
        register = group.register(name)
        if register.dtype == np.bool_:
            register[threads] = values
            return
        values = np.asarray(values)
        if values.dtype.itemsize == register.dtype.itemsize:
            register[threads] = values.view(register.dtype)
        elif values.dtype.kind == "i":
            register[threads] = values.astype(f"i{register.dtype.itemsize}").view(register.dtype)
        else:
            bits = values.view(f"u{values.dtype.itemsize}")
            register[threads] = bits.astype(register.dtype)

    return write


def address(operand: Operand, bits: str = "u64") -> Callable[[Group, Any], Any]:
    """Return a reader of the addresses of an operand in brackets."""
    assert isinstance(operand, Address), operand
    base, offset = reader(operand.base, bits), operand.offset
    return lambda group, threads: base(group, threads).astype(np.int64) + offset


def count(threads: Any) -> int:
    """How many threads an index stands for."""
    return int(threads.stop - threads.start if isinstance(threads, slice) else threads.size)


def numbers(threads: Any) -> Any:
    """The threads that an index stands for."""
    return np.arange(threads.start, threads.stop) if isinstance(threads, slice) else threads


def shared_view(group: Group, addresses: Any, dtype: Any) -> tuple[Any, Any]:
    """Shared memory as elements, and the elements' numbers."""
    size = np.dtype(dtype).itemsize
    if np.any(addresses % size):
        raise Fault(f"an access of {size} bytes is not aligned")
    if addresses.min() < 0 or addresses.max() + size > group.shared.size:
        raise Fault(f"an access of {size} bytes outside of shared memory")
    return whole(group.shared, dtype), addresses // size


_SPECIAL: dict[str, Callable[[Group], Any]] = {
    "%tid.x": lambda group: np.arange(group.grid.size),
    "%tid.y": lambda group: np.zeros(group.grid.size, np.int64),
    "%tid.z": lambda group: np.zeros(group.grid.size, np.int64),
    "%ntid.x": lambda group: np.full(group.grid.size, group.grid.size),
    "%ntid.y": lambda group: np.ones(group.grid.size, np.int64),
    "%ctaid.x": lambda group: np.full(group.grid.size, group.place[0]),
    "%ctaid.y": lambda group: np.full(group.grid.size, group.place[1]),
    "%nctaid.x": lambda group: np.full(group.grid.size, group.grid.groups[0]),
    "%nctaid.y": lambda group: np.full(group.grid.size, group.grid.groups[1]),
    "%laneid": lambda group: np.arange(group.grid.size) % 32,
}
