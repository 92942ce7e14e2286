// A GPU on the CPU: what kernels.cu needs of CUDA, block by block. The threads of a block are
// coroutines that take turns at barriers and at exchanges within a warp, so a missing barrier shows
// as a wrong sum (threads run one after the other, in an order drawn anew for every block).

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __restrict__
#define __constant__ static
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 { unsigned x, y, z; };
struct ulonglong2 { unsigned long long x, y; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct uchar4 { unsigned char x, y, z, w; };
struct double2 { double x, y; };
struct float4 { float x, y, z, w; };
struct int2 { int x, y; };
static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

enum { READY, AT_BARRIER, IN_WARP, DONE };
static const int MOST = 1024, STACK = 1 << 16;
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t scheduler, contexts[MOST];
static jmp_buf back, resume[MOST];  // jumps need no system call, unlike swapcontext
static bool started[MOST];
static char* stacks;
static int state[MOST], here;
static unsigned long long slots[MOST];
static unsigned long long seed = 1;
alignas(16) static char dynamic_shared[232448];
static void (*body)(void**);
static void** given;

static void yield_as(int why) {
  int me = here;
  state[me] = why;
  if (!_setjmp(resume[me])) _longjmp(back, 1);
}
static void __syncthreads() { yield_as(AT_BARRIER); }
static void __syncwarp(unsigned mask = ~0u) { yield_as(IN_WARP); }
static void __threadfence() {}
static void __threadfence_block() {}

template <typename T> static T exchanged(T value, int from) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  slots[here] = bits;
  yield_as(IN_WARP);
  T found;
  memcpy(&found, &slots[from], sizeof found);
  yield_as(IN_WARP);
  return found;
}
template <typename T> static T __shfl_xor_sync(unsigned, T value, int step) {
  return exchanged(value, here ^ step);
}
template <typename T> static T __shfl_up_sync(unsigned, T value, int step) {
  return exchanged(value, (here & 31) >= step ? here - step : here);
}
template <typename T> static T __shfl_down_sync(unsigned, T value, int step) {
  return exchanged(value, (here & 31) + step < 32 ? here + step : here);
}
template <typename T> static T __shfl_sync(unsigned, T value, int lane) {
  return exchanged(value, (here & ~31) + (lane & 31));
}
static unsigned __ballot_sync(unsigned, int flag) {
  slots[here] = flag != 0;
  yield_as(IN_WARP);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; lane++) {
    int other = (here & ~31) + lane;
    if (other < (int)(blockDim.x * blockDim.y) && state[other] != DONE && slots[other]) votes |= 1u << lane;
  }
  yield_as(IN_WARP);
  return votes;
}
static int __any_sync(unsigned mask, int flag) { return __ballot_sync(mask, flag) != 0; }
static int __popc(unsigned word) { return __builtin_popcount(word); }
static int __popcll(unsigned long long word) { return __builtin_popcountll(word); }
static int __clz(int word) { return word ? __builtin_clz(word) : 32; }
static int __ffs(int word) { return __builtin_ffs(word); }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
template <typename T> static T __ldcg(const T* at) { return *at; }
template <typename T> static T __ldg(const T* at) { return *at; }
template <typename T> static T atomicAdd(T* at, T more) { T old = *at; *at += more; return old; }
template <typename T> static T atomicMax(T* at, T other) { T old = *at; if (other > old) *at = other; return old; }
template <typename T> static T atomicMin(T* at, T other) { T old = *at; if (other < old) *at = other; return old; }
template <typename T> static T atomicOr(T* at, T other) { T old = *at; *at |= other; return old; }
template <typename T> static T atomicExch(T* at, T other) { T old = *at; *at = other; return old; }
template <typename T> static T atomicCAS(T* at, T seen, T other) { T old = *at; if (old == seen) *at = other; return old; }
template <typename T> static T min(T a, T b) { return b < a ? b : a; }
template <typename T> static T max(T a, T b) { return a < b ? b : a; }

static unsigned drawn(unsigned below) {
  seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
  return (unsigned)(seed % below);
}

// A thread waits for the next block when it is done: to make a new one takes system calls.
static void run_thread() {
  for (;;) {
    body(given);
    yield_as(DONE);
  }
}

static void make_threads() {
  stacks = (char*)malloc((size_t)MOST * STACK);
  for (int t = 0; t < MOST; t++) {
    getcontext(&contexts[t]);
    contexts[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
    contexts[t].uc_stack.ss_size = STACK;
    contexts[t].uc_link = &scheduler;
    makecontext(&contexts[t], run_thread, 0);
  }
}

static int run_block(int* order) {
  volatile int count = blockDim.x * blockDim.y;
  for (int t = 0; t < count; t++) {
    state[t] = READY;
    int other = drawn(t + 1);
    order[t] = order[other];
    order[other] = t;
  }
  for (;;) {
    volatile int ran = 0;
    int waiting = 0, left = 0;
    for (volatile int k = 0; k < count; k++) {
      int t = order[k];
      if (state[t] == READY) {
        here = t;
        threadIdx = {t % blockDim.x, t / blockDim.x, 0};
        if (!_setjmp(back)) {
          if (started[t]) _longjmp(resume[t], 1);
          started[t] = true;
          setcontext(&contexts[t]);
        }
        ran++;
      }
    }
    for (int warp = 0; warp < count; warp += 32) {
      int end = warp + 32 < count ? warp + 32 : count, live = 0, met = 0;
      for (int t = warp; t < end; t++) { live += state[t] != DONE; met += state[t] == IN_WARP; }
      if (live && live == met) for (int t = warp; t < end; t++) if (state[t] == IN_WARP) { state[t] = READY; ran++; }
    }
    for (int t = 0; t < count; t++) { left += state[t] != DONE; waiting += state[t] == AT_BARRIER; }
    if (!left) return 0;
    if (left == waiting) for (int t = 0; t < count; t++) if (state[t] == AT_BARRIER) { state[t] = READY; ran++; }
    if (!ran) return 1;  // threads wait for others that never come
  }
}

static int run_grid(void (*kernel)(void**), void** arguments, const int* grid, const int* block, int drawn_seed) {
  if (!stacks) make_threads();
  int order[MOST];
  seed = 0x9E3779B97F4A7C15ull + drawn_seed;
  body = kernel;
  given = arguments;
  blockDim = {(unsigned)block[0], (unsigned)block[1], 1};
  gridDim = {(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]};
  long long blocks = (long long)grid[0] * grid[1] * grid[2];
  long long first = drawn(blocks < 1000000 ? (unsigned)blocks : 1000000);
  for (long long number = 0; number < blocks; number++) {
    long long at = (number + first) % blocks;
    blockIdx = {(unsigned)(at % grid[0]), (unsigned)(at / grid[0] % grid[1]), (unsigned)(at / grid[0] / grid[1])};
    memset(dynamic_shared, 0xA5, sizeof dynamic_shared < 65536 ? sizeof dynamic_shared : 65536);
    if (run_block(order)) return 1;
  }
  return 0;
}
