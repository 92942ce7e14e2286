"""A GPU on the CPU: the kernels of `kernels.cu`, compiled by a C++ compiler and run block by block.

With it the suite tests kernels and the Python around them on any machine that has g++. Every access
to memory is looked at, as compute-sanitizer does it; see `emulated_device.h`. What only a GPU can
show, such as speed, is left to `make gpu`.
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
LOOKING = ["-fsanitize=thread,undefined,float-cast-overflow", "-g1"]
LOOKING += ["--param", "tsan-instrument-func-entry-exit=0"]
OPTIONS = ["-O1", "-std=c++20", "-fPIC", "-ffp-contract=off", "-w", *LOOKING]
LINKING = ["-shared", "-Wl,-Bsymbolic"]  # not with the libraries of -fsanitize
HEADER = Path(__file__).with_name("emulated_device.h")
SOURCE = Path(cuda.__file__).with_name("kernels.cu")
SIGNATURE = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)'
)
SHARED = re.compile(r"extern __shared__ ([\w ]+?) (\w+)\[\];")


class There(np.ndarray):
    """An array in the memory of the device; as with CuPy's, those of the CPU do not mix with it."""

    def get(self):
        return np.array(self.view(np.ndarray))

    def __array_ufunc__(self, ufunc, method, *given, **named):
        assert not any(type(each) is np.ndarray for each in given), "an array is not on the device"
        given = [each.view(np.ndarray) if isinstance(each, There) else each for each in given]
        if "out" in named:
            named["out"] = tuple(each.view(np.ndarray) for each in named["out"])
        found = getattr(ufunc, method)(*given, **named)
        return found.view(There) if isinstance(found, np.ndarray) else found

    def __setitem__(self, key, value):
        assert isinstance(value, There) or np.ndim(value) == 0, "an array is not on the device"
        super().__setitem__(key, value)


# What fresh memory is full of: no number, or numbers that are too small or too large.
LEFT_OVER = (0xFF, 0x11, 0x66)


def signatures(text):
    """The types of the arguments of every kernel, by its name."""
    return {
        name: [re.sub(r"\s*\w+$", "", each.strip()) for each in given.split(",")]
        for name, given in SIGNATURE.findall(text)
    }


@lru_cache
def library(text):
    """Compiled kernels, and the types of their arguments."""
    kinds = signatures(text)
    code = HEADER.read_text(encoding="utf-8")
    code += '\n#line 1 "kernels.cu"\n' + SHARED.sub(r"\1* \2 = (\1*)dynamic_shared;", text)
    for name, types in kinds.items():
        values = ", ".join(f"*({each}*)a[{number}]" for number, each in enumerate(types))
        code += f"""
PLAIN static void run_{name}(void** a) {{ {name}({values}); }}
extern "C" PLAIN int emulate_{name}(void** a, const int* sizes, const i64* arrays, int seed) {{
  return run_grid(run_{name}, {len(types)}, a, sizes, arrays, seed);
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
            middle = Path(here) / "kernels.o"
            subprocess.run([COMPILER, *OPTIONS, "-c", source, "-o", middle], check=True)
            subprocess.run([COMPILER, *LINKING, middle, "-o", out], check=True)
            out.replace(built)
    kernels = ctypes.PyDLL(str(built))
    kernels.what_is_wrong.restype = ctypes.c_char_p
    return kernels, kinds


def what_is_wrong(kernels):
    """What a launch found, with the lines of the kernels."""
    place, what = kernels.what_is_wrong().decode().split(" ", 1)
    tool = shutil.which("addr2line")
    if tool is None:
        return what
    given = [tool, "-i", "-e", kernels._name, place]
    lines = subprocess.run(given, check=False, capture_output=True, text=True).stdout
    return f"{what} ({', '.join(re.findall(r'kernels.cu:[0-9]+', lines))})"


class EmulatedDevice(cuda.Device):
    """Launches run at once, blocks and threads in an order drawn anew.

    Attributes
    ----------
    launched : names of the kernels
    sent, fetched : bytes of every array that was copied to the device, and from it
    """

    name = "emulated device"
    count = 1

    def __init__(self, free=10**12, seed=0, kernels=None):
        self._text = SOURCE.read_text(encoding="utf-8") if kernels is None else kernels
        self.arrays = SimpleNamespace(
            ndarray=There,
            zeros=lambda *given: np.zeros(*given).view(There),
            empty=self._empty,
            full=lambda *given: np.full(*given).view(There),
            ascontiguousarray=lambda array, kind: np.ascontiguousarray(array, kind).view(There),
            asarray=lambda array: array.view(There),
            isinf=np.isinf,
            cumsum=lambda array, dtype: np.cumsum(array, dtype=dtype).view(There),
            take=lambda array, at, axis: np.take(array, at, axis).view(There),
            argsort=lambda array: np.argsort(array, kind="stable").view(There),
            stack=lambda parts: np.stack(parts).view(There),
            concatenate=lambda parts, axis=0: np.concatenate(parts, axis).view(There),
            cuda=SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (free, free))),
            get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        )
        self.launched, self.used, self.sent, self.fetched = [], [], [], []
        self._rng = np.random.default_rng(seed)

    def use(self, number):
        self.used.append(number)

    def _empty(self, *given):
        array = np.empty(*given)
        array.reshape(-1).view(np.uint8)[:] = LEFT_OVER[self._rng.integers(len(LEFT_OVER))]
        return array.view(There)

    def put(self, array):
        if self.holds(array):
            return array
        array = np.array(array, order="C")
        self.sent.append(array.nbytes)
        return array.view(There)

    def get(self, array):
        if not self.holds(array):
            return array
        self.fetched.append(array.nbytes)
        return array.get()

    def launch(self, kernel, grid, block, *arguments, shared=0):
        grid = (*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3]
        block = (*(block if isinstance(block, tuple) else (block,)), 1)[:2]
        assert 0 < grid[0] < 2**31
        assert all(0 < each < 2**16 for each in grid[1:])
        assert 0 < block[0] * block[1] <= 1024
        assert shared <= 227 * 1024
        self.launched.append(kernel)
        kernels, kinds = library(self._text)
        types = kinds[kernel]
        assert len(types) == len(arguments), kernel
        kept = [as_argument(kind, each) for kind, each in zip(types, arguments, strict=True)]
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(each) for each in kept))
        sizes = (ctypes.c_int * 6)(*map(int, grid), *map(int, block), shared)
        arrays = [
            number
            for kind, each in zip(types, arguments, strict=True)
            for number in where(kind, each)
        ]
        known = (ctypes.c_longlong * len(arrays))(*arrays)
        seed = int(self._rng.integers(2**31))
        if getattr(kernels, f"emulate_{kernel}")(pointers, sizes, known, seed):
            pytest.fail(f"{kernel}: {what_is_wrong(kernels)}")


def where(kind, given):
    """Where an array begins, its bytes, and whether it may be written; zeros for a number."""
    if not isinstance(given, There):
        return 0, 0, 0
    return given.ctypes.data, given.nbytes, int("const" not in kind)


# What numbers may be: CuPy passes them with the bytes that they have, and `Device.launch` makes
# Python's integers 32 bits long.
NUMBERS = {
    "int": (ctypes.c_int32, (int, np.int32)), "i64": (ctypes.c_int64, (np.int64,)),
    "double": (ctypes.c_double, (float, np.float64)),
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
    made, types = NUMBERS[kind]
    assert type(given) in types, f"{given!r} of {type(given).__name__} is passed as {kind}"
    number = made(given)
    assert number.value == given or math.isnan(given), f"{given} does not fit into {kind}"
    return number
