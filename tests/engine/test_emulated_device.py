"""What the emulated device finds wrong with kernels; see `emulated_device.h`."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler

pytestmark = needs_compiler

KERNELS = """
typedef long long i64;
typedef unsigned long long u64;
extern "C" __global__ void reversed(int n, const int* from, int* to, int barrier) {
  __shared__ int room[64];
  room[threadIdx.x] = from[threadIdx.x];
  if (barrier) __syncthreads();
  to[threadIdx.x] = room[63 - threadIdx.x];
}
extern "C" __global__ void in_warps(int* to, int barrier) {
  __shared__ int room[64];
  int other = __shfl_xor_sync(~0u, (int)threadIdx.x, 1);
  room[threadIdx.x] = other;
  if (barrier) __syncwarp();
  to[threadIdx.x] = room[threadIdx.x ^ 1];
}
extern "C" __global__ void far(const int* from, int* to, int shift) {
  to[threadIdx.x] = from[threadIdx.x + shift];
}
extern "C" __global__ void wide_shared(int* to) {
  extern __shared__ int room[];
  room[threadIdx.x] = 1;
  to[threadIdx.x] = room[threadIdx.x];
}
extern "C" __global__ void unwritten(int* to) {
  __shared__ int room[64];
  if (threadIdx.x < 63) room[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = room[threadIdx.x];
}
extern "C" __global__ void alone(int* to, int early) {
  if (early && threadIdx.x == 5) return;
  if (!early && threadIdx.x == 5) __syncthreads();
  else __syncthreads();
  to[threadIdx.x] = 1;
}
extern "C" __global__ void together(u64* to, int atomic) {
  if (atomic) atomicAdd(to, 1ULL);
  else if (threadIdx.x == 0) *to = *to + 1;
}
extern "C" __global__ void constant(const int* from) { ((int*)from)[threadIdx.x] = 1; }
extern "C" __global__ void large(int by, int* to) { to[threadIdx.x] = by * ((int)threadIdx.x + 1); }
extern "C" __global__ void last(int fence, int* parts, u64* count, int* to) {
  __shared__ int is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = 1;
    if (fence) __threadfence();
    is_last = atomicAdd(count, 1ULL) == gridDim.x - 1;
    if (is_last) {
      if (fence) __threadfence();
      int sum = 0;
      for (int k = 0; k < (int)gridDim.x; k++) sum += __ldcg(&parts[k]);
      *to = sum;
    }
  }
}
"""


@pytest.fixture
def device():
    return EmulatedDevice(kernels=KERNELS)


def arrays(device):
    return device.put(np.arange(64, dtype=np.int32)), device.zeros(64, dtype=np.int32)


def test_what_is_right_is_left_alone(device):
    one, other = arrays(device)
    device.launch("reversed", 1, 64, 64, one, other, 1)
    np.testing.assert_array_equal(device.get(other), np.arange(64)[::-1])
    device.launch("in_warps", 1, 64, other, 1)
    np.testing.assert_array_equal(device.get(other), np.arange(64))
    device.launch("far", 1, 60, one, other, 4)
    device.launch("wide_shared", 1, 64, other, shared=256)
    count, to = device.zeros(1, dtype=np.uint64), device.zeros(1, dtype=np.int32)
    device.launch("together", 3, 64, count, 1)
    assert device.get(count)[0] == 192
    parts, count = device.zeros(9, dtype=np.int32), device.zeros(1, dtype=np.uint64)
    device.launch("last", 9, 32, 1, parts, count, to)
    assert device.get(to)[0] == 9
    device.launch("large", 1, 64, 1000, other)
    device.launch("alone", 1, 5, other[:5], 1)


@pytest.mark.parametrize(
    ("kernel", "grid", "message", "given"),
    [
        ("reversed", 1, "nothing orders this after|before it is written",
         lambda one, other: (64, one, other, 0)),
        ("in_warps", 1, "nothing orders this after|before it is written",
         lambda _, other: (other, 0)),
        ("far", 1, "4 bytes at byte 256 of 256, seen from argument 0",
         lambda one, other: (one, other, 1)),
        ("far", 1, "4 bytes at byte .* of 256, seen from argument",
         lambda one, other: (one, other, -1)),
        ("far", 1, "of 252, seen from argument 1", lambda one, other: (one, other[:-1], 0)),
        ("wide_shared", 1, "of 252 in shared memory", lambda _, other: (other,)),
        ("unwritten", 1, "shared memory is read before it is written", lambda _, other: (other,)),
        ("alone", 1, "a barrier that this thread does not reach", lambda _, other: (other, 1)),
        ("alone", 1, "threads wait at lines", lambda _, other: (other, 0)),
        ("together", 2, "nothing orders this after", lambda one, _: (one.view(np.uint64), 0)),
        ("constant", 1, "argument 0 is constant, and is written", lambda one, _: (one,)),
        ("large", 1, "an integer overflows", lambda _, other: (1 << 30, other)),
        ("far", 1, "not aligned", lambda one, other: (one.view(np.uint8)[1:-3].view(np.int32),
                                                      other[:63], 0)),
        ("last", 9, "nothing orders this after",
         lambda one, other: (0, one, other[:2].view(np.uint64), other[2:])),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(device, kernel, grid, message, given):
    with pytest.raises(pytest.fail.Exception, match=message):
        device.launch(kernel, grid, 64, *given(*arrays(device)), shared=252)
    test_what_is_right_is_left_alone(device)


def test_arguments_are_what_kernels_take(device):
    one, other = arrays(device)
    for wrong in (True, np.int64(1), 1.0):
        with pytest.raises(AssertionError, match="is passed as int"):
            device.launch("far", 1, 60, one, other, wrong)
    with pytest.raises(AssertionError, match="not on the device"):
        device.launch("far", 1, 60, one, np.zeros(64, np.int32), 0)
    with pytest.raises(AssertionError):
        device.launch("far", (1, 1 << 16), 60, one, other, 0)


def test_arrays_of_the_cpu_do_not_mix(device):
    one, _ = arrays(device)
    with pytest.raises(AssertionError, match="not on the device"):
        one + np.ones(64)
    with pytest.raises(AssertionError, match="not on the device"):
        one[:] = np.ones(64, np.int32)
    one[:] = one + 1
    assert device.get(one)[3] == 4


def test_fresh_memory_is_not_zero(device):
    assert not any((device.get(device.xp.empty(9, np.float64)) == 0).any() for _ in range(9))


def test_copies_are_counted(device):
    there = device.put(np.zeros(5))
    device.get(device.put(there))
    assert (device.sent, device.fetched) == ([40], [40])
