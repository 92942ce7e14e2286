// Kernels of `precede.engine.cuda`. Results have the same bits as on the CPU: the kernels are compiled
// with -fmad=false, floating-point operations are done in the same order as on the CPU, and sums
// across queries are sums of integers.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

#define QUIET_NAN __longlong_as_double(0x7FF8000000000000LL)
#define INFINITE __longlong_as_double(0x7FF0000000000000LL)

// -- exponentials and logarithms, see engine/portable.py --------------------------------------

__device__ __forceinline__ double portable_exp(double x) {
  double near = x < 710.0 ? x : 710.0;
  near = near > -746.0 ? near : -746.0;
  double shifted = near * 1.4426950408889634 + 6755399441055744.0;
  double k = shifted - 6755399441055744.0;
  i64 number = __double_as_longlong(shifted) - 0x4338000000000000LL;
  double high = near - k * 0.6931471803691238, low = k * 1.9082149292705877e-10;
  double r = high - low;
  double lost = (high - r) - low;
  double p = 1.6059043836821613e-10;
  p = p * r + 2.08767569878681e-09;
  p = p * r + 2.505210838544172e-08;
  p = p * r + 2.755731922398589e-07;
  p = p * r + 2.7557319223985893e-06;
  p = p * r + 2.48015873015873e-05;
  p = p * r + 0.0001984126984126984;
  p = p * r + 0.001388888888888889;
  p = p * r + 0.008333333333333333;
  p = p * r + 0.041666666666666664;
  p = p * r + 0.16666666666666666;
  p = p * r + 0.5;
  double value = 1.0 + (r + (lost + r * r * p));
  i64 half = number >> 1;
  double one = __longlong_as_double((half + 1023) << 52);
  double other = __longlong_as_double((number - half + 1023) << 52);
  return x == x ? value * one * other : x;
}

__device__ __forceinline__ double log_of_parts(double f, i64 e, double more) {
  double s = f / (2.0 + f);
  double z = s * s;
  double p = 0.09523809523809523;
  p = p * z + 0.10526315789473684;
  p = p * z + 0.11764705882352941;
  p = p * z + 0.13333333333333333;
  p = p * z + 0.15384615384615385;
  p = p * z + 0.18181818181818182;
  p = p * z + 0.2222222222222222;
  p = p * z + 0.2857142857142857;
  p = p * z + 0.4;
  p = p * z + 0.6666666666666666;
  double square = 0.5 * f * f;
  double small = s * (square + z * p) + ((double)e * 1.9082149292705877e-10 + more);
  return (double)e * 0.6931471803691238 - ((square - small) - f);
}

__device__ __forceinline__ double log_of_bits(i64 bits, i64 shift, double lost) {
  i64 e = (bits >> 52) - 1023 - shift;
  double m = __longlong_as_double((bits & 0xFFFFFFFFFFFFFLL) | 0x3FF0000000000000LL);
  if (m > 1.4142135623730951) { m = 0.5 * m; e += 1; }
  return log_of_parts(m - 1.0, e, lost);
}

__device__ __forceinline__ double portable_log(double x) {
  if (!(0.0 < x && x < INFINITE))
    return x > 0.0 || x != x ? x : (x == 0.0 ? -INFINITE : QUIET_NAN);
  i64 shift = 0;
  if (x < 2.2250738585072014e-308) { x = x * 18014398509481984.0; shift = 54; }
  return log_of_bits(__double_as_longlong(x), shift, 0.0);
}

__device__ __forceinline__ double portable_log1p(double x) {
  if (!(-1.0 < x && x < INFINITE))
    return x > 0.0 || x != x ? x : (x == -1.0 ? -INFINITE : QUIET_NAN);
  if (-1.1102230246251565e-16 < x && x < 1.1102230246251565e-16) return x;
  if (-0.2928932188134524 < x && x < 0.41421356237309503) return log_of_parts(x, 0, 0.0);
  double whole = 1.0 + x;
  double lost = x > 1.0 ? 1.0 - (whole - x) : x - (whole - 1.0);
  return log_of_bits(__double_as_longlong(whole), 0, lost / whole);
}

extern "C" __global__ void functions(i64 n, int which, const double* x, double* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x)
    out[i] = which == 0 ? portable_exp(x[i]) : which == 1 ? portable_log(x[i]) : portable_log1p(x[i]);
}

// -- sums, see engine/exact.py ---------------------------------------------------------------

__device__ __forceinline__ i64 warp_sum(i64 value) {
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// Sum over a thread block, valid in thread 0. `room` is shared memory for 32 numbers.
__device__ __forceinline__ i64 block_sum(i64 value, i64* room) {
  value = warp_sum(value);
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < (blockDim.x + 31) / 32 ? room[threadIdx.x] : 0;
    value = warp_sum(value);
  }
  __syncthreads();
  return value;
}

// `found` has three words for each of two arrays (blockIdx.y). This kernel sets the first: the bits of
// the largest absolute value, which as integers have the order of the floats.
extern "C" __global__ void largest(i64 n, const double* one, const double* other, u64* found) {
  __shared__ u64 most;
  const double* values = blockIdx.y ? other : one;
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  u64 own = 0;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x) {
    u64 bits = (u64)__double_as_longlong(fabs(values[i]));
    own = bits > own ? bits : own;
  }
  for (int step = 16; step > 0; step >>= 1) {
    u64 received = __shfl_xor_sync(~0u, own, step);
    own = received > own ? received : own;
  }
  if ((threadIdx.x & 31) == 0) atomicMax(&most, own);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(found + 3 * blockIdx.y, most);
}

// Set the second and the third: high and low words of the sum, relative to the power of two above the
// largest value. If `absolute`, the absolute values of the first array are summed.
extern "C" __global__ void words_of(i64 n, int absolute, const double* one, const double* other, u64* found) {
  __shared__ i64 room[32];
  const double* values = blockIdx.y ? other : one;
  bool sizes = absolute && blockIdx.y == 0;
  u64* words = found + 3 * blockIdx.y;
  double top = __longlong_as_double((i64)words[0]);
  if (!(top > 0.0 && top < INFINITE)) return;
  int exponent;
  frexp(top, &exponent);
  int half = exponent >> 1;
  double first = ldexp(1.0, -half), second = ldexp(1.0, half - exponent);
  i64 high = 0, low = 0;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x) {
    double value = sizes ? fabs(values[i]) : values[i];
    double scaled = value * first * second * 2147483648.0;
    double whole = floor(scaled);
    high += (i64)whole;
    low += (i64)((scaled - whole) * 2147483648.0);
  }
  high = block_sum(high, room);
  low = block_sum(low, room);
  if (threadIdx.x == 0) { atomicAdd(&words[1], (u64)high); atomicAdd(&words[2], (u64)low); }
}

extern "C" __global__ void advance(i64 n, double* scores, const double* values, double weight) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x)
    scores[i] = scores[i] + weight * values[i];
}

extern "C" __global__ void divide_by(i64 n, double mass, double* one, double* other) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x) {
    one[i] = one[i] / mass;
    other[i] = other[i] / mass;
  }
}

// -- pulls, see risks/by_pair.py -------------------------------------------------------
//
// A thread block has one range of levels (`Run`). The thread of a loser loops over the winners above it
// and the thread of a winner over the losers below it, in the order of the CPU. Sums over rows are
// taken in order, by one thread.

struct Run {
  i64 bottom, top, first;
  int size;
  const i64* level_start;
  const double *weight, *share;
};

__device__ __forceinline__ void score_range(const double* scores, int size, double* room, double& least, double& most) {
  least = INFINITE;
  most = -INFINITE;
  for (int k = threadIdx.x; k < size; k += blockDim.x) {
    double s = scores[k];
    least = s < least ? s : least;
    most = s > most ? s : most;
  }
  for (int step = 16; step > 0; step >>= 1) {
    double a = __shfl_xor_sync(~0u, least, step), b = __shfl_xor_sync(~0u, most, step);
    least = a < least ? a : least;
    most = b > most ? b : most;
  }
  if ((threadIdx.x & 31) == 0) { room[threadIdx.x >> 5] = least; room[32 + (threadIdx.x >> 5)] = most; }
  __syncthreads();
  for (int warp = 0; warp < (blockDim.x + 31) / 32; warp++) {
    least = room[warp] < least ? room[warp] : least;
    most = room[32 + warp] > most ? room[32 + warp] : most;
  }
  __syncthreads();
}

struct TwoWinners { double wrong, other_wrong, curvature, other_curvature, both; };

__device__ __forceinline__ TwoWinners two_winners(double at, double one, double other) {
  double wrong = at * one, other_wrong = at * other;
  double odds = 1.0 + wrong, other_odds = 1.0 + other_wrong;
  double both = odds * other_odds;
  double inverse = 1.0 / both;
  double right = inverse * other_odds, other_right = inverse * odds;
  wrong = wrong * right;
  other_wrong = other_wrong * other_right;
  return {wrong, other_wrong, wrong * right, other_wrong * other_right, both};
}

// Sum of share * log(product) over all rows in order. Resets the products to 1.
__device__ double sum_of_logs(const Run& run, double* product) {
  __shared__ double result;
  __syncthreads();
  for (int k = threadIdx.x; k < run.size; k += blockDim.x)
    product[k] = product[k] != 1.0 ? run.share[k] * portable_log(product[k]) : 0.0;
  __syncthreads();
  if (threadIdx.x == 0) {
    double total = 0.0;
    for (int k = 0; k < run.size; k++) total += product[k];
    result = total;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < run.size; k += blockDim.x) product[k] = 1.0;
  return result;
}

// Add the slopes and curvatures of losers over their winners, two winners at a time, to `down` and
// `curve`. Lists the pairs of winners in `twos` (2 * row + whether there is a second winner) and returns
// the value. Logarithms are taken of products of as many terms as cannot overflow.
__device__ double sum_losers(const Run& run, double wide, const double* at, double* down, double* curve, double* product, int* twos, int& count) {
  int most = (int)(690.0 / (wide + 0.7)) - 1;
  int waiting = 0;
  double value = 0.0;
  count = 0;
  for (i64 level = run.bottom + 1; level < run.top; level++) {
    int losers = (int)(run.level_start[level] - run.first);
    i64 row = run.level_start[level], last = run.level_start[level + 1];
    while (row < last) {
      double own = run.weight[row];
      if (waiting >= most || (waiting > 0 && own != run.weight[row - 1])) {
        value += run.weight[row - 1] * sum_of_logs(run, product);
        waiting = 0;
      }
      int two = row + 1 < last && run.weight[row + 1] == own;
      double one = 1.0 / at[row - run.first];
      double other = 1.0 / (two ? at[row + 1 - run.first] : INFINITE);
      for (int k = threadIdx.x; k < losers; k += blockDim.x) {
        TwoWinners t = two_winners(at[k], one, other);
        product[k] *= t.both;
        down[k] += own * (t.wrong + t.other_wrong);
        curve[k] += own * (t.curvature + t.other_curvature);
      }
      if (threadIdx.x == 0) twos[count] = 2 * (int)(row - run.first) + two;
      count++;
      row += 1 + two;
      waiting += 1 + two;
    }
  }
  return value + run.weight[run.first + run.size - 1] * sum_of_logs(run, product);
}

// Add pull and curvature of the winners of a range.
__device__ void add_winner_gradients(const Run& run, const double* at, const int* twos, int count, double* pull, double* hessian) {
  i64 level = run.bottom + 1;
  for (int each = threadIdx.x; each < count; each += blockDim.x) {
    int k0 = twos[each] >> 1, two = twos[each] & 1;
    i64 row = run.first + k0;
    while (run.level_start[level + 1] <= row) level++;
    int losers = (int)(run.level_start[level] - run.first);
    double one = 1.0 / at[k0], other = 1.0 / (two ? at[k0 + 1] : INFINITE);
    double up = 0.0, curved = 0.0, other_up = 0.0, other_curved = 0.0;
    for (int k = 0; k < losers; k++) {
      TwoWinners t = two_winners(at[k], one, other);
      double share = run.share[k];
      up += share * t.wrong;
      curved += share * t.curvature;
      other_up += share * t.other_wrong;
      other_curved += share * t.other_curvature;
    }
    double own = run.weight[row];
    pull[row] += own * up;
    hessian[row] += own * curved;
    if (two) { pull[row + 1] += own * other_up; hessian[row + 1] += own * other_curved; }
  }
}

// Add pull and curvature of the losers; returns the sum of their slopes, in the order of the rows, in
// thread 0.
__device__ double add_loser_gradients(const Run& run, double* down, const double* curve, double* pull, double* hessian) {
  __syncthreads();
  for (int k = threadIdx.x; k < run.size; k += blockDim.x) {
    double mass = run.share[k] * down[k];
    down[k] = mass;
    pull[run.first + k] -= mass;
    hessian[run.first + k] += run.share[k] * curve[k];
  }
  __syncthreads();
  double total = 0.0;
  if (threadIdx.x == 0)
    for (int k = 0; k < run.size; k++) total += down[k];
  return total;
}

// Value of a range whose margins are all large, so that 1 + exp(-margin) would round the losses;
// `room` has a number for each row.
__device__ double small_losses(const Run& run, const double* at, double* room) {
  for (int k0 = threadIdx.x; k0 < run.size; k0 += blockDim.x) {
    i64 level = run.bottom;
    while (run.level_start[level + 1] <= run.first + k0) level++;
    double loss = 0.0;
    if (level > run.bottom)
      for (int k = 0; k < (int)(run.level_start[level] - run.first); k++)
        loss += run.share[k] * portable_log1p(at[k] / at[k0]);
    room[k0] = loss;
  }
  __syncthreads();
  double value = 0.0;
  if (threadIdx.x == 0)
    for (int k = (int)(run.level_start[run.bottom + 1] - run.first); k < run.size; k++)
      value += run.weight[run.first + k] * room[k];
  return value;
}

__device__ __forceinline__ Run run_of(const i64* runs, const i64* level_start, const double* weight, const double* loser_weight) {
  Run run;
  run.bottom = runs[2 * blockIdx.x];
  run.top = runs[2 * blockIdx.x + 1];
  run.first = level_start[run.bottom];
  run.size = (int)(level_start[run.top] - run.first);
  run.level_start = level_start;
  run.weight = weight;
  run.share = loser_weight + run.first;
  return run;
}

// Total weight of the pairs of each range of levels, one thread each.
extern "C" __global__ void pair_weights(int count, const i64* runs, const i64* level_start, const double* weight, const double* loser_weight, double* totals) {
  int run = blockIdx.x * blockDim.x + threadIdx.x;
  if (run >= count) return;
  i64 bottom = runs[2 * run], top = runs[2 * run + 1], done = level_start[bottom];
  double total = 0.0, losers = 0.0;
  for (i64 level = bottom + 1; level < top; level++) {
    for (; done < level_start[level]; done++) losers += loser_weight[done];
    for (i64 row = level_start[level]; row < level_start[level + 1]; row++)
      total += weight[row] * losers;
  }
  totals[run] = total;
}

// Pulls and curvatures of the logistic loss for ranges with scores close together; value and gradient
// sum of each range go into `sums`, NaN if its scores are too far apart. See `_narrow_logistic_ranges`.
// Ranges of up to `held` rows are kept in shared memory, longer ones in `scratch` and `twos_scratch`.
extern "C" __global__ void narrow_runs(const i64* runs, const i64* level_start, const double* scores, const double* weight, const double* loser_weight, const double* totals, double* pull, double* hessian, double* sums, int held, double* scratch, int* twos_scratch, i64 rows) {
  extern __shared__ double shared[];
  __shared__ double room[64];
  __shared__ int few;
  Run run = run_of(runs, level_start, weight, loser_weight);
  double *at, *down, *curve, *product;
  int* twos;
  if (run.size <= held) {
    at = shared; down = at + held; curve = down + held; product = curve + held;
    twos = (int*)(product + held);
  } else {
    at = scratch + run.first; down = at + rows; curve = down + rows; product = curve + rows;
    twos = twos_scratch + run.first;
  }
  double least, most;
  score_range(scores + run.first, run.size, room, least, most);
  double wide = most - least, middle = 0.5 * (most + least);
  if (!(wide < 80.0)) {
    if (threadIdx.x == 0) { sums[blockIdx.x] = QUIET_NAN; sums[gridDim.x + blockIdx.x] = QUIET_NAN; }
    return;
  }
  for (int k = threadIdx.x; k < run.size; k += blockDim.x) {
    at[k] = portable_exp(scores[run.first + k] - middle);
    down[k] = 0.0;
    curve[k] = 0.0;
    product[k] = 1.0;
  }
  __syncthreads();
  int count;
  double value = sum_losers(run, wide, at, down, curve, product, twos, count);
  __syncthreads();
  add_winner_gradients(run, at, twos, count, pull, hessian);
  double mass = add_loser_gradients(run, down, curve, pull, hessian);
  if (threadIdx.x == 0) few = value < 1e-6 * totals[blockIdx.x];
  __syncthreads();
  if (few) value = small_losses(run, at, product);
  if (threadIdx.x == 0) { sums[blockIdx.x] = value; sums[gridDim.x + blockIdx.x] = mass; }
}

// Sum of share * value in eight interleaved partial sums.
__device__ double weighted_total(const double* values, const double* share, int count) {
  double s[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  int whole = count - count % 8;
  for (int k = 0; k < whole; k += 8)
#pragma unroll
    for (int j = 0; j < 8; j++) s[j] += share[k + j] * values[k + j];
  for (int k = whole; k < count; k++) s[0] += share[k] * values[k];
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// `degree` is 0 for the logistic loss, 1 for the hinge and 2 for the squared hinge.
struct Pair { double slope, curvature, loss; };

__device__ __forceinline__ Pair plain_pair(int degree, double knot, double own, double own_at, double at) {
  if (degree == 0) {
    double margin = own_at - at;
    double small = portable_exp(-fabs(margin));
    double chance = (margin > 0 ? small : 1.0) / (1.0 + small);
    double curvature = small / ((1.0 + small) * (1.0 + small));
    double late = -margin > 0.0 ? -margin : 0.0;
    return {chance, curvature, own * (portable_log1p(small) + late)};
  }
  if (degree == 1) {
    double lacking = (knot - own_at) + at;
    return {lacking > 0.0 ? 1.0 : 0.0, 0.0, own * (lacking > 0.0 ? lacking : 0.0)};
  }
  double shortfall = 2.0 * ((knot - own_at) + at);
  double slope = shortfall > 0.0 ? shortfall : 0.0;
  return {slope, slope > 0.0 ? 2.0 : 0.0, 0.25 * own * slope * slope};
}

// Add pull and curvature of one winner, in eight interleaved partial sums as `_weighted_sum`.
__device__ void plain_winner(const Run& run, int degree, double knot, const double* at, i64 row, int losers, double* pull, double* hessian) {
  double own = run.weight[row], own_at = at[row - run.first];
  double up[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  double curved[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  int whole = losers - losers % 8;
  for (int k = 0; k < whole; k += 8)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      Pair pair = plain_pair(degree, knot, own, own_at, at[k + j]);
      up[j] += run.share[k + j] * pair.slope;
      curved[j] += run.share[k + j] * pair.curvature;
    }
  for (int k = whole; k < losers; k++) {
    Pair pair = plain_pair(degree, knot, own, own_at, at[k]);
    up[0] += run.share[k] * pair.slope;
    curved[0] += run.share[k] * pair.curvature;
  }
  pull[row] += own * (((up[0] + up[1]) + (up[2] + up[3])) + ((up[4] + up[5]) + (up[6] + up[7])));
  hessian[row] += own * (((curved[0] + curved[1]) + (curved[2] + curved[3])) + ((curved[4] + curved[5]) + (curved[6] + curved[7])));
}

// The ranges that `narrow_runs` left out (sums are NaN), or all ranges of hinges; see `_generic_ranges`.
extern "C" __global__ void plain_runs(const i64* runs, const i64* level_start, int degree, double knot, const double* scores, const double* weight, const double* loser_weight, double* pull, double* hessian, double* sums, double* scratch, i64 rows) {
  double known = sums[gridDim.x + blockIdx.x];
  if (known == known) return;
  Run run = run_of(runs, level_start, weight, loser_weight);
  const double* at = scores + run.first;
  double *down = scratch + run.first, *curve = down + rows, *loss = curve + rows;
  for (int k = threadIdx.x; k < run.size; k += blockDim.x) {
    double own_down = 0.0, own_curve = 0.0, own_loss = 0.0;
    i64 level = run.bottom;
    while (level_start[level + 1] <= run.first + k) level++;
    if (level > run.bottom)
      plain_winner(run, degree, knot, at, run.first + k, (int)(level_start[level] - run.first), pull, hessian);
    for (i64 row = level_start[level + 1]; row < level_start[run.top]; row++) {
      double own = weight[row];
      Pair pair = plain_pair(degree, knot, own, at[row - run.first], at[k]);
      own_loss += pair.loss;
      own_down += own * pair.slope;
      own_curve += own * pair.curvature;
    }
    down[k] = own_down;
    curve[k] = own_curve;
    loss[k] = own_loss;
  }
  __syncthreads();
  double mass = add_loser_gradients(run, down, curve, pull, hessian);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = weighted_total(loss, run.share, run.size);
    sums[gridDim.x + blockIdx.x] = mass;
  }
}

// -- pulls of long lists, see risks/logistic_cells.py and risks/device_cells.py ----------------
//
// A fast multipole method on the score axis: moments of the rows of a cell, sums of nearby and far cells,
// local polynomials, rows. Unlike on the CPU, all cells from the least to the greatest score exist. Sums
// are taken in the order of the CPU, each by one thread.

#define NODES 9
#define TERMS 13
#define FAR_FIELD 29
#define NEAR 12
#define KNOWN 256  // rows of the transfer tables
#define DENSITY 4.0

// A node of levels: the number of its first cell, its numbers of cells and of groups of levels, its
// first group, and the offsets of its cells among those of all groups and of all sides.
struct CellNode {
  double first, factor;
  i64 cells, groups, first_group, cell_start, side_start;
};

// A chunk of rows whose moments are summed in order.
struct CellBlock { i64 low, high, group, start; };

// An integer with the order of the floats; negative floats are below 2^63.
__device__ __forceinline__ u64 ordered_bits(double x) {
  u64 bits = (u64)__double_as_longlong(x);
  return bits >> 63 ? ~bits : bits | 0x8000000000000000ULL;
}

// Ordered bits of the least and the greatest score of each node; a thread block has a chunk of its rows.
extern "C" __global__ void cell_ends(const i64* pieces, const double* scores, u64* least, u64* greatest) {
  __shared__ u64 low, high;
  if (threadIdx.x == 0) { low = ~0ULL; high = 0; }
  __syncthreads();
  u64 own_low = ~0ULL, own_high = 0;
  const i64* piece = pieces + 3 * (i64)blockIdx.x;
  for (i64 row = piece[0] + threadIdx.x; row < piece[1]; row += blockDim.x) {
    u64 bits = ordered_bits(scores[row]);
    own_low = bits < own_low ? bits : own_low;
    own_high = bits > own_high ? bits : own_high;
  }
  atomicMin(&low, own_low);
  atomicMax(&high, own_high);
  __syncthreads();
  if (threadIdx.x == 0) { atomicMin(least + piece[2], low); atomicMax(greatest + piece[2], high); }
}

// Add the moments of a chunk of rows to those of its cells, by one warp. Each lane computes the powers of
// a row; then each of the first NODES lanes adds one moment of all 32 rows.
__device__ __forceinline__ void add_moments(const CellBlock& block, double first, const double* scores, const double* weight, double (*powers)[NODES], int* cell, double* moments) {
  int lane = threadIdx.x;
  i64 row = block.low + lane;
  double score = row < block.high ? scores[row] : 0.0, power = row < block.high ? weight[row] : 0.0;
  for (i64 begin = block.low; begin < block.high; begin += 32) {
    int count = block.high - begin < 32 ? (int)(block.high - begin) : 32;
    double position = score * DENSITY;
    double number = floor(position);
    double x = 2.0 * (position - number) - 1.0;
    cell[lane] = lane < count ? NODES * (int)(number - first) : 0;
    for (int a = 0; a < NODES; a++) {
      powers[lane][a] = power;
      power = power * x;
    }
    row = begin + 32 + lane;  // read while the others are added
    if (row < block.high) { score = scores[row]; power = weight[row]; }
    __syncwarp();
    if (lane < NODES)
      for (int each = 0; each < count; each++) moments[cell[each] + lane] += powers[each][lane];
    __syncwarp();
  }
}

// Moments of each chunk of rows, by one warp; up to `held` cells are summed in shared memory.
extern "C" __global__ void cell_moments(const CellBlock* blocks, const i64* node_of_group, const CellNode* nodes, const double* scores, const double* weight, int held, double* moments) {
  extern __shared__ double held_moments[];
  __shared__ double powers[32][NODES];
  __shared__ int cell[32];
  CellBlock block = blocks[blockIdx.x];
  const CellNode* node = nodes + node_of_group[block.group];
  int size = (int)node->cells * NODES;
  double *out = moments + block.start * NODES, first = node->first;
  bool in_shared = node->cells <= held;
  for (int i = threadIdx.x; i < size; i += 32) {
    if (in_shared) held_moments[i] = 0.0;
    else out[i] = 0.0;
  }
  __syncwarp();
  if (!in_shared) {
    add_moments(block, first, scores, weight, powers, cell, out);
    return;
  }
  add_moments(block, first, scores, weight, powers, cell, held_moments);
  for (int i = threadIdx.x; i < size; i += 32) out[i] = held_moments[i];
}

// Moments of each group of levels (x): the sum over its chunks, in order.
extern "C" __global__ void cell_groups(const CellBlock* blocks, const i64* block_start, const i64* node_of_group, const CellNode* nodes, const double* moments, double* own) {
  const CellNode* node = nodes + node_of_group[blockIdx.x];
  i64 size = node->cells * NODES, at = blockIdx.y * (i64)blockDim.x + threadIdx.x;
  if (at >= size) return;
  i64 first = block_start[blockIdx.x], count = block_start[blockIdx.x + 1] - first;
  const double* from = moments + blocks[first].start * NODES + at;
  double total = 0.0;
#pragma unroll 8
  for (i64 block = 0; block < count; block++) total += from[block * size];
  own[(node->cell_start + (blockIdx.x - node->first_group) * node->cells) * NODES + at] = total;
}

// Moments of all groups above each group, then (`step` numbers later) of all groups below it, for each
// node (x).
extern "C" __global__ void cell_sides(const CellNode* nodes, const double* own, i64 step, double* sides) {
  const CellNode* node = nodes + blockIdx.x;
  i64 size = node->cells * NODES, at = blockIdx.y * (i64)blockDim.x + threadIdx.x;
  if (at >= size) return;
  own += node->cell_start * NODES + at;
  sides += node->side_start * NODES + at;
  double total = 0.0;
  for (i64 group = 0; group < node->groups - 1; group++) {
    total = group ? own[group * size] + total : own[0];
    sides[step + group * size] = total;
  }
  for (i64 group = node->groups - 2; group >= 0; group--) {
    total = group < node->groups - 2 ? own[(group + 1) * size] + total : own[(group + 1) * size];
    sides[group * size] = total;
  }
}

// Far-field sums of the cells of a side (x; y = 0: above, 1: below) over cells more than NEAR away; see
// `_far_field_sums`. `factors` are the exponentials of a distance of one cell, and of NEAR + 1.
extern "C" __global__ void cell_far(const i64* of_side, const CellNode* nodes, const double* sides, i64 step, const double* powers, const double* factors, double* far_field) {
  const CellNode* node = nodes + of_side[2 * blockIdx.x];
  i64 cells = node->cells;
  i64 start = node->side_start + of_side[2 * blockIdx.x + 1] * cells + blockIdx.y * step;
  const double* moments = sides + start * NODES;
  double* far = far_field + start * FAR_FIELD;
  for (i64 i = threadIdx.x; i < cells * 2 * TERMS; i += blockDim.x) {
    i64 cell = i / (2 * TERMS);
    int j = (int)(i % (2 * TERMS)), term = j % TERMS;
    i64 source = j < TERMS ? cell + NEAR + 1 : cell - NEAR - 1;
    double enters = -0.0;  // adds nothing
    if (source >= 0 && source < cells && moments[source * NODES] != 0.0) {
      double total = 0.0;
      for (int a = 0; a < NODES; a++) {
        double power = powers[term * NODES + a];
        total += (j >= TERMS && a % 2 ? -power : power) * moments[source * NODES + a];
      }
      enters = total * factors[TERMS + term];
    }
    far[cell * FAR_FIELD + j] = enters;
  }
  __syncthreads();
  int j = threadIdx.x;
  if (j >= 2 * TERMS + 2) return;
  bool right = j < TERMS || j == 2 * TERMS;
  if (j < 2 * TERMS) {
    double decay = factors[j % TERMS], sum = 0.0;
    for (i64 begin = 0; begin < cells; begin += 8) {
      int count = cells - begin < 8 ? (int)(cells - begin) : 8;
      double enters[8];
#pragma unroll
      for (int k = 0; k < 8; k++)
        enters[k] = k < count ? far[(right ? cells - 1 - begin - k : begin + k) * FAR_FIELD + j] : 0.0;
#pragma unroll
      for (int k = 0; k < 8; k++) {
        sum = sum * decay + enters[k];
        if (k < count) far[(right ? cells - 1 - begin - k : begin + k) * FAR_FIELD + j] = sum;
      }
    }
    return;
  }
  double weight = 0.0, distance = 0.0, gap = NEAR + 1.0;
  for (i64 k = 0; k < cells; k++) {
    i64 cell = right ? cells - 1 - k : k, source = right ? cell + NEAR + 1 : cell - NEAR - 1;
    if (k > 0) distance = distance + weight * (1.0 / DENSITY);
    if (source >= 0 && source < cells) {
      const double* row = moments + source * NODES;
      weight += row[0];
      distance += (row[0] * gap - 0.5 * row[1]) / DENSITY;
    }
    if (right) far[cell * FAR_FIELD + FAR_FIELD - 1] = weight;
    else {
      far[cell * FAR_FIELD + FAR_FIELD - 3] = weight;
      far[cell * FAR_FIELD + FAR_FIELD - 2] = distance;
    }
  }
}

// Gather the near-field moments and far-field sums of a cell, in the order of the rows of the transfer
// tables; see `_gather_sources`. By one warp.
__device__ __forceinline__ void gather_sources(const double* moments, const double* far, i64 cells, i64 cell, double* known) {
  int lane = threadIdx.x & 31;
  __syncwarp();
  for (int i = lane; i < KNOWN; i += 32) {
    double value = 0.0;
    if (i < (2 * NEAR + 1) * NODES) {
      i64 at = (cell - NEAR) * NODES + i;
      if (at >= 0 && at < cells * NODES) value = moments[at];
    } else if (i < (2 * NEAR + 1) * NODES + FAR_FIELD)
      value = far[cell * FAR_FIELD + i - (2 * NEAR + 1) * NODES];
    known[i] = value;
  }
  __syncwarp();
}

// Return found + known · (column j of a table), eight rows at a time; see `_add_product`.
__device__ __forceinline__ double add_rows(const double* known, const double* table, int columns, int j, double found) {
  for (int row = 0; row < KNOWN; row += 8) {
    const double* k = known + row;
    if (k[0] == 0.0 && k[1] == 0.0 && k[2] == 0.0 && k[3] == 0.0 && k[4] == 0.0 && k[5] == 0.0 && k[6] == 0.0 && k[7] == 0.0) continue;
    const double* t = table + row * columns + j;
    found += ((k[0] * t[0] + k[1] * t[columns]) + (k[2] * t[2 * columns] + k[3] * t[3 * columns])) + ((k[4] * t[4 * columns] + k[5] * t[5 * columns]) + (k[6] * t[6 * columns] + k[7] * t[7 * columns]));
  }
  return found;
}

// Local polynomials of the cells of each group (x), one warp per cell, and value and gradient sum of the
// cell's losers; see `_moments_to_local`.
extern "C" __global__ void cell_meet(const i64* node_of_group, const CellNode* nodes, const double* above, const double* below, const double* own, const double* sides, const double* far_field, i64 step, double* local, double* sums) {
  __shared__ double all_known[8][KNOWN], all_found[8][3 * NODES];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const CellNode* node = nodes + node_of_group[blockIdx.x];
  i64 cells = node->cells, cell = blockIdx.y * 8LL + warp, group = blockIdx.x - node->first_group;
  if (cell >= cells) return;
  i64 at = node->cell_start + group * cells + cell;
  const double* own_moments = own + at * NODES;
  double *known = all_known[warp], *share = all_found[warp], found = 0.0, total = 0.0;
  if (own_moments[0] != 0.0) {
    if (group < node->groups - 1) {
      i64 side = node->side_start + group * cells;
      gather_sources(sides + side * NODES, far_field + side * FAR_FIELD, cells, cell, known);
      if (lane < 3 * NODES) share[lane] = found = add_rows(known, above, 3 * NODES, lane, found);
      __syncwarp();
      if (lane == 0)
        for (int a = 0; a < NODES; a++) total += own_moments[a] * share[a];
      if (lane == 1)
        for (int a = 0; a < NODES; a++) total -= own_moments[a] * share[NODES + 2 * a];
    }
    if (group > 0) {
      i64 side = step + node->side_start + (group - 1) * cells;
      gather_sources(sides + side * NODES, far_field + side * FAR_FIELD, cells, cell, known);
      if (lane >= NODES && lane < 3 * NODES) found = add_rows(known, below, 2 * NODES, lane - NODES, found);
    }
  }
  if (lane >= NODES && lane < 3 * NODES) local[at * 2 * NODES + lane - NODES] = found;
  if (lane < 2) sums[2 * at + lane] = total;
}

// Value and, `step` numbers later, gradient sum of each node (x), summed over its cells in order.
extern "C" __global__ void cell_sums(const CellNode* nodes, const double* sums, i64 step, double* totals) {
  __shared__ double room[512];
  const CellNode* node = nodes + blockIdx.x;
  const double* from = sums + 2 * node->cell_start;
  i64 size = 2 * node->groups * node->cells;
  if (!size) return;
  double total = 0.0;
  for (i64 begin = 0; begin < size; begin += 512) {
    int count = size - begin < 512 ? (int)(size - begin) : 512;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) room[i] = from[begin + i];
    __syncthreads();
    if (threadIdx.x < 2)
      for (int i = threadIdx.x; i < count; i += 2) total += room[i];
  }
  if (threadIdx.x < 2) totals[threadIdx.x * step + blockIdx.x] = node->factor * total;
}

// Add the polynomials of its cell to pull and curvature of each row; several thread blocks (y) share a
// chunk of rows (x). See `_local_to_rows`.
extern "C" __global__ void cell_read(const CellBlock* blocks, const i64* node_of_group, const CellNode* nodes, const double* scores, const double* weight, const double* local, double* pull, double* hessian) {
  CellBlock block = blocks[blockIdx.x];
  const CellNode* node = nodes + node_of_group[block.group];
  double first = node->first, factor = node->factor;
  local += (node->cell_start + (block.group - node->first_group) * node->cells) * 2 * NODES;
  for (i64 item = block.low + blockIdx.y * (i64)blockDim.x + threadIdx.x; item < block.high; item += gridDim.y * (i64)blockDim.x) {
    double position = scores[item] * DENSITY;
    double number = floor(position);
    double x = 2.0 * (position - number) - 1.0;
    double square = x * x;
    const double* row = local + (i64)(number - first) * 2 * NODES;
    double up = row[2 * NODES - 2], second = row[2 * NODES - 1];
    double odd_up = row[2 * NODES - 4], odd_second = row[2 * NODES - 3];
#pragma unroll
    for (int a = NODES - 3; a > 0; a -= 2) {
      up = up * square + row[2 * a];
      second = second * square + row[2 * a + 1];
      odd_up = odd_up * square + row[2 * a - 2];
      odd_second = odd_second * square + row[2 * a - 1];
    }
    up = up * square + row[0];
    second = second * square + row[1];
    double own = weight[item] * factor;
    pull[item] += own * (up + x * odd_up);
    hessian[item] += own * (second + x * odd_second);
  }
}

// -- pairs weighted by rank, see risks/lambdarank.py and risks/by_pair.py --------------------

// Mean discount of the ranks one..other, which tied rows share, and the mean difference of two of them.
__device__ void shared_ranks(const double* by_rank, int size, int one, int other, double& mean, double& tied) {
  int count = other - one;
  double total = 0.0, apart = 0.0;
  for (int rank = one; rank < (other < size ? other : size); rank++) {
    total += by_rank[rank];
    apart += (double)(count - 1 - 2 * (rank - one)) * by_rank[rank];
  }
  double last = other <= size ? by_rank[other - 1] : 0.0;
  mean = last;
  tied = 0.0;
  if (by_rank[one] == last) return;
  mean = total / count;
  tied = 2.0 * apart / (count * (count - 1.0));
}

// Discounts of the rows at the first `size` ranks of each query (x), which tied rows share.
extern "C" __global__ void rank_rows(const i64* first, const double* scores, const double* by_rank, int size, double* discount, double* tied) {
  i64 start = first[blockIdx.x];
  int rows = (int)(first[blockIdx.x + 1] - start);
  for (int k = threadIdx.x; k < rows; k += blockDim.x) {
    double own = scores[start + k], mean = 0.0, apart = 0.0;
    int above = 0, with_equal = 0;
    for (int j = 0; j < rows; j++) {
      double other = scores[start + j];
      above += other > own;
      with_equal += other >= own;
    }
    if (above < size) shared_ranks(by_rank, size, above, with_equal, mean, apart);
    discount[start + k] = mean;
    tied[start + k] = apart;
  }
}

// Logarithm of a number of at least 1; see `_logarithm` in risks/by_pair.py.
__device__ __forceinline__ double logarithm(double x) {
  i64 bits = __double_as_longlong(x);
  i64 exponent = (bits - 4604544271217802189LL) >> 52;
  double f = __longlong_as_double(bits - (i64)((u64)exponent << 52)) - 1.0;
  double n = __longlong_as_double(exponent + 4843621399236968448LL) - 6755399441055744.0;
  double s = f / (2.0 + f);
  double z = s * s;
  double square = z * z, fourth = (z * z) * (z * z);
  double one = (1.0 / 3 + z * (1.0 / 5)) + square * (1.0 / 7 + z * (1.0 / 9));
  double two = (1.0 / 11 + z * (1.0 / 13)) + square * (1.0 / 15 + z * (1.0 / 17));
  double series = one + fourth * (two + fourth * (1.0 / 19 + z * (1.0 / 21)));
  return n * 0.6931471805599453 + 2.0 * (s + s * (z * series));
}

// The rows of a query; `kind` is how the loss is computed. If `sparse`, only pairs with a discounted row
// are enumerated.
struct Ranked {
  const double *at, *inverse, *ranked, *gain, *discount, *tied, *win, *lose;
  double plain, factor, flat, knot;
  int kind, sparse, size;
};

enum { SMALL, NARROW, WIDE, HINGE, SQUARED, EXPONENTIAL };

// Exponential loss of a pair; larger ones have no weight.
__device__ __forceinline__ double ranked_exponential(const Ranked& q, int i, int k, double sign) {
  double exponent = sign > 0.0 ? q.at[k] + q.inverse[i] : q.inverse[k] + q.at[i];
  return portable_exp(exponent < 700.0 ? exponent : 700.0);
}

// Weight of the pair of rows i and k, where k loses (sign 1) or wins (-1); see `_pair_weights`.
__device__ __forceinline__ double ranked_weight(const Ranked& q, int i, int k, double sign) {
  if (sign < 0.0 && q.discount[k] > 0.0) return 0.0;
  double own = sign > 0.0 ? q.win[i] : q.lose[i], share = sign > 0.0 ? q.lose[k] : q.win[k];
  double apart = fabs(q.discount[i] - q.discount[k]) + q.flat;
  apart = apart + (q.ranked[k] == q.ranked[i] ? q.tied[i] : 0.0);
  return share * (own * q.plain + sign * own * q.factor * (q.gain[i] - q.gain[k]) * apart);
}

__device__ __forceinline__ void ranked_slope(const Ranked& q, int i, int k, double sign, double& slope, double& curvature) {
  double weight = ranked_weight(q, i, k, sign);
  if (q.kind == EXPONENTIAL) {
    slope = q.knot * (weight * ranked_exponential(q, i, k, sign));
    curvature = q.knot * slope;
  } else if (q.kind <= NARROW) {
    double wrong = sign > 0.0 ? q.at[k] * q.inverse[i] : q.inverse[k] * q.at[i];
    double right = 1.0 / (1.0 + wrong);
    slope = weight * (wrong * right);
    curvature = slope * right;
  } else if (q.kind == WIDE) {
    double margin = sign * (q.at[i] - q.at[k]);
    double small = portable_exp(-fabs(margin));
    slope = weight * ((margin > 0 ? small : 1.0) / (1.0 + small));
    curvature = weight * (small / ((1.0 + small) * (1.0 + small)));
  } else {
    double lacking = q.knot - sign * (q.at[i] - q.at[k]);
    double steep = lacking > 0.0 ? (q.kind == HINGE ? 1.0 : 2.0 * lacking) : 0.0;
    curvature = q.kind == SQUARED && steep > 0.0 ? 2.0 * weight : 0.0;
    slope = steep * weight;
  }
}

__device__ __forceinline__ double ranked_loss(const Ranked& q, int i, int k, double sign, double weight) {
  if (q.kind == EXPONENTIAL) return weight * ranked_exponential(q, i, k, sign);
  if (q.kind <= NARROW) {
    double wrong = sign > 0.0 ? q.at[k] * q.inverse[i] : q.inverse[k] * q.at[i];
    return weight * (q.kind == SMALL ? portable_log1p(wrong) : logarithm(1.0 + wrong));
  }
  double margin = sign * (q.at[i] - q.at[k]);
  if (q.kind == WIDE) {
    double late = -margin > 0.0 ? -margin : 0.0;
    return weight * (portable_log1p(portable_exp(-fabs(margin))) + late);
  }
  double lacking = q.knot - margin;
  if (q.kind == HINGE) return weight * (lacking > 0.0 ? lacking : 0.0);
  double steep = lacking > 0.0 ? 2.0 * lacking : 0.0;
  return weight * (0.25 * steep * steep);
}

__device__ __forceinline__ double of_strands(const double* s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Sums of row i over rows low..high, in eight interleaved partial sums: slopes and curvatures, or, if
// `losses`, losses and weights.
__device__ void ranked_sums(const Ranked& q, int i, int low, int high, double sign, int losses, double& one, double& other) {
  double a[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, b[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  int whole = high - (high - low) % 8;
  for (int k = low; k < high; k += 8)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      if (k + j >= high) break;
      double x, y;
      if (losses) {
        y = ranked_weight(q, i, k + j, sign);
        x = ranked_loss(q, i, k + j, sign, y);
      } else ranked_slope(q, i, k + j, sign, x, y);
      if (k < whole) { a[j] += x; b[j] += y; }
      else { a[0] += x; b[0] += y; }
    }
  one = of_strands(a);
  other = of_strands(b);
}

// Value of a query and the total weight of its pairs; thread 0 adds the sums of the rows, four numbers
// each in `row_sums`, in order.
__device__ double ranked_value(const Ranked& q, const i64* level_start, i64 bottom, i64 first, double* row_sums, double& weighed) {
  __shared__ double results[2];
  __syncthreads();
  for (int i = threadIdx.x; i < q.size; i += blockDim.x) {
    i64 level = bottom;
    while (level_start[level + 1] <= first + i) level++;
    int low = (int)(level_start[level] - first), high = (int)(level_start[level + 1] - first);
    double* own = row_sums + 4 * i;
    own[0] = own[1] = own[2] = own[3] = 0.0;
    if (q.sparse && q.discount[i] == 0.0) continue;
    if (q.win[i] > 0.0 && low > 0) ranked_sums(q, i, 0, low, 1.0, 1, own[0], own[1]);
    if (q.sparse && q.lose[i] > 0.0 && high < q.size) ranked_sums(q, i, high, q.size, -1.0, 1, own[2], own[3]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    double value = 0.0, weight = 0.0;
    for (int i = 0; i < q.size; i++) {
      value = (value + row_sums[4 * i]) + row_sums[4 * i + 2];
      weight = (weight + row_sums[4 * i + 1]) + row_sums[4 * i + 3];
    }
    results[0] = value;
    results[1] = weight;
  }
  __syncthreads();
  weighed = results[1];
  return results[0];
}

// Slopes of row k as winner (`up`) and as loser (`down`), and its curvature, in the order of the CPU.
__device__ void ranked_row(const Ranked& q, int k, int low, int high, double& up, double& down, double& curve) {
  double slope, curvature;
  bool enumerates = !q.sparse || q.discount[k] != 0.0;
  up = down = curve = 0.0;
  if (q.sparse && q.discount[k] == 0.0)
    for (int i = 0; i < low; i++) {
      if (q.discount[i] == 0.0 || !(q.lose[i] > 0.0)) continue;
      ranked_slope(q, i, k, -1.0, slope, curvature);
      up += slope;
      curve += curvature;
    }
  if (enumerates && q.win[k] > 0.0 && low > 0) {
    ranked_sums(q, k, 0, low, 1.0, 0, slope, curvature);
    up += slope;
    curve += curvature;
  }
  if (enumerates && q.sparse && q.lose[k] > 0.0 && high < q.size) {
    ranked_sums(q, k, high, q.size, -1.0, 0, slope, curvature);
    down += slope;
    curve += curvature;
  }
  for (int i = high; i < q.size; i++) {
    if ((q.sparse && q.discount[i] == 0.0) || !(q.win[i] > 0.0)) continue;
    ranked_slope(q, i, k, 1.0, slope, curvature);
    down += slope;
    curve += curvature;
  }
}

// Whether less than half of the rows of a query have a discount.
__device__ int is_sparse(const double* discount, int size) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < size; k += blockDim.x)
    if (discount[k] > 0.0) atomicAdd(&count, 1);
  __syncthreads();
  int found = count;
  __syncthreads();
  return 2 * found < size;
}

// Largest exponent of a pair of any weight of a query (0 if there is none); see `_find_scale`.
__device__ double largest_exponent(const Ranked& q, const i64* level_start, i64 bottom, i64 first, double* room) {
  double largest = -INFINITE;
  for (int i = threadIdx.x; i < q.size; i += blockDim.x) {
    i64 level = bottom;
    while (level_start[level + 1] <= first + i) level++;
    for (int k = 0; k < (int)(level_start[level] - first); k++) {
      double exponent = q.knot * (q.at[k] - q.at[i]);
      double gap = fabs(q.discount[i] - q.discount[k]) + q.flat;
      if (q.ranked[i] == q.ranked[k]) gap += q.tied[i];
      double weight = q.plain + q.factor * (q.gain[i] - q.gain[k]) * gap;
      if (exponent > largest && weight * q.win[i] * q.lose[k] > 0.0) largest = exponent;
    }
  }
  for (int step = 16; step > 0; step >>= 1) {
    double other = __shfl_xor_sync(~0u, largest, step);
    largest = other > largest ? other : largest;
  }
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = largest;
  __syncthreads();
  for (int warp = 0; warp < (int)(blockDim.x + 31) / 32; warp++) largest = room[warp] > largest ? room[warp] : largest;
  __syncthreads();
  return largest > -INFINITE ? largest : 0.0;
}

// Value (if `valued`) and gradient sum of each query (x) into `sums`; if `slopes`, pull and curvature of
// its rows. `knot` is the rate of an exponential loss, whose sums are divided by exp(log_scale) of the
// query. `scratch` has two numbers for each row, `row_sums` four.
extern "C" __global__ void ranked_pairs(const i64* query_start, const i64* level_start, i64 rows, int degree, double knot, int sparse, double flat, const double* scores, const double* ranked, const double* gain, const double* discount, const double* tied, const double* win, const double* lose, const double* plain, const double* factor, int valued, int slopes, double* scratch, double* row_sums, double* pull, double* hessian, double* sums, double* log_scale) {
  __shared__ double room[64];
  i64 bottom = query_start[blockIdx.x], top = query_start[blockIdx.x + 1], first = level_start[bottom];
  int size = (int)(level_start[top] - first);
  double *at = scratch + first, *inverse = at + rows, *downs = row_sums + 4 * first;
  double least, most, value = 0.0, weighed = 0.0;
  score_range(scores + first, size, room, least, most);
  bool narrow = degree == 0 && !(most - least >= 80.0);
  double middle = 0.5 * (most + least);
  for (int k = threadIdx.x; k < size; k += blockDim.x) {
    at[k] = narrow ? portable_exp(scores[first + k] - middle) : scores[first + k];
    inverse[k] = 1.0 / at[k];
  }
  Ranked q = {at, inverse, ranked + first, gain + first, discount + first, tied + first, win + first, lose + first, plain[blockIdx.x], factor[blockIdx.x], flat, knot, narrow ? NARROW : WIDE + degree, sparse, size};
  if (sparse) q.sparse = is_sparse(discount + first, size);
  if (degree == 3) {
    __syncthreads();
    double scale = knot * (most - least) > 600.0 ? largest_exponent(q, level_start, bottom, first, room) : 0.0;
    if (threadIdx.x == 0) log_scale[blockIdx.x] = scale;
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
      double exponent = knot * scores[first + k];
      at[k] = exponent - 0.5 * scale;
      inverse[k] = -exponent - 0.5 * scale;
    }
    __syncthreads();
  }
  if (valued) {
    value = ranked_value(q, level_start, bottom, first, downs, weighed);
    if (q.kind == NARROW && value < 1e-6 * weighed) {
      q.kind = SMALL;
      value = ranked_value(q, level_start, bottom, first, downs, weighed);
    }
  }
  __syncthreads();
  if (slopes)
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
      i64 level = bottom;
      while (level_start[level + 1] <= first + k) level++;
      double up, down, curve;
      ranked_row(q, k, (int)(level_start[level] - first), (int)(level_start[level + 1] - first), up, down, curve);
      downs[k] = down;
      pull[first + k] = up - down;
      hessian[first + k] = curve;
    }
  __syncthreads();
  if (threadIdx.x) return;
  double mass = 0.0;
  for (int k = 0; k < (slopes ? size : 0); k++) mass += downs[k];
  sums[blockIdx.x] = value;
  sums[gridDim.x + blockIdx.x] = mass;
}

// -- explicit pairs, see risks/by_pair.py ------------------------------------------------

// Weighted loss, slope and curvature of all pairs, as three arrays in `terms`; if `gap`, the required
// margins `asked` are subtracted.
extern "C" __global__ void listed_pairs(i64 n, const i64* winner, const i64* loser, const double* weight, const double* asked, int gap, int degree, double knot, const double* scores, double* terms) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x) {
    double margin = scores[winner[i]] - scores[loser[i]];
    if (gap) margin = margin - asked[i];
    double value, slope, curvature;
    if (degree == 0) {
      double small = portable_exp(-fabs(margin));
      slope = (margin > 0 ? small : 1.0) / (1.0 + small);
      curvature = small / ((1.0 + small) * (1.0 + small));
      value = portable_log1p(small) + (-margin > 0.0 ? -margin : 0.0);
    } else {
      double lacking = knot - margin > 0.0 ? knot - margin : 0.0;
      double within = margin < knot ? 1.0 : 0.0;
      value = degree == 1 ? lacking : lacking * lacking;
      slope = degree == 1 ? within : 2.0 * lacking;
      curvature = degree == 1 ? 0.0 : 2.0 * within;
    }
    terms[i] = weight[i] * value;
    terms[n + i] = weight[i] * slope;
    terms[2 * n + i] = weight[i] * curvature;
  }
}

// Exact sum of terms[at[begin..end]], independent of the order; see `sums_at` in engine/exact.py.
__device__ double sum_at(i64 begin, i64 end, const i64* at, const double* terms) {
  double top = 0.0;
  for (i64 i = begin; i < end; i++) {
    double size = fabs(terms[at[i]]);
    if (size > top || size != size) top = size;
  }
  if (!(top > 0.0 && top < INFINITE)) return top;
  int exponent;
  frexp(top, &exponent);
  int half = exponent >> 1;
  double first = ldexp(1.0, -half), second = ldexp(1.0, half - exponent);
  i64 high = 0, low = 0;
  for (i64 i = begin; i < end; i++) {
    double scaled = terms[at[i]] * first * second;
    scaled *= 2147483648.0;
    double whole = floor(scaled);
    high += (i64)whole;
    low += (i64)((scaled - whole) * 2147483648.0);
  }
  return ldexp((double)high / 2147483648.0 + (double)low / 4611686018427387904.0, exponent);
}

// Add the explicit pairs to pull and curvature of each row: those it wins, then those it loses.
extern "C" __global__ void listed_rows(i64 n, i64 count, const i64* won_start, const i64* won, const i64* lost_start, const i64* lost, const double* terms, double* pull, double* hessian) {
  const double *slope = terms + count, *curvature = terms + 2 * count;
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    i64 begin = won_start[row], end = won_start[row + 1], first = lost_start[row], last = lost_start[row + 1];
    pull[row] = (pull[row] + sum_at(begin, end, won, slope)) - sum_at(first, last, lost, slope);
    hessian[row] = (hessian[row] + sum_at(begin, end, won, curvature)) + sum_at(first, last, lost, curvature);
  }
}

// -- hinges of long lists, see risks/by_order.py ----------------------------------------------
//
// A split has two sides of sorted rows: losers (even numbers), then winners (odd numbers). Moments of
// losers are suffix sums (over rows of larger scores), moments of winners prefix sums. Every sum is
// taken in the order of the CPU, by one thread.

#define MAX_CHUNK_ROWS 512  // most rows of a chunk; it has 2^bits

struct SweptSide { i64 begin, end, first, last; };  // rows and blocks
struct SweptBlock { i64 low, high, side; };
struct Moments { double zeroth, once, twice; };

// Translate moments to a point at distance `by`.
__device__ __forceinline__ Moments translated(Moments m, double by) {
  return {m.zeroth, m.once + by * m.zeroth, m.twice + by * (2.0 * m.once + by * m.zeroth)};
}

__device__ __forceinline__ Moments moments_at(const double* at) { return {at[0], at[1], at[2]}; }

__device__ __forceinline__ void put_moments(double* at, const Moments& m) {
  at[0] = m.zeroth;
  at[1] = m.once;
  at[2] = m.twice;
}

// Sort keys: integers with the order of the scores; -0 is 0.
extern "C" __global__ void sweep_keys(i64 n, const double* scores, u64* keys) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x)
    keys[i] = ordered_bits(scores[i] + 0.0);
}

// Sorted scores and weights of the rows of each chunk.
extern "C" __global__ void sweep_rows(const SweptBlock* blocks, const i64* order, const double* scores, const double* weight, const double* loser_weight, double* ranked, double* share) {
  SweptBlock block = blocks[blockIdx.x];
  const double* own = block.side & 1 ? weight : loser_weight;
  for (i64 at = block.low + threadIdx.x; at < block.high; at += blockDim.x) {
    ranked[at] = scores[order[at]] + 0.0;
    share[at] = own[order[at]];
  }
}

// Running moments within each chunk (one thread): up to each row, about its score. See `_scan_chunks`.
extern "C" __global__ void sweep_moments(int count, const SweptBlock* blocks, const double* ranked, const double* share, double knot, double* moments) {
  int number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= count) return;
  SweptBlock block = blocks[number];
  bool winners = block.side & 1;
  i64 start = winners ? block.low : block.high - 1, step = winners ? 1 : -1;
  int size = (int)(block.high - block.low);
  Moments m = {0.0, 0.0, 0.0};
  double before = winners ? __ldg(ranked + start) - knot : __ldg(ranked + start);
#pragma unroll 8
  for (int k = 0; k < size; k++) {
    i64 at = start + k * step;
    double point = winners ? __ldg(ranked + at) - knot : __ldg(ranked + at);
    m = translated(m, winners ? point - before : before - point);
    m.zeroth += __ldg(share + at);
    put_moments(moments + 3 * at, m);
    before = point;
  }
}

// Moments of all chunks before each chunk, about the nearest row of the chunk before. A thread block has
// a side; its first thread adds what the others have read. See `_carry_moments`.
extern "C" __global__ void sweep_carry(const SweptSide* sides, const SweptBlock* blocks, const double* ranked, double knot, const double* moments, double* carry) {
  __shared__ double points[128];
  __shared__ Moments parts[128];
  SweptSide side = sides[blockIdx.x];
  bool winners = blockIdx.x & 1;
  i64 count = side.last - side.first;
  Moments m = {0.0, 0.0, 0.0};
  double before = 0.0;
  if (threadIdx.x == 0) put_moments(carry + 3 * (winners ? side.first : side.last - 1), m);
  for (i64 begin = 1; begin < count; begin += blockDim.x) {
    i64 number = begin + threadIdx.x, block = winners ? side.first + number : side.last - 1 - number;
    if (number < count) {
      i64 edge = winners ? blocks[block].low - 1 : blocks[block].high;
      points[threadIdx.x] = winners ? ranked[edge] - knot : ranked[edge];
      parts[threadIdx.x] = moments_at(moments + 3 * edge);
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int k = 0; k < (int)blockDim.x && begin + k < count; k++) {
        double by = winners ? points[k] - before : before - points[k];
        m = translated(m, begin + k > 1 ? by : 0.0);
        m.zeroth += parts[k].zeroth;
        m.once += parts[k].once;
        m.twice += parts[k].twice;
        parts[k] = m;
        before = points[k];
      }
    __syncthreads();
    if (number < count) put_moments(carry + 3 * block, parts[threadIdx.x]);
    __syncthreads();
  }
}

// Moments of the other side's rows that are paired with a row at `target`; false if there are none. See
// `_add_row_gradients`.
__device__ bool paired_moments(const SweptSide& other, const double* ranked, double target, bool winners, int bits, double knot, const double* moments, const double* carry, Moments& m) {
  i64 low = other.begin, high = other.end;
  while (low < high) {
    i64 middle = (low + high) / 2;
    bool before = winners ? !(ranked[middle] > target) : ranked[middle] - knot < target;
    if (before) low = middle + 1;
    else high = middle;
  }
  if (low == (winners ? other.end : other.begin)) return false;
  i64 near = winners ? low : low - 1, number = (near - other.begin) >> bits;
  i64 edge = winners ? other.begin + ((number + 1) << bits) : other.begin + (number << bits) - 1;
  m = translated(moments_at(moments + 3 * near), winners ? ranked[near] - target : target - (ranked[near] - knot));
  if (edge < other.begin || edge >= other.end) return true;
  Moments more = translated(moments_at(carry + 3 * (other.first + number)), winners ? ranked[edge] - target : target - (ranked[edge] - knot));
  m.zeroth += more.zeroth;
  m.once += more.once;
  m.twice += more.twice;
  return true;
}

// Add to pull and curvature of the rows of a chunk; value and gradient sum of its losers into `sums`.
extern "C" __global__ void sweep_read(const SweptSide* sides, const SweptBlock* blocks, const i64* order, const double* ranked, const double* share, int bits, double knot, int degree, const double* moments, const double* carry, double* pull, double* hessian, double* sums) {
  __shared__ double values[MAX_CHUNK_ROWS], masses[MAX_CHUNK_ROWS];
  SweptBlock block = blocks[blockIdx.x];
  SweptSide other = sides[block.side ^ 1];
  bool winners = block.side & 1;
  for (i64 at = block.low + threadIdx.x; at < block.high; at += blockDim.x) {
    i64 row = order[at];
    double own = share[at], target = winners ? ranked[at] - knot : ranked[at];
    Moments m = {0.0, 0.0, 0.0};
    double slope = 0.0, curvature = 0.0;
    if (paired_moments(other, ranked, target, winners, bits, knot, moments, carry, m)) {
      slope = degree == 1 ? m.zeroth : 2.0 * m.once;
      curvature = degree == 1 ? 0.0 : 2.0 * m.zeroth;
      hessian[row] += own * curvature;
      if (winners) pull[row] += own * slope;
      else pull[row] -= own * slope;
    }
    values[at - block.low] = winners ? 0.0 : own * (degree == 1 ? m.once : m.twice);
    masses[at - block.low] = winners ? 0.0 : own * slope;
  }
  __syncthreads();
  if (threadIdx.x != 0 && threadIdx.x != 32) return;
  const double* terms = threadIdx.x ? masses : values;
  double total = 0.0;
  for (int k = 0; k < (int)(block.high - block.low); k++) total += terms[k];
  sums[(threadIdx.x ? gridDim.x : 0) + blockIdx.x] = total;
}

// -- columns of tables, see engine/table.py ------------------------------------------------------

// Sort keys are integers with the order of the floats; -0 is 0, and missing values come last.
__device__ __forceinline__ u32 key_of(float x) {
  if (x != x) return ~0u;
  u32 bits = __float_as_uint(x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ u64 key_of(double x) { return x != x ? ~0ULL : ordered_bits(x + 0.0); }

__device__ __forceinline__ double value_of_key(u32 key) {
  return (double)__uint_as_float(key >> 31 ? key ^ 0x80000000u : ~key);
}

__device__ __forceinline__ double value_of_key(u64 key) {
  return __longlong_as_double((i64)(key >> 63 ? key ^ 0x8000000000000000ULL : ~key));
}

// Keys of columns, in tiles of 32 rows (x) by 32 columns (y); `row_step` and `column_step` are the strides
// of X.
template <typename Number, typename Key>
__device__ void keys_of_columns(i64 n, int columns, const Number* X, i64 row_step, i64 column_step, const i64* order, Key* keys) {
  __shared__ Key tile[32][33];
  i64 first_row = blockIdx.x * 32LL;
  int first = blockIdx.y * 32, across = row_step > column_step;
  int own_row = across ? threadIdx.y : threadIdx.x, own = across ? threadIdx.x : threadIdx.y;
  i64 row = first_row + own_row;
  if (row < n && first + own < columns)
    tile[own_row][own] = key_of(X[order[row] * row_step + (first + own) * column_step]);
  __syncthreads();
  row = first_row + threadIdx.x;
  if (row < n && first + (int)threadIdx.y < columns)
    keys[(first + threadIdx.y) * n + row] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void keys_of_singles(i64 n, int columns, const float* X, i64 row_step, i64 column_step, const i64* order, u32* keys) {
  keys_of_columns(n, columns, X, row_step, column_step, order, keys);
}

extern "C" __global__ void keys_of_doubles(i64 n, int columns, const double* X, i64 row_step, i64 column_step, const i64* order, u64* keys) {
  keys_of_columns(n, columns, X, row_step, column_step, order, keys);
}

// First position in low..high of a sorted column whose key is at least `key` (above it, if `equal`).
template <typename Key>
__device__ i64 first_beyond(const Key* ordered, Key key, i64 low, i64 high, int equal) {
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (ordered[middle] < key || (equal && ordered[middle] == key)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// End of the bin that starts at `first`, as in `_cut_points` of engine/table.py.
template <typename Key>
__device__ i64 end_of_bin(const Key* ordered, i64 size, i64 first, i64 left, i64 bins, i64 max_bins) {
  i64 target = first + (left - 1) / bins, heavy = (size - 1) / max_bins + 1, position = first;
  while (position < target) {
    position = position + heavy < target ? position + heavy : target;
    i64 start = first_beyond(ordered, ordered[position], first, position, 0);
    i64 far = start + heavy - 1;
    if (start > first && far < size && ordered[far] == ordered[start]) return start;
  }
  return first_beyond(ordered, ordered[target], target, size, 1);
}

// End of the bin that starts at `i` if rows are weighted; `bin_weight` is the weight of the bin.
template <typename Key>
__device__ i64 end_of_heavy_bin(const Key* ordered, const i64* weight, i64 size, i64 i, i64 left, i64 bins, i64 max_bins, i64 total, i64& bin_weight) {
  bin_weight = 0;
  for (;;) {
    Key value = ordered[i];
    while (i < size && ordered[i] == value) bin_weight += weight[i++];
    if (i == size || bin_weight * bins >= left) return i;
    i64 ahead = 0;
    for (i64 j = i; j < size && ordered[j] == ordered[i] && ahead * max_bins < total; j++) ahead += weight[j];
    if (ahead * max_bins >= total) return i;
  }
}

// Cut points of sorted columns, one thread each; see `_cut_points`. `cuts` has 260 numbers per column:
// the cut points, padded with infinity to 256, their number, the least and the greatest value, and the
// number of values that are not missing. If `weighted`, `weights` are in the order of the values.
template <typename Key>
__device__ void cuts_of_columns(i64 n, int columns, int max_bins, const Key* sorted, int weighted, const i64* weights, double* cuts) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const Key* ordered = sorted + column * n;
  double* own = cuts + 260 * (i64)column;
  i64 size = first_beyond(ordered, (Key)~(Key)0, 0, n, 0), count = 0, i = 0;
  const i64* heavy = weights + column * n;
  i64 total = 0, left = 0, bins = 0, bin_weight = 0;
  bool many = false;
  while (!many || count < max_bins - 1) {
    i64 end = size;
    if (i < size && !many) end = first_beyond(ordered, ordered[i], i, size, 1);
    else if (i < size && weighted) end = end_of_heavy_bin(ordered, heavy, size, i, left, bins, (i64)max_bins, total, bin_weight);
    else if (i < size) {
      end = end_of_bin(ordered, size, i, left, bins, (i64)max_bins);
      bin_weight = end - i;
    }
    if (end == size) break;
    if (!many && count == max_bins - 1) {
      many = true;
      count = i = 0;
      total = size;
      if (weighted) total = 0;
      for (i64 j = 0; j < (weighted ? size : 0); j++) total += heavy[j];
      left = total;
      bins = max_bins;
      continue;
    }
    double below = value_of_key(ordered[end - 1]), above = value_of_key(ordered[end]);
    double cut = below / 2 + above / 2;
    own[count++] = below <= cut && cut < above ? cut : below + 0.0;
    left -= bin_weight;
    bins--;
    i = end;
  }
  for (int k = (int)count; k < 256; k++) own[k] = INFINITE;
  own[256] = (double)count;
  own[257] = size ? value_of_key(ordered[0]) : QUIET_NAN;
  own[258] = size ? value_of_key(ordered[size - 1]) : QUIET_NAN;
  own[259] = (double)size;
}

extern "C" __global__ void cuts_of_singles(i64 n, int columns, int max_bins, const u32* sorted, int weighted, const i64* weights, double* cuts) {
  cuts_of_columns(n, columns, max_bins, sorted, weighted, weights, cuts);
}

extern "C" __global__ void cuts_of_doubles(i64 n, int columns, int max_bins, const u64* sorted, int weighted, const i64* weights, double* cuts) {
  cuts_of_columns(n, columns, max_bins, sorted, weighted, weights, cuts);
}

// Codes of a column (y): the number of cut points below a value; 255 if it is missing.
template <typename Key>
__device__ void codes_of_columns(i64 n, const Key* keys, const double* cuts, u8* codes) {
  __shared__ double own[256];
  own[threadIdx.x] = cuts[260 * (i64)blockIdx.y + threadIdx.x];
  __syncthreads();
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    Key key = keys[blockIdx.y * n + row];
    double value = value_of_key(key);
    int below = 0;
#pragma unroll
    for (int step = 128; step > 0; step >>= 1) below += value > own[below + step - 1] ? step : 0;
    codes[blockIdx.y * n + row] = key == (Key)~(Key)0 ? 255 : below;
  }
}

extern "C" __global__ void codes_of_singles(i64 n, const u32* keys, const double* cuts, u8* codes) {
  codes_of_columns(n, keys, cuts, codes);
}

extern "C" __global__ void codes_of_doubles(i64 n, const u64* keys, const double* cuts, u8* codes) {
  codes_of_columns(n, keys, cuts, codes);
}

// Hash the codes of each row into its key; see `mix_codes` in engine/table.py.
extern "C" __global__ void mix_codes(i64 n, int features, const u8* codes, u64* keys) {
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    u64 key = keys[row];
    for (int feature = 0; feature < features; feature++) {
      u64 mixed = (key ^ codes[feature * n + row]) * 0x9E3779B97F4A7C15ULL;
      key = mixed ^ (mixed >> 29);
    }
    keys[row] = key;
  }
}

// -- rows of trees, see engine/tree_histograms.py and engine/quantization.py ---------------------

// Transpose columns of codes to rows of `width` bytes, in tiles of 32 by 32.
extern "C" __global__ void by_rows(i64 n, int features, int width, const u8* columns, u8* rows) {
  __shared__ u8 tile[32][33];
  i64 row = blockIdx.x * 32LL + threadIdx.x;
  int feature = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = row < n && feature < features ? columns[feature * n + row] : 0;
  __syncthreads();
  i64 to = blockIdx.x * 32LL + threadIdx.y;
  if (to < n) rows[to * width + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void count_up(i64 n, int* rows) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x)
    rows[i] = (int)i;
}

#define DRAW_TILE 2048

// Whether a row is sampled for a tree; see engine/exact.py.
__device__ __forceinline__ bool is_drawn(u64 key, const u64* more, double share) {
  for (int k = 0; k < 3; k++) {
    key += more[k];
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ULL;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBULL;
    key ^= key >> 31;
  }
  return (double)(key >> 11) < share;
}

// Sample rows in tiles of DRAW_TILE, one warp each. The first launch (`known` = 0) counts the sampled
// rows of each tile in `pieces`; the second reads the tile's offset there and writes the rows.
extern "C" __global__ void draw(i64 n, const u64* keys, const u64* more, double share, int known, i64* pieces, int* rows) {
  i64 low = blockIdx.x * (i64)DRAW_TILE, high = low + DRAW_TILE < n ? low + DRAW_TILE : n;
  i64 begin = known ? pieces[blockIdx.x] : 0, count = 0;
  int lane = threadIdx.x;
  for (i64 base = low; base < high; base += 32) {
    int is = base + lane < high && is_drawn(keys[base + lane], more, share);
    u32 votes = __ballot_sync(~0u, is);
    if (is && known) rows[begin + count + __popc(votes & ((1u << lane) - 1))] = (int)(base + lane);
    count += __popc(votes);
  }
  if (lane == 0 && !known) pieces[blockIdx.x] = count;
}

// Quantize rows to packed words, or to two words each if `wide`; see engine/quantization.py.
extern "C" __global__ void pack(i64 n, int wide, int count_bits, const double* pull, const double* weight, double one, double other, double weight_one, double weight_other, i64* first, i64* second) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x) {
    i64 a = (i64)rint(pull[i] * one * other);
    i64 b = (i64)rint(weight[i] * weight_one * weight_other);
    if (wide) { first[i] = a; second[i] = (b << count_bits) + 1; }
    else first[i] = (a << 38) + (b << 12) + 1;
  }
}

// The split of a node: 20 words, see `Work` in engine/cuda.py. The smaller child comes first.
struct Work {
  i64 low, high;             // rows of the node
  i64 from, to;              // lists that hold the rows and receive them
  i64 feature;               // of the split
  i64 first, last;           // rows of the smaller child, in the list `to`
  i64 slot, parent;          // histograms of the smaller child and of the node
  i64 wanted;                // bit 0: search the smaller child; bit 1: the larger one
  i64 pull[2], weight[2];    // sums of the children
  i64 lefts, rights;         // rows partitioned so far to either side
  i64 searched[2];           // features of each child searched so far
  i64 unused[2];
};

// The node that has a tile (thread block), if `start` has the first tile of each node.
__device__ __forceinline__ int node_of(const i64* start, int nodes, int block) {
  int low = 0, high = nodes - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (start[middle] <= block) low = middle; else high = middle - 1;
  }
  return low;
}

#define MOVE_TILE 2048

// Clear a histogram, by `parts` thread blocks. Histograms are arrays (feature, code) of pairs of words.
__device__ void clear(ulonglong2* slot, i64 size, int part, int parts) {
  for (i64 i = part * (i64)blockDim.x + threadIdx.x; i < size; i += parts * (i64)blockDim.x)
    slot[i] = make_ulonglong2(0, 0);
}

// Partition the rows of nodes into another list, left ones from the beginning of the node's range and
// right ones from its end, by `tiles` thread blocks of 512 threads. (The order of the rows within a child
// depends on the order of the thread blocks; sums do not.) The remaining thread blocks, 20 for each node,
// clear the histograms of the smaller children.
extern "C" __global__ void move(Work* work, const i64* start, int nodes, int tiles, int width, const u8* codes, const u8* goes_left, int* lists, i64 n, ulonglong2* histograms) {
  if ((int)blockIdx.x >= tiles) {
    int block = blockIdx.x - tiles;
    clear(histograms + work[block / 20].slot * width * 256, width * 256LL, block % 20, 20);
    return;
  }
  __shared__ int counts[64];
  __shared__ i64 to_left, to_right;
  int node = node_of(start, nodes, blockIdx.x);
  Work* job = work + node;
  const int* from = lists + job->from * n;
  int* to = lists + job->to * n;
  const u8* node_goes_left = goes_left + 256 * node;
  i64 begin = job->low + (i64)(blockIdx.x - start[node]) * MOVE_TILE;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int row[4], left[4], before[4];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    i64 i = begin + r * 512 + threadIdx.x;
    row[r] = i < job->high ? from[i] : -1;
    left[r] = row[r] >= 0 && node_goes_left[codes[(i64)row[r] * width + job->feature]];
    u32 votes = __ballot_sync(~0u, left[r]);
    before[r] = __popc(votes & ((1u << lane) - 1));
    if (lane == 0) counts[r * 16 + warp] = __popc(votes);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int j = 0; j < 64; j++) { int c = counts[j]; counts[j] = sum; sum += c; }
    i64 size = job->high - begin < MOVE_TILE ? job->high - begin : MOVE_TILE;
    to_left = job->low + (i64)atomicAdd((u64*)&job->lefts, (u64)sum);
    i64 rights = size - sum;
    to_right = job->high - rights - (i64)atomicAdd((u64*)&job->rights, (u64)rights);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; r++)
    if (row[r] >= 0) {
      int lefts = counts[r * 16 + warp] + before[r];
      if (left[r]) to[to_left + lefts] = row[r];
      else to[to_right + (r * 512 + threadIdx.x - lefts)] = row[r];
    }
}

#define STRIDE 257

// Shared memory has fast atomic additions of 32 bits only. A packed word is therefore summed as two words
// of 32 bits, 64 * pull + 1 and 63 * weight + 1. The remainders modulo 64 and 63 of sums of up to 4031
// such words determine the count, and the count determines pull and weight.
__device__ __forceinline__ void unpack(u32 first, u32 second, i64& pull, i64& weight, i64& count) {
  int a = first & 63, b = (int)(second % 63u);
  count = a + 64 * ((b - a % 63 + 63) % 63);
  pull = ((i64)(int)first - count) >> 6;
  weight = ((i64)second - count) / 63;
}

// Add a 64-bit number to a sum stored as two words of 32 bits.
__device__ __forceinline__ void add_word(u32* low, u32* high, u32 one, u32 other) {
  u32 old = atomicAdd(low, one);
  u32 more = other + (old + one < old ? 1u : 0u);
  if (more) atomicAdd(high, more);
}

// Sum the histograms of the smaller children: a thread block of 512 threads has 32 features (y) and a
// tile of `size` rows (x; at most 4000). If the sums of the tile fit, packed words are summed as above in
// one pass. Otherwise, and for wide numbers, 64-bit sums take two passes: pulls, then weights and counts.
extern "C" __global__ void fill(const Work* work, const i64* start, int nodes, int size, int width, int features, int wide, int count_bits, const u8* codes, const i64* one_word, const i64* other_word, const int* lists, i64 n, u64* histograms) {
  extern __shared__ u32 low[];
  __shared__ i64 room[32];
  __shared__ int fits;
  u32* high = low + 32 * STRIDE;
  int node = node_of(start, nodes, blockIdx.x);
  const Work* job = work + node;
  const int* rows = lists + job->to * n;
  i64 begin = job->first + (i64)(blockIdx.x - start[node]) * size;
  i64 end = begin + size < job->last ? begin + size : job->last;
  if (!wide) {
    i64 pulls = 0, weights = 0;
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
      i64 number = one_word[rows[i]];
      i64 pull = number >> 38;
      pulls += pull < 0 ? -pull : pull;
      weights += (number >> 12) & 0x3FFFFFF;
    }
    pulls = block_sum(pulls, room);
    weights = block_sum(weights, room);
    if (threadIdx.x == 0) fits = pulls < (1 << 25) - 64 && weights < (1 << 26);
  } else if (threadIdx.x == 0) fits = 0;
  __syncthreads();
  int passes = fits ? 1 : 2;
  int word = threadIdx.x & 7, row0 = threadIdx.x >> 3, step = blockDim.x >> 3;
  int at = word * 4 * STRIDE;
  bool used = 32 * (int)blockIdx.y + 4 * word < features;
  const u8* group = codes + 32 * blockIdx.y + 4 * word;
  u64* out = histograms + 2 * (job->slot * width + 32 * (i64)blockIdx.y) * 256;
  for (int pass = 0; pass < passes; pass++) {
    for (int j = threadIdx.x; j < 2 * 32 * STRIDE; j += blockDim.x) low[j] = 0;
    __syncthreads();
    if (passes == 1 && used) {
#pragma unroll 4
      for (i64 i = begin + row0; i < end; i += step) {
        int row = rows[i];
        i64 number = one_word[row];
        u32 four = *(const u32*)(group + (i64)row * width);
        u32 one = (u32)(number >> 38) * 64u + 1u, other = (u32)((number >> 12) & 0x3FFFFFF) * 63u + 1u;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int bin = at + j * STRIDE + ((four >> (8 * j)) & 255);
          atomicAdd(low + bin, one);
          atomicAdd(high + bin, other);
        }
      }
    } else if (used) {
      for (i64 i = begin + row0; i < end; i += step) {
        int row = rows[i];
        i64 number = one_word[row];
        if (wide) number = pass ? other_word[row] : number;
        else number = pass ? (((number & 0x3FFFFFFFFFLL) >> 12) << count_bits) + (number & 4095) : number >> 38;
        u32 four = *(const u32*)(group + (i64)row * width);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int bin = at + j * STRIDE + ((four >> (8 * j)) & 255);
          add_word(low + bin, high + bin, (u32)number, (u32)((u64)number >> 32));
        }
      }
    }
    __syncthreads();
    for (int j = threadIdx.x; j < 32 * 256; j += blockDim.x) {
      int bin = (j >> 8) * STRIDE + (j & 255);
      if (low[bin] == 0 && high[bin] == 0) continue;
      if (passes == 2) {
        atomicAdd(&out[2 * j + pass], ((u64)high[bin] << 32) | low[bin]);
        continue;
      }
      i64 pull, weight, count;
      unpack(low[bin], high[bin], pull, weight, count);
      atomicAdd(&out[2 * j], (u64)pull);
      atomicAdd(&out[2 * j + 1], (u64)((weight << count_bits) + count));
    }
    __syncthreads();
  }
}

// -- the best splits of nodes, see engine/tree_histograms.py --------------------------------

// The record of `Rules` in engine/tree_rows.py.
struct Rules {
  double pull_unit, weight_unit;
  i64 count_bits;
  double reg_lambda, reg_alpha, cat_smooth;
  i64 min_count;
  double min_weight, min_gain;
  i64 plain;
};

struct Found {
  double score;
  i64 feature, cut, missing_above, pull, weight_count;
};
#define NO_SPLIT Found{0.0, -1, -1, 0, 0, 0}

__device__ __forceinline__ double leaf_value(double pull, double curvature, double alpha, double least, double most) {
  double size = fabs(pull) - alpha;
  size = size > 0.0 ? size : 0.0;
  double value = curvature > 0 ? (pull > 0 ? size : -size) / curvature : 0.0;
  value = value < least ? least : value;
  return value > most ? most : value;
}

__device__ __forceinline__ double leaf_score(double pull, double curvature, double alpha, double value) {
  return 2.0 * (pull * value - alpha * fabs(value)) - curvature * value * value;
}

__device__ __forceinline__ double children_score(const Rules& rules, double left, double weight, double right, double other, double penalty, const double* bounds, int sign) {
  if (rules.plain)
    return left * left / (weight + penalty) + right * right / (other + penalty);
  double one = leaf_value(left, weight + penalty, rules.reg_alpha, bounds[0], bounds[1]);
  double two = leaf_value(right, other + penalty, rules.reg_alpha, bounds[0], bounds[1]);
  if ((sign > 0 && one > two) || (sign < 0 && one < two)) return -INFINITE;
  return leaf_score(left, weight + penalty, rules.reg_alpha, one) + leaf_score(right, other + penalty, rules.reg_alpha, two);
}

// Inclusive prefix sums over a thread block of 256 threads.
__device__ __forceinline__ void prefix_sums(i64& pull, i64& weight_count, i64* room) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int step = 1; step < 32; step <<= 1) {
    i64 a = __shfl_up_sync(~0u, pull, step), b = __shfl_up_sync(~0u, weight_count, step);
    if (lane >= step) { pull += a; weight_count += b; }
  }
  if (lane == 31) { room[2 * warp] = pull; room[2 * warp + 1] = weight_count; }
  __syncthreads();
  for (int j = 0; j < warp; j++) { pull += room[2 * j]; weight_count += room[2 * j + 1]; }
  __syncthreads();
}

// Sort the categories that occur by their smoothed mean pull; the others come last, empty.
__device__ __forceinline__ void sort_categories(const Rules& rules, int bins, i64* pulls, i64* weights, double* keys, i64& pull, i64& weight_count) {
  int code = threadIdx.x;
  bool occurs = code < bins && weight_count != 0;
  double weight = (double)(weight_count >> rules.count_bits) * rules.weight_unit + rules.cat_smooth;
  double key = weight > 0 ? (double)pull * rules.pull_unit / weight : 0.0;
  keys[code] = key;
  weights[code] = occurs ? 1 : 0;
  __syncthreads();
  int rank = 0;
  for (int j = 0; j < bins; j++)
    rank += weights[j] != 0 && (keys[j] < key || (keys[j] == key && j < code));
  __syncthreads();
  pulls[code] = 0;
  weights[code] = 0;
  __syncthreads();
  if (occurs) { pulls[rank] = pull; weights[rank] = weight_count; }
  __syncthreads();
  pull = pulls[code];
  weight_count = weights[code];
  __syncthreads();
}

__device__ __forceinline__ double block_max(double value, double* room) {
  for (int step = 16; step > 0; step >>= 1) {
    double other = __shfl_xor_sync(~0u, value, step);
    value = other > value ? other : value;
  }
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = value;
  __syncthreads();
  for (int j = 0; j < 8; j++) value = room[j] > value ? room[j] : value;
  __syncthreads();
  return value;
}

// The first best cut of a feature; a thread block has the feature and a thread one of its bins. See
// `_best_cut` in engine/tree_histograms.py.
__device__ void best_cut(const Rules& rules, int bins, int sign, int category, i64 pull, i64 weight_count, const i64* missing, i64 total, i64 total_weight, const double* bounds, Found* found) {
  __shared__ i64 pulls[256], weights[256];
  __shared__ double keys[256];
  __shared__ i64 room[16];
  __shared__ int last, chosen;
  double penalty = rules.reg_lambda;
  if (category) {
    sort_categories(rules, bins, pulls, weights, keys, pull, weight_count);
    penalty = rules.reg_lambda + rules.cat_smooth;
  }
  bool occurs = threadIdx.x < bins && weight_count != 0;
  if (threadIdx.x == 0) { last = -1; chosen = 1 << 20; found->score = -INFINITE; found->feature = -1; }
  __syncthreads();
  if (occurs) atomicMax(&last, (int)threadIdx.x);
  prefix_sums(pull, weight_count, room);
  i64 mask = (1LL << rules.count_bits) - 1;
  double P = (double)total * rules.pull_unit;
  double W = (double)(total_weight >> rules.count_bits) * rules.weight_unit;
  double N = (double)(total_weight & mask);
  double p = (double)pull * rules.pull_unit;
  double w = (double)(weight_count >> rules.count_bits) * rules.weight_unit;
  i64 count = weight_count & mask;
  double lightest = penalty > 0.0 ? 0.0 : 4.9406564584124654e-324;
  lightest = rules.min_weight > lightest ? rules.min_weight : lightest;
  double shift[2][3] = {{0.0, 0.0, 0.0}, {(double)missing[0] * rules.pull_unit, (double)(missing[1] >> rules.count_bits) * rules.weight_unit, (double)(missing[1] & mask)}};
  bool lacks = shift[1][2] != 0.0;
  double scores[2] = {-INFINITE, -INFINITE};
  bool may[2] = {false, false};
  if (sign && (int)threadIdx.x == last) sign = 0;
#pragma unroll
  for (int side = 0; side < 2; side++) {
    if (!occurs || (side == 1 && !lacks)) continue;
    double n = (double)count + shift[side][2], weight = w + shift[side][1];
    may[side] = !(n < (double)rules.min_count || weight < lightest) && !(N - n < (double)rules.min_count || W - weight < lightest);
    double left = p + shift[side][0];
    if (may[side]) scores[side] = children_score(rules, left, weight, P - left, W - weight, penalty, bounds, sign);
  }
  double top = scores[0] > -INFINITE ? scores[0] : -INFINITE;
  top = scores[1] > top ? scores[1] : top;
  top = block_max(top, (double*)room);
  // Missing values on the left come before missing values on the right.
  if (may[1] && scores[1] == top) atomicMin(&chosen, 2 * (int)threadIdx.x);
  else if (may[0] && scores[0] == top) atomicMin(&chosen, 2 * (int)threadIdx.x + 1);
  __syncthreads();
  if (top > -INFINITE && chosen >> 1 == (int)threadIdx.x && chosen < 1 << 20) {
    int missing_above = chosen & 1;
    if (!lacks) missing_above = 2.0 * (double)count < N ? 1 : 0;
    found->score = top;
    found->feature = 0;
    found->cut = (int)threadIdx.x == last && !category ? bins - 1 : (int)threadIdx.x;
    found->missing_above = missing_above;
    found->pull = missing_above == 0 ? pull + missing[0] : pull;
    found->weight_count = missing_above == 0 ? weight_count + missing[1] : weight_count;
    if (category && missing_above == 0) { found->pull = total - found->pull; found->weight_count = total_weight - found->weight_count; }
  }
}

// The best split of a child over all features, by one warp.
__device__ void best_feature(const Work* job, int child, int features, const double* bounds, const Rules& rules, const Found* found, Found* best) {
  double P = (double)job->pull[child] * rules.pull_unit;
  double W = (double)(job->weight[child] >> rules.count_bits) * rules.weight_unit + rules.reg_lambda;
  double own = P * P / W;
  if (!rules.plain)
    own = leaf_score(P, W, rules.reg_alpha, leaf_value(P, W, rules.reg_alpha, bounds[0], bounds[1]));
  double top = own;
  int chosen = -1;
  for (int j = threadIdx.x; j < features; j += 32) {
    double score = __ldcg(&found[j].score);
    if (__ldcg(&found[j].feature) >= 0 && score > top) { top = score; chosen = j; }
  }
  for (int step = 16; step > 0; step >>= 1) {
    double other_top = __shfl_xor_sync(~0u, top, step);
    int other = __shfl_xor_sync(~0u, chosen, step);
    if (other >= 0 && (chosen < 0 || other_top > top || (other_top == top && other < chosen))) { top = other_top; chosen = other; }
  }
  if (threadIdx.x > 0) return;
  *best = NO_SPLIT;
  if (chosen < 0 || !(top - own > 1.4551915228366852e-11 * fabs(top))) return;
  best->score = top - own;
  best->feature = chosen;
  best->cut = __ldcg(&found[chosen].cut);
  best->missing_above = __ldcg(&found[chosen].missing_above);
  best->pull = __ldcg(&found[chosen].pull);
  best->weight_count = __ldcg(&found[chosen].weight_count);
}

// The best splits of the children (z = 0: smaller, 1: larger) of each node (y). A thread block of 256
// threads has a feature (x); the last one of a child to finish compares all features. The histogram of
// the larger child, node minus smaller child, replaces that of the node.
extern "C" __global__ void search(Work* work, int width, const i64* n_bins, const u8* allowed, int step, const signed char* monotone, const u8* categorical, const double* bounds, const Rules* given, i64* histograms, Found* found, Found* best) {
  Work* job = work + blockIdx.y;
  int child = blockIdx.z, feature = blockIdx.x, which = blockIdx.y * 2 + child;
  if (!(job->wanted >> child & 1)) {
    if (feature == 0 && threadIdx.x == 0) best[which] = NO_SPLIT;
    return;
  }
  Rules rules = *given;
  Found* out = found + ((i64)which * gridDim.x + feature);
  i64 at = 2 * ((job->slot * width + feature) * 256 + threadIdx.x);
  i64 pull = histograms[at], weight_count = histograms[at + 1];
  if (child) {
    i64 above = 2 * ((job->parent * width + feature) * 256 + threadIdx.x);
    pull = histograms[above] - pull;
    weight_count = histograms[above + 1] - weight_count;
    histograms[above] = pull;
    histograms[above + 1] = weight_count;
  }
  __shared__ i64 missing[2];
  __shared__ int last;
  if (threadIdx.x == 255) { missing[0] = pull; missing[1] = weight_count; }
  __syncthreads();
  if (allowed[blockIdx.y * step + feature])
    best_cut(rules, (int)n_bins[feature], monotone[feature], categorical[feature], pull, weight_count, missing, job->pull[child], job->weight[child], bounds + 2 * which, out);
  else if (threadIdx.x == 0) { out->score = -INFINITE; out->feature = -1; }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd((u64*)&job->searched[child], 1ULL) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x < 32) {
    __threadfence();
    best_feature(job, child, gridDim.x, bounds + 2 * which, rules, out - feature, best + which);
  }
}

// -- leaves ------------------------------------------------------------------------------------

// Exact sums of pull and weight over the rows of leaves; a thread block has a tile of LEAF_TILE rows.
#define LEAF_TILE 4096
extern "C" __global__ void leaf_sums(const i64* leaves, const i64* start, int count, const int* lists, i64 n, const double* pull, const double* weight, double one, double other, double weight_one, double weight_other, u64* sums) {
  __shared__ i64 room[32];
  int leaf = node_of(start, count, blockIdx.x);
  const int* rows = lists + leaves[3 * leaf + 2] * n;
  i64 begin = leaves[3 * leaf] + (i64)(blockIdx.x - start[leaf]) * LEAF_TILE, end = leaves[3 * leaf + 1];
  end = begin + LEAF_TILE < end ? begin + LEAF_TILE : end;
  i64 pulls = 0, weights = 0;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
    int row = rows[i];
    pulls += (i64)rint(pull[row] * one * other);
    weights += (i64)rint(weight[row] * weight_one * weight_other);
  }
  pulls = block_sum(pulls, room);
  weights = block_sum(weights, room);
  if (threadIdx.x == 0) { atomicAdd(&sums[2 * leaf], (u64)pulls); atomicAdd(&sums[2 * leaf + 1], (u64)weights); }
}

extern "C" __global__ void leaf_values(const i64* leaves, const i64* start, int count, const int* lists, i64 n, const double* value, double* values) {
  int leaf = node_of(start, count, blockIdx.x);
  const int* rows = lists + leaves[3 * leaf + 2] * n;
  i64 begin = leaves[3 * leaf] + (i64)(blockIdx.x - start[leaf]) * LEAF_TILE, end = leaves[3 * leaf + 1];
  end = begin + LEAF_TILE < end ? begin + LEAF_TILE : end;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) values[rows[i]] = value[leaf];
}

// Values of all rows, found by descending the tree.
extern "C" __global__ void walk(i64 n, int width, const u8* codes, const i64* feature, const u8* goes_left, const i64* child, int splits, const double* value, double* values) {
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    i64 node = 0;
    while (node >= 0) {
      int left = goes_left[256 * node + codes[row * width + feature[node]]];
      node = child[left ? node : splits + node];
    }
    values[row] = value[-1 - node];
  }
}

// -- prediction, see weak_rankers/trees.py --------------------------------------------------------

// A split, whose `number` is the threshold, or a leaf: then the feature is -1 and `number` is the value
// times the weight of the tree.
struct TreeNode {
  double number;
  int feature, left, right, missing;  // missing: 1 if missing values go right
};

// Scores of rows, one thread each. The features in use are copied to shared memory first.
template <typename Number>
__device__ void score_rows(i64 n, i64 width, const Number* X, int used, const i64* features, int trees, const i64* start, const TreeNode* tree_nodes, double* scores) {
  extern __shared__ double held_rows[];
  Number* x = (Number*)held_rows;
  int size = blockDim.x, stride = used | 1;
  i64 first = blockIdx.x * (i64)size;
  int rows = n - first < size ? (int)(n - first) : size;
  for (int i = threadIdx.x; i < rows * used; i += blockDim.x)
    x[(i / used) * stride + i % used] = X[(first + i / used) * width + features[i % used]];
  __syncthreads();
  if ((int)threadIdx.x >= rows) return;
  const Number* mine = x + threadIdx.x * stride;
  double score = 0.0;
  for (int tree = 0; tree < trees; tree++) {
    const TreeNode* root = tree_nodes + start[tree];
    const TreeNode* at = root;
    while (at->feature >= 0) {
      double value = (double)mine[at->feature];
      int right = value != value ? at->missing : value > at->number;
      at = root + (right ? at->right : at->left);
    }
    score += at->number;
  }
  scores[first + threadIdx.x] = score;
}

extern "C" __global__ void score_singles(i64 n, i64 width, const float* X, int used, const i64* features, int trees, const i64* start, const TreeNode* tree_nodes, double* scores) {
  score_rows(n, width, X, used, features, trees, start, tree_nodes, scores);
}

extern "C" __global__ void score_doubles(i64 n, i64 width, const double* X, int used, const i64* features, int trees, const i64* start, const TreeNode* tree_nodes, double* scores) {
  score_rows(n, width, X, used, features, trees, start, tree_nodes, scores);
}

// ============================================================================================
// Exponential losses and stumps
// ============================================================================================

// -- exponential losses, see risks/exponential.py ----------------------------------------------
//
// Levels are cut into chunks of rows (`pieces`), one warp each. Sums over a level are sums of integers.

// Floats as positive integers of the same order.
__device__ __forceinline__ u64 ordered(double x) {
  i64 bits = __double_as_longlong(x);
  return bits < 0 ? ~(u64)bits : (u64)bits | 0x8000000000000000ULL;
}

__device__ __forceinline__ double from_ordered(u64 code) {
  return __longlong_as_double((i64)(code >> 63 ? code ^ 0x8000000000000000ULL : ~code));
}

__device__ __forceinline__ double warp_max(double value) {
  for (int step = 16; step > 0; step >>= 1) {
    double other = __shfl_xor_sync(~0u, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// Maxima of -s and of power * s over each level, s = rate * score; with the logarithms of the weights
// added if `weighted`.
extern "C" __global__ void level_ends(int pieces, const i64* start, const i64* level, double rate, double power, int weighted, const double* scores, const double* log_weight, u64* ends) {
  int piece = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (piece >= pieces) return;
  double least = INFINITE, most = -INFINITE;
  for (i64 row = start[piece] + lane; row < start[piece + 1]; row += 32) {
    double margin = rate * scores[row];
    double low = weighted ? margin - log_weight[row] : margin;
    double high = weighted ? power * margin + log_weight[row] : margin;
    least = low < least ? low : least;
    most = high > most ? high : most;
  }
  double first = warp_max(-least), second = warp_max(most);
  if (!weighted) second = second * power;
  if (lane == 0) {
    atomicMax(&ends[2 * level[piece]], ordered(first));
    atomicMax(&ends[2 * level[piece] + 1], ordered(second));
  }
}

// Add a term as two integers, multiples of 2^-31 and of 2^-62; see `_sum_chunk_terms`.
__device__ __forceinline__ void add_term(double term, i64& high, i64& low) {
  double coarse = (term + 3145728.0) - 3145728.0;
  high += (i64)(coarse * 2147483648.0);
  low += (i64)((((term - coarse) + 0.00146484375) - 0.00146484375) * 4611686018427387904.0);
}

__device__ __forceinline__ void add_to_level(int lane, u64* words, i64 up_high, i64 up_low, i64 down_high, i64 down_low) {
  up_high = warp_sum(up_high);
  up_low = warp_sum(up_low);
  down_high = warp_sum(down_high);
  down_low = warp_sum(down_low);
  if (lane > 0) return;
  atomicAdd(&words[0], (u64)up_high);
  atomicAdd(&words[1], (u64)up_low);
  atomicAdd(&words[2], (u64)down_high);
  atomicAdd(&words[3], (u64)down_low);
}

// Terms of rows as winners and as losers, relative to the largest of their level, and their sums.
extern "C" __global__ void level_terms(int pieces, const i64* start, const i64* level, double rate, double power, int weighted, const double* scores, const double* log_weight, const u64* ends, i64 rows, double* terms, u64* words) {
  int piece = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (piece >= pieces) return;
  i64 own_level = level[piece];
  double low = -from_ordered(ends[2 * own_level]), high = from_ordered(ends[2 * own_level + 1]);
  bool plain = power == 1.0 && !weighted;
  double product = plain ? portable_exp(low - high) : 0.0;
  i64 words_of_terms[4] = {0, 0, 0, 0};
  for (i64 row = start[piece] + lane; row < start[piece + 1]; row += 32) {
    double margin = rate * scores[row];
    double up = -1.0 * margin - -low, down = power * margin - high;
    if (weighted) { up += log_weight[row]; down += log_weight[row]; }
    up = portable_exp(up);
    if (product > 1e-280) {
      down = product / up;
      down = down < 1.0 ? down : 1.0;
    } else down = portable_exp(down);
    terms[row] = up;
    terms[rows + row] = down;
    add_term(up, words_of_terms[0], words_of_terms[1]);
    add_term(down, words_of_terms[2], words_of_terms[3]);
  }
  add_to_level(lane, words + 4 * own_level, words_of_terms[0], words_of_terms[1], words_of_terms[2], words_of_terms[3]);
}

__device__ __forceinline__ double sum_of_level(const i64* words, i64 level, int column) {
  return (double)words[4 * level + column] * 4.656612873077393e-10 + (double)words[4 * level + column + 1] * 2.168404344971009e-19;
}

__device__ __forceinline__ double log_add(double a, double b) {
  if (a < b) { double c = a; a = b; b = c; }
  if (b == -INFINITE) return a;
  return a + portable_log1p(portable_exp(b - a));
}

// Gradient sums of the levels as shares of those of their query; a thread has a query. See
// `_fill_levels_of_queries`.
extern "C" __global__ void query_levels(int queries, const i64* query_start, const i64* words, const u64* codes, double power, const double* log_balance, i64 count, double* by_level, double* ends, double* log_query) {
  int query = blockIdx.x * blockDim.x + threadIdx.x;
  if (query >= queries) return;
  double *winner_sum = by_level, *loser_sum = by_level + count, *winner = by_level + 2 * count;
  double *loser = by_level + 3 * count, *carry = by_level + 4 * count, *fresh = by_level + 5 * count;
  i64 bottom = query_start[query], top = query_start[query + 1];
  double above = -INFINITE;
  for (i64 level = top - 1; level >= bottom; level--) {
    double low = -from_ordered(codes[2 * level]);
    ends[level] = low;
    ends[count + level] = from_ordered(codes[2 * level + 1]);
    winner_sum[level] = sum_of_level(words, level, 0);
    loser_sum[level] = sum_of_level(words, level, 2);
    double own = portable_log(winner_sum[level]) - low;
    winner[level] = own;
    loser[level] = above;
    above = log_add(above, own);
  }
  double below = -INFINITE, total = -INFINITE;
  carry[bottom] = 0.0;
  fresh[bottom] = 0.0;
  for (i64 level = bottom; level < top; level++) {
    double log_loser = portable_log(loser_sum[level]) + ends[count + level] + log_balance[level];
    above = loser[level];
    double own = winner[level] + below;
    winner[level] = own;
    loser[level] = power * above + log_loser;
    total = log_add(total, own);
    if (level < top - 1) {
      double sloped = log_loser;
      if (power != 1.0) sloped += (power - 1.0) * above;
      double grown = log_add(below, sloped);
      carry[level + 1] = portable_exp(below - grown);
      fresh[level + 1] = portable_exp(sloped - grown);
      below = grown;
    }
  }
  for (i64 level = bottom; level < top; level++) {
    winner[level] = portable_exp(winner[level] - total);
    loser[level] = portable_exp(loser[level] - total);
  }
  log_query[query] = total;
}

// Logarithm of a sum of exponentials, by one thread block; see `log_sum_exp` in engine/exact.py.
extern "C" __global__ void log_of_sum(int count, const double* logs, double* result) {
  __shared__ double tops[32];
  __shared__ i64 room[32];
  double most = -INFINITE;
  for (int i = threadIdx.x; i < count; i += blockDim.x) most = logs[i] > most ? logs[i] : most;
  most = warp_max(most);
  if ((threadIdx.x & 31) == 0) tops[threadIdx.x >> 5] = most;
  __syncthreads();
  for (int warp = 0; warp < (int)(blockDim.x + 31) / 32; warp++) most = tops[warp] > most ? tops[warp] : most;
  i64 high = 0, low = 0;
  if (most > -INFINITE && most < INFINITE)
    for (int i = threadIdx.x; i < count; i += blockDim.x) {  // halves are below 1, as the words require
      double scaled = portable_exp(logs[i] - most) * 0.5 * 2147483648.0;
      double whole = floor(scaled);
      high += (i64)whole;
      low += (i64)((scaled - whole) * 2147483648.0);
    }
  high = block_sum(high, room);
  low = block_sum(low, room);
  if (threadIdx.x > 0) return;
  double total = ((double)high / 2147483648.0 + (double)low / 4611686018427387904.0) * 2.0;
  *result = most > -INFINITE && most < INFINITE ? most + portable_log(total) : most;
}

// Scale the gradient sums of levels to shares of those of all queries.
extern "C" __global__ void scale_levels(i64 count, const i64* query, const double* log_query, const double* log_value, double* by_level) {
  for (i64 level = blockIdx.x * (i64)blockDim.x + threadIdx.x; level < count; level += gridDim.x * (i64)blockDim.x) {
    double share = portable_exp(log_query[query[level]] - *log_value);
    by_level[2 * count + level] = by_level[2 * count + level] * share;
    by_level[3 * count + level] = by_level[3 * count + level] * share;
  }
}

extern "C" __global__ void level_pulls(int pieces, const i64* start, const i64* level, i64 count, const double* by_level, i64 rows, const double* terms, double* pull) {
  int piece = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (piece >= pieces) return;
  i64 own_level = level[piece];
  double up = by_level[2 * count + own_level] / by_level[own_level];
  double down = by_level[3 * count + own_level] / by_level[count + own_level];
  for (i64 row = start[piece] + lane; row < start[piece + 1]; row += 32)
    pull[row] = terms[row] * up - terms[rows + row] * down;
}

// Terms of the second derivative of winners due to the curvature of the price; a thread has a query.
// `above` is working memory. See `_price_curvatures_of_queries`.
extern "C" __global__ void price_curvatures(int queries, const i64* query_start, i64 count, const double* by_level, const double* ends, double power, const double* log_balance, double log_value, double* above, double* curvature) {
  int query = blockIdx.x * blockDim.x + threadIdx.x;
  if (query >= queries) return;
  i64 bottom = query_start[query], top = query_start[query + 1];
  double sum = -INFINITE;
  for (i64 level = top - 1; level >= bottom; level--) {
    above[level] = sum;
    sum = log_add(sum, portable_log(by_level[level]) - ends[level]);
  }
  double below = -INFINITE;
  for (i64 level = bottom; level < top; level++) {
    double log_winner = portable_log(by_level[level]) - ends[level];
    curvature[level] = (power - 1.0) * portable_exp(2.0 * log_winner + below - log_value);
    if (level < top - 1) {
      double log_loser = portable_log(by_level[count + level]) + ends[count + level] + log_balance[level];
      below = log_add(below, log_loser + (power - 2.0) * above[level]);
    }
  }
}

extern "C" __global__ void level_hessians(int pieces, const i64* start, const i64* level, i64 count, const double* by_level, i64 rows, const double* terms, const double* curvature, double power, double rate, double* hessian) {
  int piece = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (piece >= pieces) return;
  i64 own_level = level[piece];
  double up = by_level[2 * count + own_level] / by_level[own_level];
  double down = by_level[3 * count + own_level] / by_level[count + own_level];
  double quadratic = curvature[own_level] / (by_level[own_level] * by_level[own_level]);
  for (i64 row = start[piece] + lane; row < start[piece + 1]; row += 32)
    hessian[row] = rate * (terms[row] * (up + quadratic * terms[row]) + power * down * terms[rows + row]);
}

// Sums of the terms of the rows where a weak ranker is 1.
extern "C" __global__ void split_levels(int pieces, const i64* start, const i64* level, i64 rows, const double* terms, const u8* values, u64* words) {
  int piece = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (piece >= pieces) return;
  i64 sums[4] = {0, 0, 0, 0};
  for (i64 row = start[piece] + lane; row < start[piece + 1]; row += 32)
    if (values[row]) {
      add_term(terms[row], sums[0], sums[1]);
      add_term(terms[rows + row], sums[2], sums[3]);
    }
  add_to_level(lane, words + 4 * level[piece], sums[0], sums[1], sums[2], sums[3]);
}

// Weights of the pairs that a weak ranker orders correctly and wrongly, for each query; see
// `_ordered_weights_of_queries`.
extern "C" __global__ void query_masses(int queries, const i64* query_start, const i64* ones, const i64* all, i64 count, const double* by_level, double* right, double* wrong) {
  int query = blockIdx.x * blockDim.x + threadIdx.x;
  if (query >= queries) return;
  i64 bottom = query_start[query], top = query_start[query + 1];
  double low_zero = 0.0, low_one = 0.0, in_order = 0.0, reversed = 0.0;
  double one_before = 0.0, zero_before = 0.0;
  for (i64 level = bottom; level < top; level++) {
    i64 rest[4];
    for (int j = 0; j < 4; j++) rest[j] = all[4 * level + j] - ones[4 * level + j];
    if (level > bottom) {
      double carry = by_level[4 * count + level], fresh = by_level[5 * count + level];
      low_one = carry * low_one + fresh * one_before / (one_before + zero_before);
      low_zero = carry * low_zero + fresh * zero_before / (one_before + zero_before);
    }
    double one = sum_of_level(ones, level, 0), zero = sum_of_level(rest, 0, 0);
    double mass = by_level[2 * count + level];
    in_order += mass * one / (one + zero) * low_zero;
    reversed += mass * zero / (one + zero) * low_one;
    one_before = sum_of_level(ones, level, 2);
    zero_before = sum_of_level(rest, 0, 2);
  }
  right[query] = in_order;
  wrong[query] = reversed;
}

extern "C" __global__ void advance_by_bytes(i64 n, double* scores, const u8* values, double weight) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x)
    scores[i] = scores[i] + weight * (double)values[i];
}

// -- stumps, see weak_rankers/stumps.py and engine/histograms.py ----------------------------

// Most rows between two carries: sums of that many words of 20 bits, plus a remainder, stay below 2^32.
#define CARRY_ROWS 4000

// Sums of the pulls, in units of 2^-61, over the bins of 32 features (y); a thread block of 512 threads
// has `size` rows (x). Shared memory has fast atomic additions of 32 bits only, so that a sum is stored as
// three words, of 20, 20 and 32 bits.
extern "C" __global__ void stump_fill(i64 n, i64 size, int width, int features, const u8* codes, const double* pull, u64* sums) {
  extern __shared__ u32 first[];
  u32 *second = first + 32 * STRIDE, *third = second + 32 * STRIDE;
  i64 begin = blockIdx.x * size, end = begin + size < n ? begin + size : n;
  int word = threadIdx.x & 7, row0 = threadIdx.x >> 3, step = blockDim.x >> 3;
  int at = word * 4 * STRIDE;
  bool used = 32 * (int)blockIdx.y + 4 * word < features;
  const u8* group = codes + 32 * blockIdx.y + 4 * word;
  for (int j = threadIdx.x; j < 3 * 32 * STRIDE; j += blockDim.x) first[j] = 0;
  __syncthreads();
  for (i64 low = begin; low < end; low += CARRY_ROWS) {
    i64 high = low + CARRY_ROWS < end ? low + CARRY_ROWS : end;
    if (used) {
#pragma unroll 4
      for (i64 row = low + row0; row < high; row += step) {
        i64 number = (i64)rint(pull[row] * 2305843009213693952.0);
        u32 four = *(const u32*)(group + row * width);
        u32 one = (u32)number & 0xFFFFF, two = (u32)(number >> 20) & 0xFFFFF, three = (u32)(number >> 40);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int bin = at + j * STRIDE + ((four >> (8 * j)) & 255);
          atomicAdd(first + bin, one);
          atomicAdd(second + bin, two);
          atomicAdd(third + bin, three);
        }
      }
    }
    __syncthreads();
    if (high == end) break;
    for (int bin = threadIdx.x; bin < 32 * STRIDE; bin += blockDim.x) {
      u32 more = second[bin] + (first[bin] >> 20);
      first[bin] &= 0xFFFFF;
      second[bin] = more & 0xFFFFF;
      third[bin] += more >> 20;
    }
    __syncthreads();
  }
  u64* out = sums + 32 * 256 * (i64)blockIdx.y;
  for (int j = threadIdx.x; j < 32 * 256; j += blockDim.x) {
    int bin = (j >> 8) * STRIDE + (j & 255);
    u64 sum = ((u64)third[bin] << 40) + ((u64)second[bin] << 20) + first[bin];
    if (sum != 0) atomicAdd(&out[j], sum);
  }
}

__device__ __forceinline__ i64 least_tied(i64 most) { return most - (most >> 40) - 256; }

// Maximum over a thread block of 256 threads, in all of them.
__device__ __forceinline__ i64 block_max_integer(i64 value, i64* room) {
  for (int step = 16; step > 0; step >>= 1) {
    i64 other = __shfl_xor_sync(~0u, value, step);
    value = other > value ? other : value;
  }
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = value;
  __syncthreads();
  for (int j = 0; j < 8; j++) value = room[j] > value ? room[j] : value;
  __syncthreads();
  return value;
}

// Signed edge, first code above the threshold and side of missing values of the best stump of a feature,
// by 256 threads; see `_find_cut` in engine/histograms.py. Edges must have the sign `sign`, 0 for
// either.
__device__ void find_cut(const u64* sums, int bins, int missing, int sign, i64 least, i64* best) {
  __shared__ i64 room[16];
  __shared__ i64 total;
  __shared__ int chosen;
  int code = threadIdx.x, factor = sign ? sign : 1;
  i64 own = code < bins ? factor * (i64)__ldcg(&sums[code]) : 0, up_to = own, unused = 0;
  i64 lost = factor * (i64)__ldcg(&sums[255]);
  prefix_sums(up_to, unused, room);
  if (code == 255) { total = up_to; chosen = 1 << 20; }
  __syncthreads();
  i64 edge = total - (up_to - own), other = edge + lost;
  i64 size = sign || edge > 0 ? edge : -edge, other_size = sign || other > 0 ? other : -other;
  // With a threshold of `bins` only missing values are above it.
  bool below = code < bins && (code > 0 || missing), above = code < bins + (sign != 0) && code > 0 && missing;
  i64 most = below && size > 0 ? size : 0;
  if (above && other_size > most) most = other_size;
  most = block_max_integer(most, room);
  if (least < 0) least = least_tied(most);
  if (sign && least < 1) least = 1;
  if (below && size >= least) atomicMin(&chosen, 2 * code);
  else if (above && other_size >= least) atomicMin(&chosen, 2 * code + 1);
  __syncthreads();
  if (chosen == 1 << 20) {
    if (code == 0) { best[0] = 0; best[1] = 0; best[2] = 0; }
  } else if (chosen >> 1 == code) {
    best[0] = factor * (chosen & 1 ? other : edge);
    best[1] = code;
    best[2] = chosen & 1;
  }
}

// The best stump. A thread block of 256 threads has a feature; the last one to finish compares them.
// `answer`: feature (-1 if there is none), edge, first code above the threshold, side of missing values.
extern "C" __global__ void stump_search(int features, const i64* n_bins, const u8* missing, const signed char* signs, const u8* allowed, const u64* sums, i64* best, u64* searched, i64* answer) {
  __shared__ int last, winner;
  __shared__ i64 room[16];
  int feature = blockIdx.x;
  if (allowed[feature])
    find_cut(sums + 256 * feature, (int)n_bins[feature], missing[feature], signs[feature], -1, best + 3 * feature);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) { last = atomicAdd(searched, 1ULL) == gridDim.x - 1; winner = features; }
  __syncthreads();
  if (!last) return;
  __threadfence();
  i64 most = 0;
  for (int j = threadIdx.x; j < features; j += blockDim.x)
    if (allowed[j]) {
      i64 edge = __ldcg(&best[3 * j]);
      edge = edge < 0 ? -edge : edge;
      most = edge > most ? edge : most;
    }
  most = block_max_integer(most, room);
  i64 least = least_tied(most);
  for (int j = threadIdx.x; j < features; j += blockDim.x)
    if (allowed[j]) {
      i64 edge = __ldcg(&best[3 * j]);
      if ((edge < 0 ? -edge : edge) >= least) { atomicMin(&winner, j); break; }
    }
  __syncthreads();
  if (most <= 0) {
    if (threadIdx.x == 0) { answer[0] = -1; answer[1] = 0; answer[2] = 0; answer[3] = 0; }
    return;
  }
  i64 edge = __ldcg(&best[3 * winner]);
  if ((edge < 0 ? -edge : edge) < most)  // it ties with the best: take its first stump that does
    find_cut(sums + 256 * winner, (int)n_bins[winner], missing[winner], signs[winner], least, best + 3 * winner);
  __threadfence_block();
  __syncthreads();
  if (threadIdx.x == 0) {
    answer[0] = winner;
    for (int j = 0; j < 3; j++) answer[1 + j] = __ldcg(&best[3 * winner + j]);
  }
}

// Values of the stump that `stump_search` found.
extern "C" __global__ void stump_values(i64 n, int width, const u8* codes, const i64* answer, u8* values) {
  i64 feature = answer[0], first = answer[2];
  u8 missing = (u8)answer[3];
  if (feature < 0) return;
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    u8 code = codes[row * width + feature];
    values[row] = code == 255 ? missing : code >= first;
  }
}

// -- pairs of features, see engine/histograms.py ---------------------------------

// Sums of words over the cells of the three pairs of each triple (y) of features; a thread block has
// `size` rows (x). The halves of a word, pull and weight, are summed separately modulo 2^32, which is
// exact because no sum overflows.
extern "C" __global__ void triple_fill(i64 n, i64 size, int features, const u8* codes, const i64* triples, const i64* words, u64* sums) {
  __shared__ u32 pulls[4096], weights[4096];
  const i64* triple = triples + 3 * blockIdx.y;
  const u8 *a = codes + triple[0] * n, *b = codes + triple[1] * n;
  bool three = triple[2] < features;
  const u8* c = codes + (three ? triple[2] : 0) * n;
  for (int j = threadIdx.x; j < 4096; j += blockDim.x) { pulls[j] = 0; weights[j] = 0; }
  __syncthreads();
  i64 begin = blockIdx.x * size, end = begin + size < n ? begin + size : n;
#pragma unroll 4
  for (i64 row = begin + threadIdx.x; row < end; row += blockDim.x) {
    i64 word = words[row];
    int cell = a[row] << 8 | b[row] << 4 | (three ? c[row] : 0);
    atomicAdd(&pulls[cell], (u32)(word >> 32));
    atomicAdd(&weights[cell], (u32)word);
  }
  __syncthreads();
  u64* out = sums + 768 * (i64)blockIdx.y;
  for (int j = threadIdx.x; j < 768; j += blockDim.x) {
    int pair = j >> 8, one = j >> 4 & 15, other = j & 15;
    int at = pair == 0 ? one << 8 | other << 4 : pair == 1 ? one << 8 | other : one << 4 | other;
    int step = pair == 0 ? 1 : pair == 1 ? 16 : 256;
    u32 pull = 0, weight = 0;
    for (int k = 0; k < 16; k++) { pull += pulls[at + k * step]; weight += weights[at + k * step]; }
    u64 sum = ((u64)pull << 32) + weight;
    if (sum != 0) atomicAdd(&out[j], sum);
  }
}

// -- one weight for every pair, see risks/pair_weights.py --------------------------------------
//
// A thread block has a chunk of the winners of a query (`pieces`), 32 winners and 64 losers at a time.
// Sums are taken in the order of the CPU. Weights are stored, or recomputed from the factors of all
// rounds: `table` has four factors for each round, by the values of winner and loser, and `bits` has
// these values.

#define WINNERS 32
#define LOSERS 64

__device__ __forceinline__ double recomputed_weight(double weight, int rounds, const double* table, const u64* bits, i64 n, i64 winner, i64 loser) {
  for (int word = 0; 64 * word < rounds; word++) {
    u64 up = bits[word * n + winner], down = bits[word * n + loser];
    int last = rounds - 64 * word < 64 ? rounds - 64 * word : 64;
    for (int s = 0; s < last; s++)
      weight *= __ldg(&table[4 * (64 * word + s) + 2 * (int)(up >> s & 1) + (int)(down >> s & 1)]);
  }
  return weight;
}

// Multiply the weights of a chunk and sum them by row (also over losers of value 1 only) and by column.
// `kept`: whether weights are read (bit 0) and written (bit 1); they are recomputed if not read.
extern "C" __global__ void plus_advance(const i64* order, const i64* pieces, const i64* column_start, const i64* count, const i64* start, const u8* values, double tied, double wrong, double right, int kept, double* weights, int rounds, const double* table, const u64* bits, i64 n, const double* weight, const double* loser_weight, double share, double* row_sums, double* row_ones, double* columns) {
  __shared__ double tile[WINNERS][LOSERS + 1], ones[LOSERS], strands[8][WINNERS];
  i64 piece = order[blockIdx.x];
  i64 bottom = pieces[4 * piece], begin = pieces[4 * piece + 1], end = pieces[4 * piece + 2];
  double* column = columns + column_start[piece];
  int mine = threadIdx.x & 31, part = threadIdx.x >> 5, strand = part & 3;
  i64 before = 0;
  for (i64 first = begin; first < end; first += WINNERS) {
    i64 item = first + mine, losers = item < end ? count[item] : 0, whole = losers - losers % 4;
    i64 most = count[(first + WINNERS < end ? first + WINNERS : end) - 1];
    double sum = 0.0;
    for (i64 low = 0; low < most; low += LOSERS) {
      for (int j = threadIdx.x; j < WINNERS * LOSERS; j += blockDim.x) {
        int r = j / LOSERS, c = j % LOSERS;
        i64 winner = first + r, k = low + c;
        double w = 0.0;
        if (winner < end && k < count[winner]) {
          i64 at = start[winner] + k;
          if (kept & 1) {
            u8 above = values[winner], below = values[bottom + k];
            w = weights[at] * (above == below ? tied : above ? right : wrong);
          } else w = recomputed_weight(weight[winner] * loser_weight[bottom + k] * share, rounds, table, bits, n, winner, bottom + k);
          if (kept & 2) weights[at] = w;
        }
        tile[r][c] = w;
      }
      if (threadIdx.x < LOSERS) ones[threadIdx.x] = low + threadIdx.x < most ? (double)values[bottom + low + threadIdx.x] : 0.0;
      __syncthreads();
      for (int c = strand; c < LOSERS && low + c < whole; c += 4)
        sum += part < 4 ? tile[mine][c] : tile[mine][c] * ones[c];
      if (strand == 0 && whole >= low && whole < low + LOSERS)
        for (int c = (int)(whole - low); low + c < losers; c++)
          sum += part < 4 ? tile[mine][c] : tile[mine][c] * ones[c];
      if (threadIdx.x < LOSERS && low + threadIdx.x < most) {
        i64 k = low + threadIdx.x;
        double total = k < before ? column[k] : 0.0;
        for (int r = 0; r < WINNERS; r++) total += tile[r][threadIdx.x];
        column[k] = total;
      }
      __syncthreads();
    }
    strands[part][mine] = sum;
    __syncthreads();
    if (part == 0 && item < end) {
      row_sums[item] = (strands[0][mine] + strands[1][mine]) + (strands[2][mine] + strands[3][mine]);
      row_ones[item] = (strands[4][mine] + strands[5][mine]) + (strands[6][mine] + strands[7][mine]);
    }
    __syncthreads();
    before = most;
  }
}

// Total weight of the pairs of each chunk (one thread), and of those that the weak ranker ties.
extern "C" __global__ void plus_masses(int pieces_count, const i64* pieces, const u8* values, const double* row_sums, const double* row_ones, double* masses, double* ties) {
  int piece = blockIdx.x * blockDim.x + threadIdx.x;
  if (piece >= pieces_count) return;
  double mass = 0.0, tied = 0.0;
  for (i64 item = pieces[4 * piece + 1]; item < pieces[4 * piece + 2]; item++) {
    mass += row_sums[item];
    tied += values[item] == 1 ? row_ones[item] : row_sums[item] - row_ones[item];
  }
  masses[piece] = mass;
  ties[piece] = tied;
}

// Pulls: row sums minus column sums, divided by the total weight. Columns of the chunks of a query are
// added in their order.
extern "C" __global__ void plus_pull(i64 n, const i64* query, const i64* first_piece, const i64* pieces, const i64* column_start, const double* columns, const double* row_sums, double mass, double* pull) {
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    double lost = 0.0;
    for (i64 piece = first_piece[query[row]]; piece < first_piece[query[row] + 1]; piece++) {
      i64 at = column_start[piece] + row - pieces[4 * piece];
      if (at < column_start[piece + 1]) lost += columns[at];
    }
    pull[row] = (row_sums[row] - lost) / mass + 0.0;
  }
}

// Store the value of a weak ranker in bit `place` of the bits of each row.
extern "C" __global__ void plus_remember(i64 n, int place, const u8* values, u64* bits) {
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    u64 others = place ? bits[row] & ~(1ULL << place) : 0;
    bits[row] = others | (u64)values[row] << place;
  }
}

// Weights of the pairs that each of eight weak rankers ties, by winner, by 288 threads. The low eight
// bits of `eight` are the values of the weak rankers.
extern "C" __global__ void plus_ties(const i64* order, const i64* pieces, const i64* count, const i64* start, const u64* eight, int kept, const double* weights, int rounds, const double* table, const u64* bits, i64 n, const double* weight, const double* loser_weight, double share, double* by_winner) {
  __shared__ double tile[WINNERS][LOSERS + 1], chains[9][WINNERS];
  __shared__ u32 ones[LOSERS];
  i64 piece = order[blockIdx.x];
  i64 bottom = pieces[4 * piece], begin = pieces[4 * piece + 1], end = pieces[4 * piece + 2];
  int mine = threadIdx.x & 31, part = threadIdx.x >> 5;
  for (i64 first = begin; first < end; first += WINNERS) {
    i64 item = first + mine, losers = item < end ? count[item] : 0;
    i64 most = count[(first + WINNERS < end ? first + WINNERS : end) - 1];
    double sum = 0.0;
    for (i64 low = 0; low < most; low += LOSERS) {
      for (int j = threadIdx.x; j < WINNERS * LOSERS; j += blockDim.x) {
        int r = j / LOSERS, c = j % LOSERS;
        i64 winner = first + r, k = low + c;
        double w = 0.0;
        if (winner < end && k < count[winner]) {
          if (kept) w = weights[start[winner] + k];
          else w = recomputed_weight(weight[winner] * loser_weight[bottom + k] * share, rounds, table, bits, n, winner, bottom + k);
        }
        tile[r][c] = w;
      }
      if (threadIdx.x < LOSERS) ones[threadIdx.x] = low + threadIdx.x < most ? (u32)eight[bottom + low + threadIdx.x] | 256u : 256u;
      __syncthreads();
      for (int c = 0; c < LOSERS && low + c < losers; c++)
        if (ones[c] >> part & 1) sum += tile[mine][c];
      __syncthreads();
    }
    chains[part][mine] = sum;
    __syncthreads();
    if (part < 8 && item < end) {
      double value = (double)(eight[item] >> part & 1), above = chains[part][mine];
      by_winner[part * n + item] = value * above + (1.0 - value) * (chains[8][mine] - above);
    }
    __syncthreads();
  }
}

// Sums of `plus_ties` over the winners of each chunk (x) in order, for each weak ranker (y).
extern "C" __global__ void plus_tied(int pieces_count, const i64* pieces, i64 n, const double* by_winner, double* sums) {
  int piece = blockIdx.x * blockDim.x + threadIdx.x;
  if (piece >= pieces_count) return;
  double tied = 0.0;
  for (i64 item = pieces[4 * piece + 1]; item < pieces[4 * piece + 2]; item++) tied += by_winner[blockIdx.y * n + item];
  sums[blockIdx.y * (i64)pieces_count + piece] = tied;
}

// Coordinates of a weak ranker, see `_sketch` in weak_rankers/candidates.py; a thread block sums them in
// shared memory if there are `few`.
extern "C" __global__ void sketch(i64 n, const u8* values, const i64* reference, int width, int few, u64* coordinates) {
  extern __shared__ u64 own_coordinates[];
  u64* sums = few ? own_coordinates : coordinates;
  if (few)
    for (int k = threadIdx.x; k < width; k += blockDim.x) sums[k] = 0;
  __syncthreads();
  for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < n; row += gridDim.x * (i64)blockDim.x) {
    int value = (int)values[row] - (int)values[reference[row]];
    if (value == 0) continue;
    for (int j = 0; j < 8; j++) {
      u64 z = (u64)(8 * row + j) * 0x9E3779B97F4A7C15ULL + 0x632BE59BD9B4E019ULL;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
      z = z ^ (z >> 31);
      atomicAdd(&sums[(u32)(z >> 32) % (u32)width], (u64)((i64)value * (i64)(z & 0x7FFFFFFF)));
    }
  }
  __syncthreads();
  if (few)
    for (int k = threadIdx.x; k < width; k += blockDim.x)
      if (sums[k]) atomicAdd(&coordinates[k], sums[k]);
}
