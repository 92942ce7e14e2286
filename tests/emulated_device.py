"""An emulated GPU: `kernels.cu` compiled by a C++ compiler and run on the CPU, block by block.

It tests the kernels and their callers on any machine with g++. Every memory access is checked, as
compute-sanitizer does; see `emulated_device.h`. Tests that need a real GPU are run by `make gpu`.
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
from sklearn.base import clone

from precede.engine import cuda

COMPILER = shutil.which("g++") or shutil.which("c++")
needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="kernels are compiled with g++, and there is none"
)
SANITIZING = ["-fsanitize=thread,undefined,float-cast-overflow", "-g1"]
SANITIZING += ["--param", "tsan-instrument-func-entry-exit=0"]
OPTIONS = ["-O1", "-std=c++20", "-fPIC", "-ffp-contract=off", "-w", *SANITIZING]
# Without the libraries of -fsanitize. -Bsymbolic hides functions of the C library that are
# named like kernels (`advance`).
LINKING = ["-shared", "-Wl,-Bsymbolic"]
HEADER = Path(__file__).with_name("emulated_device.h")
SOURCE = Path(cuda.__file__).with_name("kernels.cu")
SIGNATURE = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)'
)
SHARED = re.compile(r"extern __shared__ ([\w ]+?) (\w+)\[\];")


class DeviceArray(np.ndarray):
    """An array on the emulated device; like CuPy's, it cannot be mixed with NumPy arrays."""

    def get(self):
        return np.array(self.view(np.ndarray))

    def __array_ufunc__(self, ufunc, method, *given, **named):
        assert not any(type(each) is np.ndarray for each in given), "an array is not on the device"
        given = [each.view(np.ndarray) if isinstance(each, DeviceArray) else each for each in given]
        if "out" in named:
            named["out"] = tuple(each.view(np.ndarray) for each in named["out"])
        found = getattr(ufunc, method)(*given, **named)
        return found.view(DeviceArray) if isinstance(found, np.ndarray) else found

    def __setitem__(self, key, value):
        assert isinstance(value, DeviceArray) or np.ndim(value) == 0, (
            "an array is not on the device"
        )
        super().__setitem__(key, value)


# Bytes that fill uninitialized memory: NaN, tiny and huge numbers.
GARBAGE = (0xFF, 0x11, 0x66)


def signatures(text):
    """Return the types of the arguments of each kernel, by name."""
    return {
        name: [re.sub(r"\s*\w+$", "", each.strip()) for each in given.split(",")]
        for name, given in SIGNATURE.findall(text)
    }


@lru_cache
def library(text):
    """Compile kernels; return the library and the types of their arguments."""
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
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            source, out = Path(temporary) / "kernels.cpp", Path(temporary) / "kernels.so"
            source.write_text(code, encoding="utf-8")
            compiled = Path(temporary) / "kernels.o"
            subprocess.run([COMPILER, *OPTIONS, "-c", source, "-o", compiled], check=True)
            subprocess.run([COMPILER, *LINKING, compiled, "-o", out], check=True)
            out.replace(built)
    kernels = ctypes.PyDLL(str(built))
    kernels.what_is_wrong.restype = ctypes.c_char_p
    return kernels, kinds


def error_report(kernels):
    """Return the error of the last launch, with the lines of the kernels."""
    address, message = kernels.what_is_wrong().decode().split(" ", 1)
    tool = shutil.which("addr2line")
    if tool is None:
        return message
    given = [tool, "-i", "-e", kernels._name, address]
    lines = subprocess.run(given, check=False, capture_output=True, text=True).stdout
    return f"{message} ({', '.join(re.findall(r'kernels.cu:[0-9]+', lines))})"


class EmulatedDevice(cuda.CudaBackend):
    """A device whose launches run synchronously, blocks and threads in random order.

    Attributes
    ----------
    launched : names of the kernels launched
    sent, fetched : sizes in bytes of the arrays copied to and from the device
    """

    name = "emulated device"
    count = 1

    def __init__(self, free=10**12, seed=0, kernels=None):
        self._text = SOURCE.read_text(encoding="utf-8") if kernels is None else kernels
        self.xp = SimpleNamespace(
            ndarray=DeviceArray,
            zeros=lambda *given: np.zeros(*given).view(DeviceArray),
            empty=self._empty,
            full=lambda *given: np.full(*given).view(DeviceArray),
            ascontiguousarray=lambda array, kind: np.ascontiguousarray(array, kind).view(
                DeviceArray
            ),
            asarray=lambda array: array.view(DeviceArray),
            isinf=np.isinf,
            where=lambda *given: np.where(*given).view(DeviceArray),
            cumsum=lambda array, dtype: np.cumsum(array, dtype=dtype).view(DeviceArray),
            take=lambda array, at, axis: np.take(array, at, axis).view(DeviceArray),
            argsort=lambda array: np.argsort(array, kind="stable").view(DeviceArray),
            stack=lambda parts: np.stack(parts).view(DeviceArray),
            concatenate=lambda parts, axis=0: np.concatenate(parts, axis).view(DeviceArray),
            cuda=SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (free, free))),
            get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        )
        self.launched, self.used, self.sent, self.fetched = [], [], [], []
        self._rng = np.random.default_rng(seed)

    def use(self, number):
        self.used.append(number)

    def _empty(self, *given):
        array = np.empty(*given)
        array.reshape(-1).view(np.uint8)[:] = GARBAGE[self._rng.integers(len(GARBAGE))]
        return array.view(DeviceArray)

    def put(self, array):
        if self.holds(array):
            return array
        array = np.array(array, order="C")
        self.sent.append(array.nbytes)
        return array.view(DeviceArray)

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
            for number in memory_range(kind, each)
        ]
        ranges = (ctypes.c_longlong * len(arrays))(*arrays)
        seed = int(self._rng.integers(2**31))
        if getattr(kernels, f"emulate_{kernel}")(pointers, sizes, ranges, seed):
            pytest.fail(f"{kernel}: {error_report(kernels)}")


def memory_range(kind, given):
    """Return address, size in bytes and writability of an array; zeros for a number."""
    if not isinstance(given, DeviceArray):
        return 0, 0, 0
    return given.ctypes.data, given.nbytes, int("const" not in kind)


# Accepted types of numbers: CuPy passes their bytes unchanged; `CudaBackend.launch` converts Python
# integers to 32 bits.
NUMBERS = {
    "int": (ctypes.c_int32, (int, np.int32)), "i64": (ctypes.c_int64, (np.int64,)),
    "double": (ctypes.c_double, (float, np.float64)),
}  # fmt: skip
# Item sizes of arrays; int64 words may hold anything (`cuda.Batch`).
SIZES = {"int": 4, "i64": 8, "u64": 8, "u32": 4, "u8": 1, "double": 8, "float": 4, "signed char": 1}


def as_argument(kind, given):
    """Convert an argument of a kernel, after the checks that a compiler would make."""
    if kind.endswith("*"):
        if given is None:
            return ctypes.c_void_p(0)
        assert isinstance(given, DeviceArray), f"{type(given).__name__} is not on the device"
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


def assert_same_fit(estimator, columns, *given, **named):
    """Assert that fits on the CPU and on the fixture `device` are equal; return the latter."""
    here, there = (
        clone(estimator).set_params(device=name).fit(*given, **named) for name in ("cpu", "cuda")
    )
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    for column in columns:
        np.testing.assert_array_equal(here.history_[column], there.history_[column])
    return there
