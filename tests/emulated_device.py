"""A GPU on the CPU: the kernels of `kernels.cu`, compiled by a C++ compiler and run block by block.

With it the suite tests kernels and the Python around them on any machine that has g++. What only
a GPU can show, races between blocks and speed, is left to `make gpu`.
"""

import ctypes
import hashlib
import math
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from precede.engine import cuda

COMPILER = shutil.which("g++") or shutil.which("c++")
needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="kernels are compiled with g++, and there is none"
)
# The C library has functions of the same names (`advance`), which -Bsymbolic keeps away.
OPTIONS = ["-O1", "-std=c++17", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-ffp-contract=off", "-w"]
HEADER = Path(__file__).with_name("emulated_device.h")
SOURCE = Path(cuda.__file__).with_name("kernels.cu")
SIGNATURE = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)'
)
SHARED = re.compile(r"extern __shared__ ([\w ]+?) (\w+)\[\];")


class There(np.ndarray):
    """An array in the memory of the device."""

    def get(self):
        return np.array(self)


def signatures(text):
    """The types of the arguments of every kernel, by its name."""
    return {
        name: [re.sub(r"\s*\w+$", "", each.strip()) for each in given.split(",")]
        for name, given in SIGNATURE.findall(text)
    }


@lru_cache
def library():
    """The compiled kernels, and the types of their arguments."""
    text = SOURCE.read_text(encoding="utf-8")
    kinds = signatures(text)
    code = HEADER.read_text(encoding="utf-8")
    code += SHARED.sub(r"\1* \2 = (\1*)dynamic_shared;", text)
    for name, types in kinds.items():
        values = ", ".join(f"*({each}*)a[{number}]" for number, each in enumerate(types))
        code += f"""
static void run_{name}(void** a) {{ {name}({values}); }}
extern "C" int emulate_{name}(void** a, const int* grid, const int* block, int seed) {{
  return run_grid(run_{name}, a, grid, block, seed);
}}
"""
    folder = Path(tempfile.gettempdir()) / "precede_emulated_device"
    folder.mkdir(exist_ok=True)
    digest = hashlib.sha256(f"{COMPILER}{OPTIONS}{code}".encode()).hexdigest()
    built = folder / f"{digest[:16]}.so"
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=folder) as here:
            source, out = Path(here) / "kernels.cpp", Path(here) / "kernels.so"
            source.write_text(code, encoding="utf-8")
            subprocess.run([COMPILER, *OPTIONS, source, "-o", out], check=True)
            out.replace(built)
    return ctypes.PyDLL(str(built)), kinds


class EmulatedDevice(cuda.Device):
    """Launches run at once, blocks and threads in an order drawn anew."""

    name = "emulated device"
    count = 1

    def __init__(self, free=10**12, seed=0):
        self.arrays = SimpleNamespace(
            ndarray=There,
            zeros=lambda *given: np.zeros(*given).view(There),
            empty=lambda *given: np.zeros(*given).view(There),
            full=lambda *given: np.full(*given).view(There),
            ascontiguousarray=lambda array, kind: np.ascontiguousarray(array, kind).view(There),
            asarray=lambda array: array.view(There),
            isinf=np.isinf,
            take=lambda array, at, axis: np.take(array, at, axis).view(There),
            argsort=lambda array: np.argsort(array, kind="stable").view(There),
            stack=lambda parts: np.stack(parts).view(There),
            concatenate=lambda parts, axis=0: np.concatenate(parts, axis).view(There),
            cuda=SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (free, free))),
            get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        )
        self.launched, self.used = [], []
        self._rng = np.random.default_rng(seed)

    def use(self, number):
        self.used.append(number)

    def put(self, array):
        return array if self.holds(array) else np.array(array, order="C").view(There)

    def launch(self, kernel, grid, block, *arguments, shared=0):
        grid = (*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3]
        block = (*(block if isinstance(block, tuple) else (block,)), 1)[:2]
        assert all(0 < each < 2**31 for each in grid)
        assert 0 < block[0] * block[1] <= 1024
        assert shared <= 227 * 1024
        self.launched.append(kernel)
        kernels, kinds = library()
        types = kinds[kernel]
        assert len(types) == len(arguments), kernel
        kept = [as_argument(kind, each) for kind, each in zip(types, arguments, strict=True)]
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(each) for each in kept))
        sizes, threads = (ctypes.c_int * 3)(*map(int, grid)), (ctypes.c_int * 2)(*map(int, block))
        seed = int(self._rng.integers(2**31))
        assert not getattr(kernels, f"emulate_{kernel}")(pointers, sizes, threads, seed), (
            f"threads of {kernel} wait for others that do not come"
        )


NUMBERS = {
    "int": ctypes.c_int32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32,
    "double": ctypes.c_double, "float": ctypes.c_float,
}  # fmt: skip
# Sizes of the numbers behind pointers; int64 words may hold anything (`cuda.Batch`).
SIZES = {"int": 4, "i64": 8, "u64": 8, "u32": 4, "u8": 1, "double": 8, "float": 4, "signed char": 1}


def as_argument(kind, given):
    """What a kernel gets for an argument, after the checks that a compiler would make."""
    if kind.endswith("*"):
        if given is None:
            return ctypes.c_void_p(0)
        assert isinstance(given, There), f"{type(given).__name__} is not on the device"
        assert given.flags.c_contiguous
        name = kind.rstrip("*").replace("const", "").strip()
        sizes = given.dtype.itemsize, 8 * (given.dtype == np.int64)
        assert name not in SIZES or SIZES[name] in sizes or 8 in sizes, (kind, given.dtype)
        return ctypes.c_void_p(given.ctypes.data)
    number = NUMBERS[kind](given)
    assert number.value == given or math.isnan(given), f"{given} does not fit into {kind}"
    whole = kind in ("int", "i64", "u64", "u32")
    wide = kind in ("i64", "u64")
    assert whole != isinstance(given, float), (kind, given)
    assert not (wide and type(given) is int), f"{given}: Python's numbers are passed as 32 bits"
    return number
