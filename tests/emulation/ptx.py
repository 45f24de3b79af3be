"""Runs PTX, the assembly that NVIDIA's compiler makes, on NumPy: all threads of a grid at once.

It shows what the source alone cannot: flushed subnormals (.ftz), fused multiply-adds, conversions that saturate. Every access is
checked for bounds and alignment, every barrier and shuffle for threads that are missing. Where threads part, those that
are behind go first. Only what the kernels of mpicomp are compiled to is known here; anything else is an error.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import nvrtc

ARCHITECTURE = "sm_75"
SHARED = 1 << 62  # where shared memory begins among generic addresses
NAMES = {"b": "u", "u": "u", "s": "i", "f": "f"}
LETTERS = {"u64": "P", "u32": "i", "f32": "f", "f64": "d"}
COMPARE = {
    **{
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    },
    **{"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal},
}
LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
JUMPS = ("bra", "ret", "exit", "bar", "barrier")


class PTXError(RuntimeError):
    """A kernel did what no kernel may."""


@cache
def dtype(name: str) -> np.dtype:
    """NumPy's type of .b32, .s64, .f16, .pred and so on."""
    return np.dtype("?") if name == "pred" else np.dtype(f"{NAMES[name[0]]}{int(name[1:]) // 8}")


class Program:
    """One kernel: its parameters, registers, instructions (predicate, negated, words, operands) and labels."""

    def __init__(self, head: str, text: str, shared: dict[str, int], size: int):
        self.parameters = re.findall(r"\.param \.(\w+)(?: \.\w+)*(?: \d+)? (\w+)", head)
        self.shared, self.shared_size = shared, size
        self.registers: dict[str, np.dtype] = {}
        self.code: list[Any] = []
        self.labels: dict[str, int] = {}
        for statement in re.findall(r"(?:\{[^{};]*\}|[^;:{}])+[;:]", text):
            self._add(" ".join(statement.split()))

    def _add(self, statement: str) -> None:
        if statement.endswith(":"):
            self.labels[statement[:-1]] = len(self.code)
        elif statement.startswith(".reg"):
            kind, names = re.match(r"\.reg \.(\w+) (.*);", statement).groups()
            for name in names.split(","):
                stem, count = re.match(r"\s*(%?\w+?)(?:<(\d+)>)?$", name).groups()
                for number in range(int(count)) if count else ("",):
                    self.registers[f"{stem}{number}"] = dtype(kind)
        elif not statement.startswith("."):
            negated, predicate, words, rest = re.match(r"(?:@(!?)(%p\d+) )?(\S+?)(?: (.*))?;", statement).groups()
            operands = re.findall(r"\s*(\[[^\]]*\]|\{[^}]*\}|[^,]+?)\s*(?:,|$)", rest or "")
            self.code.append((predicate, negated == "!", words.split("."), operands))


def parse(text: str) -> dict[str, Program]:
    text = re.sub(r"//[^\n]*", "", text)
    shared, size = {}, 0
    for align, width, name, count in re.findall(r"\.shared \.align (\d+) \.\w(\d+) (\S+?)(?:\[(\d+)\])?;", text):
        size = -(-size // int(align)) * int(align)
        shared[name] = size
        size += int(width) // 8 * int(count or 1)
    entries = re.findall(r"\.entry (\w+)\s*\((.*?)\)[^{]*\{(.*?)\n\}", text, re.S)
    return {name: Program(head, body, shared, size) for name, head, body in entries}


class Module:
    """What the stand-in for CuPy loads."""

    def __init__(self, code: str, options: tuple[str, ...]):
        self.programs = parse(nvrtc.compile(code, ARCHITECTURE, *options)[0])

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, self.programs[name])


class Kernel:
    def __init__(self, name: str, program: Program):
        self.name, self.program = name, program

    def check(self, values: list[Any]) -> None:
        sizes = [dtype(kind).itemsize for kind, _ in self.program.parameters]
        if [value.itemsize for value in values] != sizes:
            raise TypeError(f"{self.name}: arguments of {[value.dtype.name for value in values]} for {sizes} bytes")

    def run(self, blocks: int, threads: int, values: list[Any], memory: list[np.ndarray]) -> None:
        try:
            Run(self.program, blocks, threads, values, memory).go()
        except PTXError as error:
            raise PTXError(f"{self.name}: {error}") from None


class Run:
    """One launch. Registers are arrays with a number for each thread; `active` are the threads that now go on."""

    def __init__(self, program: Program, blocks: int, threads: int, values: list[Any], memory: list[np.ndarray]):
        self.program, self.count = program, blocks * threads
        number = np.arange(self.count)
        thread = number % threads
        self.block, self.warp, self.lane = number // threads, number // 32, thread % 32
        self.special = {"%tid.x": thread, "%ctaid.x": self.block, "%ntid.x": threads, "%nctaid.x": blocks}
        self.parameters = {name: value for (_, name), value in zip(program.parameters, values)}
        self.registers: dict[str, np.ndarray] = {}
        self.memory = sorted(memory, key=lambda each: each.ctypes.data)
        self.starts = np.array([each.ctypes.data for each in self.memory], "u8")
        self.stride = -(-max(program.shared_size, 1) // 16) * 16
        self.shared = np.full(blocks * self.stride, 0xCD, np.uint8)
        self.live, self.waiting = np.ones(self.count, bool), np.zeros(self.count, bool)
        self.parked = np.zeros(self.count, bool)  # at a shuffle or vote, until the other lanes come
        self.place = np.zeros(self.count, np.int64)
        self.active = number

    # Control

    def go(self) -> None:
        code = self.program.code
        targets = set(self.program.labels.values())
        while self.live.any():
            ready = self.live & ~self.waiting & ~self.parked
            if not ready.any():
                raise PTXError("deadlock: a barrier or a shuffle that not all threads come to")
            at = int(self.place[ready].min())
            self.active = np.nonzero(ready & (self.place == at))[0]
            while True:
                if at == len(code):
                    self.live[self.active] = False
                    break
                if code[at][2][0] in JUMPS:
                    self._jump(at, *code[at])
                    break
                if code[at][2][0] in ("shfl", "vote") and not self._gather(at):
                    break
                self._step(*code[at])
                at += 1
                if at in targets:
                    self.place[self.active] = at
                    break

    def _gather(self, at: int) -> bool:
        """Go on with the warps whose lanes have all come to a shuffle or vote; the others wait there."""
        here = self.parked & (self.place == at)
        here[self.active] = True
        missing = np.unique(self.warp[self.live & ~here])
        complete = here & ~np.isin(self.warp, missing)
        self.parked[here], self.place[here] = ~complete[here], at
        self.active = np.nonzero(complete)[0]
        return len(self.active) > 0

    def _chosen(self, predicate: Any, negated: bool) -> np.ndarray:
        if predicate is None:
            return np.ones(len(self.active), bool)
        return self.registers[predicate][self.active] ^ negated

    def _step(self, predicate: Any, negated: bool, words: list[str], operands: list[str]) -> None:
        everybody = self.active
        if predicate is not None:
            self.active = everybody[self._chosen(predicate, negated)]
        if len(self.active):
            function = getattr(self, f"op_{words[0]}", None)
            if function is None:
                raise PTXError(f"unknown instruction {'.'.join(words)}")
            function(words, operands)
        self.active = everybody

    def _jump(self, at: int, predicate: Any, negated: bool, words: list[str], operands: list[str]) -> None:
        chosen = self._chosen(predicate, negated)
        self.place[self.active] = at + 1
        if words[0] == "bra":
            self.place[self.active[chosen]] = self.program.labels[operands[0]]
        elif words[0] in ("ret", "exit"):
            self.live[self.active[chosen]] = False
        else:
            self.waiting[self.active] = True
        for b in np.unique(self.block[self.waiting]):
            here = (self.block == b) & self.live
            if self.waiting[here].all():
                if len(np.unique(self.place[here])) > 1:
                    raise PTXError("threads at different barriers")
                self.waiting[here] = False

    # Operands

    def get(self, operand: str, kind: str) -> np.ndarray:
        wanted = dtype(kind)
        if operand in self.special:
            value = self.special[operand]
            return np.broadcast_to(np.asarray(value), self.count)[self.active].astype(wanted)
        if operand in self.program.registers:
            return _cast(self._register(operand)[self.active], wanted)
        if operand[:2] in ("0f", "0d"):
            value = np.array(int(operand[2:], 16), "u4" if operand[1] == "f" else "u8").view(wanted)
        elif operand in self.program.shared:
            value = np.array(self.program.shared[operand], wanted)
        else:
            value = np.array(int(operand.rstrip("U"), 0) & (1 << 8 * wanted.itemsize) - 1, f"u{wanted.itemsize}").view(
                wanted
            )
        return np.full(len(self.active), value)

    def put(self, operand: str, value: np.ndarray) -> None:
        register = self._register(operand)
        register[self.active] = _cast(value, register.dtype)

    def _register(self, name: str) -> np.ndarray:
        if name not in self.registers:
            self.registers[name] = np.zeros(self.count, self.program.registers[name])
        return self.registers[name]

    def floats(self, words: list[str], operands: list[str]) -> list[np.ndarray]:
        """The inputs of an instruction; .ftz flushes subnormal ones."""
        values = [self.get(operand, words[-1]) for operand in operands[1:]]
        return [_flush(v) for v in values] if "ftz" in words else values

    def result(self, words: list[str], operand: str, value: np.ndarray) -> None:
        self.put(operand, _flush(value) if "ftz" in words else value)

    # Memory

    def _cells(self, words: list[str], operand: str, kind: np.dtype, at: int = 0) -> list[tuple[np.ndarray, Any, Any]]:
        """(memory as items, indices, which of the active threads) for an address like [%rd1+8]."""
        base, offset = re.match(r"\[([^+\]]+)(?:\+(-?\d+))?\]", operand).groups()
        address = self.get(base, "u64") + np.uint64((int(offset or 0) + at) & (1 << 64) - 1)
        if "shared" in words or (address >= SHARED).any():
            return [self._in_shared(address & np.uint64(SHARED - 1), kind)]
        which = np.searchsorted(self.starts, address, "right") - 1
        return [self._in_global(address, which == each, each, kind) for each in np.unique(which)]

    def _in_shared(self, address: np.ndarray, kind: np.dtype) -> tuple[np.ndarray, Any, Any]:
        address = address.astype(np.int64)
        if (address + kind.itemsize > self.program.shared_size).any() or (address % kind.itemsize).any():
            raise PTXError("shared memory: out of bounds or misaligned")
        index = (self.block[self.active] * self.stride + address) // kind.itemsize
        return self.shared.view(kind), index, slice(None)

    def _in_global(self, address: Any, mine: Any, which: int, kind: np.dtype) -> tuple[np.ndarray, Any, Any]:
        if which < 0:
            raise PTXError("address of nothing")
        whole, offset = self.memory[which], address[mine] - self.starts[which]
        if (offset + np.uint64(kind.itemsize) > whole.nbytes).any():
            raise PTXError("access out of bounds")
        if (address[mine] % np.uint64(kind.itemsize)).any():
            raise PTXError("misaligned access")
        items = whole[: whole.nbytes // kind.itemsize * kind.itemsize].view(kind)
        return items, (offset // np.uint64(kind.itemsize)).astype(np.int64), np.nonzero(mine)[0]

    def _parts(self, words: list[str], operand: str) -> list[str]:
        return [each.strip() for each in operand.strip("{}").split(",")]

    def op_ld(self, words: list[str], operands: list[str]) -> None:
        kind = dtype(words[-1])
        if words[1] == "param":
            value = self.parameters[operands[1].strip("[]")]
            return self.put(operands[0], np.full(len(self.active), value).view(kind))
        self._align(words, operands[1], operands[0], kind)
        for number, register in enumerate(self._parts(words, operands[0])):
            value = np.empty(len(self.active), kind)
            for cells, index, threads in self._cells(words, operands[1], kind, number * kind.itemsize):
                value[threads] = cells[index]
            self.put(register, value)

    def op_st(self, words: list[str], operands: list[str]) -> None:
        kind = dtype(words[-1])
        self._align(words, operands[0], operands[1], kind)
        for number, register in enumerate(self._parts(words, operands[1])):
            value = self.get(register, words[-1])
            for cells, index, threads in self._cells(words, operands[0], kind, number * kind.itemsize):
                cells[index] = value[threads]

    def _align(self, words: list[str], address: str, registers: str, kind: np.dtype) -> None:
        """Vectors must be aligned as a whole."""
        count = len(self._parts(words, registers))
        if count > 1:
            base, offset = re.match(r"\[([^+\]]+)(?:\+(-?\d+))?\]", address).groups()
            if ((self.get(base, "u64") + np.uint64(int(offset or 0) % 2**64)) % np.uint64(count * kind.itemsize)).any():
                raise PTXError("misaligned access to a vector")

    def op_atom(self, words: list[str], operands: list[str]) -> None:
        value, old = self.get(operands[2], words[-1]), np.empty(len(self.active), dtype(words[-1]))
        how = next(each for each in words if each in ("add", "max", "or"))
        join = {"add": np.add, "max": np.maximum, "or": np.bitwise_or}[how]
        for cells, index, threads in self._cells(words, operands[1], value.dtype):
            for t, i in zip(np.arange(len(self.active))[threads], index):
                old[t] = cells[i]
                cells[i] = join(cells[i], value[t])
        if operands[0] != "_":
            self.put(operands[0], old)

    def op_red(self, words: list[str], operands: list[str]) -> None:
        self.op_atom(words, ["_", *operands])

    def op_cvta(self, words: list[str], operands: list[str]) -> None:
        shared = "shared" in words
        self.put(operands[0], self.get(operands[1], "u64") + np.uint64(SHARED if shared and "to" not in words else 0))

    # Exchange between lanes

    def op_shfl(self, words: list[str], operands: list[str]) -> None:
        name, _, ok = operands[0].partition("|")
        if "bfly" not in words or self.get(operands[4], "b32").min() != 0xFFFFFFFF:
            raise PTXError("only whole warps shuffle here, and by xor")
        given = np.zeros((self.warp.max() + 1, 32), "u4")
        given[self.warp[self.active], self.lane[self.active]] = self.get(operands[1], "b32")
        source = self.lane[self.active] ^ self.get(operands[2], "u32").astype(np.int64)
        self.put(name, given[self.warp[self.active], source])
        if ok:
            self.put(ok, np.ones(len(self.active), bool))

    def op_vote(self, words: list[str], operands: list[str]) -> None:
        if "ballot" not in words or self.get(operands[2], "b32").min() != 0xFFFFFFFF:
            raise PTXError("only whole warps vote here, and by ballot")
        votes = np.zeros((self.warp.max() + 1, 32), "u4")
        votes[self.warp[self.active], self.lane[self.active]] = self.get(operands[1], "pred")
        self.put(operands[0], (votes << np.arange(32, dtype="u4")).sum(1, dtype="u4")[self.warp[self.active]])

    # Arithmetic

    def op_mov(self, words: list[str], operands: list[str]) -> None:
        half = f"b{4 * dtype(words[-1]).itemsize}"
        if operands[0][0] == "{":
            value = self.get(operands[1], words[-1])
            low, high = self._parts(words, operands[0])
            width = value.dtype.type(4 * value.itemsize)
            self.put(low, (value & ((value.dtype.type(1) << width) - value.dtype.type(1))).astype(dtype(half)))
            self.put(high, (value >> width).astype(dtype(half)))
        elif operands[1][0] == "{":
            low, high = (self.get(each, half).astype(dtype(words[-1])) for each in self._parts(words, operands[1]))
            self.put(operands[0], low | high << high.dtype.type(4 * high.itemsize))
        else:
            self.put(operands[0], self.get(operands[1], words[-1]))

    def op_add(self, words: list[str], operands: list[str]) -> None:
        a, b = self.floats(words, operands)
        self.result(words, operands[0], a + b)

    def op_sub(self, words: list[str], operands: list[str]) -> None:
        a, b = self.floats(words, operands)
        self.result(words, operands[0], a - b)

    def op_mul(self, words: list[str], operands: list[str]) -> None:
        a, b = self.floats(words, operands)
        if "wide" in words:
            a, b = (v.astype(f"{v.dtype.kind}{2 * v.itemsize}") for v in (a, b))
        if "hi" in words:
            return self.put(operands[0], _high(a, b))
        self.result(words, operands[0], a * b)

    def op_mad(self, words: list[str], operands: list[str]) -> None:
        a, b = (self.get(each, words[-1]) for each in operands[1:3])
        if "wide" in words:
            a, b = (v.astype(f"{v.dtype.kind}{2 * v.itemsize}") for v in (a, b))
        self.put(operands[0], a * b + self.get(operands[3], f"{words[-1][0]}{8 * a.itemsize}"))

    def op_fma(self, words: list[str], operands: list[str]) -> None:
        raise PTXError("a fused multiply-add: sums would differ from those of the CPU")

    def op_div(self, words: list[str], operands: list[str]) -> None:
        a, b = self.floats(words, operands)
        self.result(words, operands[0], a / b if a.dtype.kind == "f" else a // b)

    def op_rem(self, words: list[str], operands: list[str]) -> None:
        a, b = self.floats(words, operands)
        self.put(operands[0], np.fmod(a, b))

    def op_rcp(self, words: list[str], operands: list[str]) -> None:
        value = self.floats(words, operands)[0]
        self.result(words, operands[0], value.dtype.type(1) / value)

    def op_sqrt(self, words: list[str], operands: list[str]) -> None:
        self.result(words, operands[0], np.sqrt(self.floats(words, operands)[0]))

    def op_neg(self, words: list[str], operands: list[str]) -> None:
        self.result(words, operands[0], -self.floats(words, operands)[0])

    def op_abs(self, words: list[str], operands: list[str]) -> None:
        self.result(words, operands[0], np.abs(self.floats(words, operands)[0]))

    def op_min(self, words: list[str], operands: list[str]) -> None:
        self.result(words, operands[0], np.fmin(*self.floats(words, operands)))

    def op_max(self, words: list[str], operands: list[str]) -> None:
        self.result(words, operands[0], np.fmax(*self.floats(words, operands)))

    def op_and(self, words: list[str], operands: list[str]) -> None:
        self.put(operands[0], LOGIC[words[0]](*(self.get(each, words[-1]) for each in operands[1:])))

    op_or = op_xor = op_and

    def op_not(self, words: list[str], operands: list[str]) -> None:
        self.put(operands[0], ~self.get(operands[1], words[-1]))

    def op_shl(self, words: list[str], operands: list[str]) -> None:
        value, width = self.get(operands[1], words[-1]), 8 * dtype(words[-1]).itemsize
        by = np.minimum(self.get(operands[2], "u32"), width)
        some = np.minimum(by, width - 1).astype(value.dtype)
        moved = value << some if words[0] == "shl" else value >> some
        beyond = value >> value.dtype.type(width - 1) if value.dtype.kind == "i" and words[0] == "shr" else 0
        self.put(operands[0], np.where(by < width, moved, beyond).astype(value.dtype))

    op_shr = op_shl

    def op_shf(self, words: list[str], operands: list[str]) -> None:
        low, high, by = (self.get(each, "u32").astype(np.uint64) for each in operands[1:])
        by = by & np.uint64(31) if "wrap" in words else np.minimum(by, 32)
        both = high << np.uint64(32) | low
        self.put(operands[0], (both << by >> np.uint64(32) if "l" in words else both >> by).astype(np.uint32))

    def op_bfi(self, words: list[str], operands: list[str]) -> None:
        a, b = (self.get(each, words[-1]) for each in operands[1:3])
        start, length = (self.get(each, "u32").astype(np.uint64) for each in operands[3:])
        mask = (((np.uint64(1) << length) - np.uint64(1)) << start).astype(a.dtype)
        self.put(operands[0], (b & ~mask) | (a.astype(np.uint64) << start).astype(a.dtype) & mask)

    def op_bfe(self, words: list[str], operands: list[str]) -> None:
        if words[-1][0] != "u":
            raise PTXError("bfe of signed numbers")
        a = self.get(operands[1], words[-1])
        start, length = (self.get(each, "u32").astype(a.dtype) for each in operands[2:])
        self.put(operands[0], a >> start & ((a.dtype.type(1) << length) - a.dtype.type(1)))

    def op_prmt(self, words: list[str], operands: list[str]) -> None:
        a, b, choice = (self.get(each, "u32").astype(np.uint64) for each in operands[1:])
        both, out = b << np.uint64(32) | a, np.zeros(len(a), np.uint64)
        for byte in range(4):
            nibble = choice >> np.uint64(4 * byte)
            value = both >> np.uint64(8) * (nibble & np.uint64(7)) & np.uint64(255)
            value = np.where(nibble & np.uint64(8), np.where(value & np.uint64(128), 255, 0), value).astype(np.uint64)
            out |= value << np.uint64(8 * byte)
        self.put(operands[0], out.astype(np.uint32))

    def op_lop3(self, words: list[str], operands: list[str]) -> None:
        a, b, c = (self.get(each, "u32") for each in operands[1:4])
        table, out = int(operands[4], 0), np.zeros(len(a), np.uint32)
        for row in range(8):
            if table >> row & 1:
                out |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        self.put(operands[0], out)

    def op_popc(self, words: list[str], operands: list[str]) -> None:
        value = self.get(operands[1], words[-1])
        self.put(
            operands[0], np.unpackbits(value.view(np.uint8).reshape(len(value), -1), axis=1).sum(1).astype(np.uint32)
        )

    def op_brev(self, words: list[str], operands: list[str]) -> None:
        bits = np.unpackbits(self.get(operands[1], "u32").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
        self.put(operands[0], np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(np.uint32).reshape(-1))

    def op_clz(self, words: list[str], operands: list[str]) -> None:
        value = self.get(operands[1], "u32").astype(np.float64)
        self.put(operands[0], (31 - np.floor(np.log2(np.maximum(value, 0.5)))).astype(np.uint32))

    def op_bfind(self, words: list[str], operands: list[str]) -> None:
        value = self.get(operands[1], "u32").astype(np.float64)
        place = np.floor(np.log2(np.maximum(value, 0.5))).astype(np.int32)
        self.put(operands[0], np.where(place < 0, -1, 31 - place if "shiftamt" in words else place).astype(np.int32))

    def op_selp(self, words: list[str], operands: list[str]) -> None:
        a, b = (self.get(each, words[-1]) for each in operands[1:3])
        self.put(operands[0], np.where(self.get(operands[3], "pred"), a, b))

    def op_setp(self, words: list[str], operands: list[str]) -> None:
        a, b = self.floats(words, [operands[0], *operands[1:3]])
        how = words[1]
        if a.dtype.kind == "f" and how == "num":
            value = ~(np.isnan(a) | np.isnan(b))
        elif a.dtype.kind == "f" and how == "nan":
            value = np.isnan(a) | np.isnan(b)
        elif a.dtype.kind == "f" and how[-1] == "u" and how[:-1] in COMPARE:
            value = COMPARE[how[:-1]](a, b) | np.isnan(a) | np.isnan(b)
        elif a.dtype.kind == "f" and how == "ne":
            value = (a != b) & ~np.isnan(a) & ~np.isnan(b)
        else:
            value = COMPARE[how](a, b)
        if words[2] in LOGIC:
            name = operands[3]
            other = self.get(name.lstrip("!"), "pred") ^ name.startswith("!")
            value = LOGIC[words[2]](value, other)
        self.put(operands[0], value)

    def op_cvt(self, words: list[str], operands: list[str]) -> None:
        to, source = dtype(words[-2]), dtype(words[-1])
        value = self.get(operands[1], words[-1])
        if "ftz" in words:
            value = _flush(value)
        if source.kind == "f" and to.kind != "f":
            limits = np.iinfo(to)
            rounded = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[words[1]](value)
            value = np.clip(np.nan_to_num(rounded.astype(np.float64), nan=0), limits.min, limits.max).astype(to)
        elif source.kind == "f" and words[1] in ("rmi", "rpi", "rzi", "rni"):
            value = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[words[1]](value).astype(to)
        else:
            value = value.astype(to)
        self.result(words, operands[0], value)


def _cast(value: np.ndarray, to: np.dtype) -> np.ndarray:
    """The same bits; widened or cut as registers are."""
    if value.dtype == to:
        return value
    value = np.ascontiguousarray(value)
    if to == np.dtype("?") or value.dtype == np.dtype("?"):
        return value.astype(to)
    if value.itemsize == to.itemsize:
        return value.view(to)
    return value.astype(f"{'i' if value.dtype.kind == 'i' else 'u'}{to.itemsize}").view(to)


def _flush(value: np.ndarray) -> np.ndarray:
    if value.dtype != np.float32:
        return value
    return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), value), value)


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of a product."""
    if a.itemsize == 4:
        wide = f"{a.dtype.kind}8"
        return (a.astype(wide) * b.astype(wide) >> 32).astype(a.dtype)
    product = a.astype(object) * b.astype(object)
    return np.array([int(v) >> 64 for v in product]).astype(a.dtype)
