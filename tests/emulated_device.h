// An emulated GPU: the parts of CUDA that kernels.cu needs, run on the CPU one thread block at a time.
// The threads of a block are coroutines that yield at barriers and at warp exchanges, in an order drawn
// for each block, so that a missing barrier shows as a wrong sum.
//
// Kernels are compiled with -fsanitize=thread,undefined; the functions that this instrumentation calls
// are defined below and check every memory access, as compute-sanitizer does. They detect accesses
// outside of the arguments' arrays and of the requested shared memory, writes to constant arrays, reads
// of uninitialized shared memory, data races, barriers that not all threads reach, and undefined behavior
// such as misaligned pointers or integer overflow.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__ __attribute__((noinline))
#define __device__ static
#define __forceinline__ inline
#define __shared__ static __attribute__((section("emulated_shared")))
// The emulation itself is not instrumented.
#define PLAIN __attribute__((no_sanitize("thread"), no_sanitize("undefined"), no_sanitize("float-cast-overflow")))
#define SITE __builtin_return_address(0)

struct dim3 { unsigned x, y, z; };
struct ulonglong2 { unsigned long long x, y; };
static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

enum { READY, AT_BARRIER, IN_WARP, DONE };
static const int MAX_THREADS = 1024, STACK = 1 << 16;
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t scheduler, contexts[MAX_THREADS];
static jmp_buf back, failed, resume[MAX_THREADS];  // jumps need no system call, unlike swapcontext
static bool started[MAX_THREADS];
static char* stacks;
static int state[MAX_THREADS], current;
static unsigned synced[MAX_THREADS], barriers;  // warp barriers of every thread, and barriers of the block
static int lines[MAX_THREADS];  // of the kernels, where threads wait
static unsigned long long slots[MAX_THREADS];
static unsigned long long seed = 1;
alignas(16) static char dynamic_shared[232448];
extern "C" char __start_emulated_shared[], __stop_emulated_shared[], _end[], __ehdr_start[];
static void (*body)(void**);
static void** given;

// -- errors ------------------------------------------------------------------------------------

static char report[500];

// Write a report and abort the launch.
PLAIN static void fail(void* site, const char* format, ...) {
  int size = snprintf(report, sizeof report, "%lx block %u,%u,%u thread %d: ", (long)((char*)site - __ehdr_start) - 1, blockIdx.x, blockIdx.y, blockIdx.z, current);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(report + size, sizeof report - size, format, arguments);
  va_end(arguments);
  _longjmp(failed, 1);
}

// An array passed to the kernel; `alone` if it overlaps no other.
struct Range { const char *begin, *end; int number; bool writable, alone; };
static Range ranges[64];
static int range_count, recent, shared_size;

// An access to four bytes (or to one, for byte arrays): by a thread of a block, numbered over all
// launches, between two barriers.
struct Access { unsigned block, barrier, sync; unsigned fences; short thread; bool atomic; };
struct Cell { Access write, reads[2]; };
static unsigned block_number, launch_start;
// Writes of a block before a fence are published by its next atomic addition; it sees the published
// writes of other blocks after an atomic addition followed by a fence.
static unsigned fences, *published;
static bool counted, noticing;

// Shadow cells of a page of 4096 bytes, by four bytes ([0]) or by single bytes ([1]).
struct Page { uintptr_t number; Cell* cells; };
static const unsigned PAGES = 1 << 16, MAX_PAGES = 2000;
static Page pages[2][PAGES], recent_page[2];
static unsigned page_count;

PLAIN static Cell* cell_of(const char* at, bool bytes) {
  uintptr_t number = (uintptr_t)at >> 12;
  size_t inside = bytes ? (uintptr_t)at & 4095 : ((uintptr_t)at & 4095) >> 2;
  if (recent_page[bytes].cells && recent_page[bytes].number == number) return recent_page[bytes].cells + inside;
  unsigned place = (unsigned)(number * 0x9E3779B97F4A7C15ull >> 48);
  Page* page = pages[bytes] + place;
  while (page->cells && page->number != number) page = pages[bytes] + (place = (place + 1) % PAGES);
  if (!page->cells) {
    page->number = number;
    page->cells = (Cell*)calloc(bytes ? 4096 : 1024, sizeof(Cell));
    page_count++;
  }
  recent_page[bytes] = *page;
  return page->cells + inside;
}

PLAIN static void forget_pages() {
  for (int kind = 0; kind < 2; kind++)
    for (unsigned k = 0; k < PAGES; k++)
      if (pages[kind][k].cells) { free(pages[kind][k].cells); pages[kind][k] = {}; }
  recent_page[0] = recent_page[1] = {};
  page_count = 0;
}

enum Kind { READ, WRITE, ATOMIC, CONSTANT };

// Whether another access races with one of the current thread.
PLAIN static bool unordered(const Access& other, bool shared) {
  if (other.block < launch_start) return false;
  if (other.block != block_number) return !shared && !(noticing && other.fences < published[other.block - launch_start]);
  return other.thread != current && other.barrier == barriers && (other.thread >> 5 != current >> 5 || other.sync == synced[current]);
}

PLAIN static void check_order(const char* at, bool bytes, Kind kind, bool shared, int number, void* site) {
  Cell* cell = cell_of(at, bytes);
  if (shared && kind != WRITE && cell->write.block != block_number)
    fail(site, "shared memory is read before it is written");
  if (unordered(cell->write, shared) && !(kind == ATOMIC && cell->write.atomic))
    fail(site, "argument %d (-1: shared memory): nothing orders this after a write by thread %d of block %u", number, cell->write.thread, cell->write.block - launch_start);
  if (kind == CONSTANT && cell->write.block >= launch_start)
    fail(site, "argument %d is read as a constant, and was written", number);
  Access own = {block_number, barriers, synced[current], fences, (short)current, kind == ATOMIC};
  if (kind == WRITE || kind == ATOMIC) {
    for (const Access& read : cell->reads)
      if (unordered(read, shared)) fail(site, "argument %d (-1: shared memory): nothing orders this after a read by thread %d of block %u", number, read.thread, read.block - launch_start);
    cell->write = own;
    return;
  }
  if (cell->reads[0].block != block_number || cell->reads[0].thread != current) cell->reads[1] = cell->reads[0];
  cell->reads[0] = own;
}

// Return the number of the array that contains an access; -1 if there is none.
PLAIN static int array_of(const char* at, const char* end) {
  if (recent < range_count && at >= ranges[recent].begin && end <= ranges[recent].end) return recent;
  for (int k = 0; k < range_count; k++)
    if (at >= ranges[k].begin && end <= ranges[k].end) {
      if (ranges[k].alone) recent = k;
      return k;
    }
  return -1;
}

PLAIN static void fail_outside(const char* at, int size, void* site) {
  Range nearest = {at, at, -1, false, false};
  for (int k = 0; k < range_count; k++)
    if (k == 0 || labs(at - ranges[k].begin) < labs(at - nearest.begin)) nearest = ranges[k];
  fail(site, "%d bytes at byte %ld of %ld, seen from argument %d", size, (long)(at - nearest.begin), (long)(nearest.end - nearest.begin), nearest.number);
}

// Check an access of `size` bytes.
PLAIN static void check_access(const void* pointer, int size, Kind kind, void* site) {
  const char *at = (const char*)pointer, *end = at + size;
  bool shared = at >= __ehdr_start && at < _end;
  int number = -1;
  if (shared) {
    bool dynamic = at >= dynamic_shared && at < dynamic_shared + sizeof dynamic_shared;
    if (!dynamic && (at < __start_emulated_shared || at >= __stop_emulated_shared)) return;
    if (dynamic && end > dynamic_shared + shared_size) fail(site, "byte %ld of %d in shared memory", (long)(at - dynamic_shared), shared_size);
  } else {
    if (at >= stacks && at < stacks + (size_t)MAX_THREADS * STACK) return;
    number = array_of(at, end);
    if (number < 0) fail_outside(at, size, site);
    bool writes = kind == WRITE || kind == ATOMIC;
    if (writes && !ranges[number].writable) fail(site, "argument %d is constant, and is written", ranges[number].number);
    if (kind == ATOMIC && fences) { published[block_number - launch_start] = fences; counted = true; }
    if (!ranges[number].writable) return;
    number = ranges[number].number;
  }
  bool bytes = size < 4;
  for (; at < end; at += bytes ? 1 : 4) check_order(at, bytes, kind, shared, number, site);
}

extern "C" {
PLAIN void __tsan_init() {}
#define CHECKED_ACCESSES(size) \
  PLAIN void __tsan_read##size(void* at) { check_access(at, size, READ, SITE); } \
  PLAIN void __tsan_write##size(void* at) { check_access(at, size, WRITE, SITE); } \
  PLAIN void __tsan_unaligned_read##size(void* at) { fail(SITE, "a pointer is not aligned"); } \
  PLAIN void __tsan_unaligned_write##size(void* at) { fail(SITE, "a pointer is not aligned"); }
CHECKED_ACCESSES(1) CHECKED_ACCESSES(2) CHECKED_ACCESSES(4) CHECKED_ACCESSES(8) CHECKED_ACCESSES(16)
PLAIN void __tsan_read_range(void* at, long size) { check_access(at, (int)size, READ, SITE); }
PLAIN void __tsan_write_range(void* at, long size) { check_access(at, (int)size, WRITE, SITE); }
#define UNDEFINED(what, text) \
  PLAIN void __ubsan_handle_##what(void*, ...) { fail(SITE, text); }
UNDEFINED(type_mismatch_v1, "a pointer is null or not aligned")
UNDEFINED(pointer_overflow, "a pointer overflows")
UNDEFINED(add_overflow, "an integer overflows in an addition")
UNDEFINED(sub_overflow, "an integer overflows in a subtraction")
UNDEFINED(mul_overflow, "an integer overflows in a product")
UNDEFINED(negate_overflow, "an integer overflows when its sign changes")
UNDEFINED(divrem_overflow, "a division by zero")
UNDEFINED(shift_out_of_bounds, "a shift by too many bits")
UNDEFINED(out_of_bounds, "an index is outside of its array")
UNDEFINED(float_cast_overflow, "a number does not fit into an integer")
UNDEFINED(load_invalid_value, "a flag is neither true nor false")
UNDEFINED(builtin_unreachable, "what cannot be reached is reached")
UNDEFINED(missing_return, "a function returns nothing")
UNDEFINED(nonnull_arg, "a pointer is null")
}

// -- threads -----------------------------------------------------------------------------------

PLAIN static void yield_as(int why, int line) {
  int me = current;
  state[me] = why;
  lines[me] = line;
  if (!_setjmp(resume[me])) _longjmp(back, 1);
}
PLAIN static void wait_for_block(int line) { yield_as(AT_BARRIER, line); }
PLAIN static void wait_for_warp(int line) { yield_as(IN_WARP, line); synced[current]++; }
PLAIN static void __threadfence() { fences++; noticing = counted; }
PLAIN static void __threadfence_block() {}
#define __syncthreads() wait_for_block(__LINE__)
#define __syncwarp() wait_for_warp(__LINE__)

// Exchanges within a warp do not order memory accesses.
template <typename T> PLAIN static T exchanged(T value, int from, int line) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  slots[current] = bits;
  yield_as(IN_WARP, line);
  if (from >= (int)(blockDim.x * blockDim.y) || state[from] == DONE) fail(0, "line %d: thread %d is not there", line, from);
  T found;
  memcpy(&found, &slots[from], sizeof found);
  yield_as(IN_WARP, line);
  return found;
}
PLAIN static unsigned ballot(int flag, int line) {
  slots[current] = flag != 0;
  yield_as(IN_WARP, line);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; lane++) {
    int other = (current & ~31) + lane;
    if (other < (int)(blockDim.x * blockDim.y) && state[other] != DONE && slots[other]) votes |= 1u << lane;
  }
  yield_as(IN_WARP, line);
  return votes;
}
PLAIN static int thread_across(int step) { return current ^ step; }
PLAIN static int thread_before(int step) { return (current & 31) >= step ? current - step : current; }
#define __shfl_xor_sync(mask, value, step) exchanged(value, thread_across(step), __LINE__)
#define __shfl_up_sync(mask, value, step) exchanged(value, thread_before(step), __LINE__)
#define __ballot_sync(mask, flag) ballot(flag, __LINE__)
PLAIN static int __popc(unsigned word) { return __builtin_popcount(word); }
PLAIN static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
PLAIN static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
PLAIN static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
PLAIN static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
#define CHECKED(name, ...) template <typename T> PLAIN __attribute__((noinline)) static T name(__VA_ARGS__)
CHECKED(__ldcg, const T* at) { check_access(at, sizeof(T), READ, SITE); return *at; }
CHECKED(__ldg, const T* at) { check_access(at, sizeof(T), CONSTANT, SITE); return *at; }
CHECKED(atomicAdd, T* at, T more) { check_access(at, sizeof(T), ATOMIC, SITE); T old = *at; *at += more; return old; }
CHECKED(atomicMax, T* at, T other) { check_access(at, sizeof(T), ATOMIC, SITE); T old = *at; if (other > old) *at = other; return old; }
CHECKED(atomicMin, T* at, T other) { check_access(at, sizeof(T), ATOMIC, SITE); T old = *at; if (other < old) *at = other; return old; }

PLAIN static unsigned drawn(unsigned below) {
  seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
  return (unsigned)(seed % below);
}

// A thread that is done waits for the next block, since creating a coroutine takes system calls.
PLAIN static void run_thread() {
  for (;;) {
    body(given);
    yield_as(DONE, 0);
  }
}

PLAIN static void make_threads() {
  stacks = (char*)malloc((size_t)MAX_THREADS * STACK);
  for (int t = 0; t < MAX_THREADS; t++) {
    getcontext(&contexts[t]);
    contexts[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
    contexts[t].uc_stack.ss_size = STACK;
    contexts[t].uc_link = &scheduler;
    makecontext(&contexts[t], run_thread, 0);
  }
}

// Resume threads that wait for each other, if all of them have reached the same line.
PLAIN static int release(int begin, int end, int why, bool all) {
  int live = 0, waiting = 0, first = -1;
  for (int t = begin; t < end; t++) {
    live += state[t] != DONE;
    if (state[t] == why) { waiting++; first = first < 0 ? t : first; }
  }
  if (!live || live != waiting) return 0;
  for (int t = begin; t < end; t++) {
    current = t;
    if (state[t] == DONE && all) fail(0, "line %d: a barrier that this thread does not reach", lines[first]);
    if (state[t] == why && lines[t] != lines[first]) fail(0, "threads wait at lines %d and %d", lines[t], lines[first]);
    if (state[t] == why) state[t] = READY;
  }
  return waiting;
}

PLAIN static int run_block(int* order) {
  volatile int count = blockDim.x * blockDim.y;
  barriers = 1;
  fences = 0;
  counted = noticing = false;
  for (int t = 0; t < count; t++) {
    state[t] = READY;
    synced[t] = 0;
    int other = drawn(t + 1);
    order[t] = order[other];
    order[other] = t;
  }
  for (;;) {
    volatile int ran = 0;
    int left = 0;
    for (volatile int k = 0; k < count; k++) {
      int t = order[k];
      if (state[t] == READY) {
        current = t;
        threadIdx = {t % blockDim.x, t / blockDim.x, 0};
        if (!_setjmp(back)) {
          if (started[t]) _longjmp(resume[t], 1);
          started[t] = true;
          setcontext(&contexts[t]);
        }
        ran++;
      }
    }
    for (int warp = 0; warp < count; warp += 32) ran += release(warp, warp + 32 < count ? warp + 32 : count, IN_WARP, false);
    if (release(0, count, AT_BARRIER, true)) { ran++; barriers++; }
    for (int t = 0; t < count; t++) left += state[t] != DONE;
    if (!left) return 0;
    if (!ran) fail(0, "threads wait for others that do not come");
  }
}

// `arrays` has address, size in bytes and writability of each argument.
PLAIN static void set_ranges(int count, const long long* arrays) {
  range_count = recent = 0;
  for (int writable = 1; writable >= 0; writable--)  // an array passed twice is found as writable
    for (int k = 0; k < count; k++)
      if (arrays[3 * k] && arrays[3 * k + 2] == writable) {
        Range own = {(char*)arrays[3 * k], (char*)arrays[3 * k] + arrays[3 * k + 1], k, writable != 0, true};
        for (int j = 0; j < range_count; j++)
          if (own.begin < ranges[j].end && ranges[j].begin < own.end) own.alone = false;
        ranges[range_count++] = own;
      }
}

// Launch a kernel; `sizes` are those of the grid, of a thread block, and of the shared memory in bytes.
PLAIN static int run_grid(void (*kernel)(void**), int count, void** arguments, const int* sizes, const long long* arrays, int drawn_seed) {
  if (!stacks) make_threads();
  int order[MAX_THREADS];
  seed = 0x9E3779B97F4A7C15ull + drawn_seed;
  body = kernel;
  given = arguments;
  set_ranges(count, arrays);
  gridDim = {(unsigned)sizes[0], (unsigned)sizes[1], (unsigned)sizes[2]};
  blockDim = {(unsigned)sizes[3], (unsigned)sizes[4], 1};
  shared_size = sizes[5];
  launch_start = block_number + 1;
  if (page_count > MAX_PAGES) forget_pages();
  long long blocks = (long long)gridDim.x * gridDim.y * gridDim.z;
  published = (unsigned*)calloc(blocks, sizeof(unsigned));
  if (_setjmp(failed)) {
    memset(started, 0, sizeof started);
    free(published);
    return 1;
  }
  long long first = drawn(blocks < 1000000 ? (unsigned)blocks : 1000000);
  for (long long number = 0; number < blocks; number++) {
    long long at = (number + first) % blocks;
    blockIdx = {(unsigned)(at % gridDim.x), (unsigned)(at / gridDim.x % gridDim.y), (unsigned)(at / gridDim.x / gridDim.y)};
    block_number++;
    run_block(order);
  }
  free(published);
  return 0;
}

extern "C" PLAIN const char* what_is_wrong() { return report; }
