// Kernels of `precede.engine.cuda`. Results have the same bits as on the CPU: the kernels are compiled
// with -fmad=false, floating-point operations are done in the order of the CPU, and sums over queries are
// sums of integers.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

#define HIGH 2147483648.0  // 2^31, see engine/exact.py
#define LOW 4611686018427387904.0  // 2^62
#define QUIET_NAN __longlong_as_double(0x7FF8000000000000LL)
#define INFINITE __longlong_as_double(0x7FF0000000000000LL)

// Loop over 0, ..., n - 1, divided among all threads of a launch.
#define GRID_STRIDE_LOOP(i, n) \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (i64)blockDim.x)

// -- exponentials and logarithms, see engine/portable.py --------------------------------------

__device__ __forceinline__ double portable_exp(double x) {
  double clipped = x < 710.0 ? x : 710.0;
  clipped = clipped > -746.0 ? clipped : -746.0;
  double shifted = clipped * 1.4426950408889634 + 6755399441055744.0;
  double k = shifted - 6755399441055744.0;
  i64 exponent = __double_as_longlong(shifted) - 0x4338000000000000LL;
  double high = clipped - k * 0.6931471803691238, low = k * 1.9082149292705877e-10;
  double r = high - low;
  double rounding = (high - r) - low;
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
  double value = 1.0 + (r + (rounding + r * r * p));
  i64 half = exponent >> 1;
  double one = __longlong_as_double((half + 1023) << 52);
  double other = __longlong_as_double((exponent - half + 1023) << 52);
  return x == x ? value * one * other : x;
}

__device__ __forceinline__ double log_from_parts(double f, i64 e, double correction) {
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
  double small = s * (square + z * p) + ((double)e * 1.9082149292705877e-10 + correction);
  return (double)e * 0.6931471803691238 - ((square - small) - f);
}

__device__ __forceinline__ double log_of_bits(i64 bits, i64 shift, double correction) {
  i64 e = (bits >> 52) - 1023 - shift;
  double m = __longlong_as_double((bits & 0xFFFFFFFFFFFFFLL) | 0x3FF0000000000000LL);
  if (m > 1.4142135623730951) { m = 0.5 * m; e += 1; }
  return log_from_parts(m - 1.0, e, correction);
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
  if (-0.2928932188134524 < x && x < 0.41421356237309503) return log_from_parts(x, 0, 0.0);
  double total = 1.0 + x;
  double error = x > 1.0 ? 1.0 - (total - x) : x - (total - 1.0);
  return log_of_bits(__double_as_longlong(total), 0, error / total);
}

extern "C" __global__ void portable_functions(i64 n, int which, const double* x, double* out) {
  GRID_STRIDE_LOOP(i, n)
    out[i] = which == 0 ? portable_exp(x[i]) : which == 1 ? portable_log(x[i]) : portable_log1p(x[i]);
}

// -- sums, see engine/exact.py ---------------------------------------------------------------

__device__ __forceinline__ i64 warp_sum(i64 value) {
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

template <typename Number>
__device__ __forceinline__ Number warp_max(Number value) {
  for (int step = 16; step > 0; step >>= 1) {
    Number other = __shfl_xor_sync(~0u, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// Map floats to integers of the same order; negative floats come below 2^63.
__device__ __forceinline__ u64 ordered_bits(double x) {
  u64 bits = (u64)__double_as_longlong(x);
  return bits >> 63 ? ~bits : bits | 0x8000000000000000ULL;
}

__device__ __forceinline__ double from_ordered_bits(u64 bits) {
  return __longlong_as_double((i64)(bits >> 63 ? bits ^ 0x8000000000000000ULL : ~bits));
}

// Sum over a thread block, valid in thread 0. `partials` is shared memory for 32 numbers.
__device__ __forceinline__ i64 block_sum(i64 value, i64* partials) {
  value = warp_sum(value);
  if ((threadIdx.x & 31) == 0) partials[threadIdx.x >> 5] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < (blockDim.x + 31) / 32 ? partials[threadIdx.x] : 0;
    value = warp_sum(value);
  }
  __syncthreads();
  return value;
}

// Maximum over a thread block of 256 threads, in all of them. `partials` is shared memory for 8 numbers.
template <typename Number>
__device__ __forceinline__ Number block_max(Number value, Number* partials) {
  value = warp_max(value);
  if ((threadIdx.x & 31) == 0) partials[threadIdx.x >> 5] = value;
  __syncthreads();
  for (int warp = 0; warp < 8; warp++) value = partials[warp] > value ? partials[warp] : value;
  __syncthreads();
  return value;
}

// Add a number, given in multiples of 2^-31, to the high and the low word of a sum; see engine/exact.py.
__device__ __forceinline__ void add_fixed_point(double scaled, i64& high, i64& low) {
  double whole = floor(scaled);
  high += (i64)whole;
  low += (i64)((scaled - whole) * HIGH);
}

// `sums` has three words for each of two arrays (blockIdx.y). This kernel sets the first: the bits of the
// largest absolute value, which as integers have the order of the floats.
extern "C" __global__ void largest_absolute(i64 n, const double* first, const double* second, u64* sums) {
  __shared__ u64 block_largest;
  const double* values = blockIdx.y ? second : first;
  if (threadIdx.x == 0) block_largest = 0;
  __syncthreads();
  u64 thread_largest = 0;
  GRID_STRIDE_LOOP(i, n) {
    u64 bits = (u64)__double_as_longlong(fabs(values[i]));
    thread_largest = bits > thread_largest ? bits : thread_largest;
  }
  thread_largest = warp_max(thread_largest);
  if ((threadIdx.x & 31) == 0) atomicMax(&block_largest, thread_largest);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(sums + 3 * blockIdx.y, block_largest);
}

// Set the other two: the high and the low word of the sum, relative to a power of two above the largest
// value. If `absolute`, the absolute values of the first array are summed.
extern "C" __global__ void fixed_point_sums(i64 n, int absolute, const double* first, const double* second, u64* sums) {
  __shared__ i64 partials[32];
  const double* values = blockIdx.y ? second : first;
  bool take_absolute = absolute && blockIdx.y == 0;
  u64* words = sums + 3 * blockIdx.y;
  double largest = __longlong_as_double((i64)words[0]);
  if (!(largest > 0.0 && largest < INFINITE)) return;
  int exponent;
  frexp(largest, &exponent);
  int half = exponent >> 1;
  double power = ldexp(1.0, -half), other_power = ldexp(1.0, half - exponent);
  i64 high = 0, low = 0;
  GRID_STRIDE_LOOP(i, n) {
    double value = take_absolute ? fabs(values[i]) : values[i];
    add_fixed_point(value * power * other_power * HIGH, high, low);
  }
  high = block_sum(high, partials);
  low = block_sum(low, partials);
  if (threadIdx.x == 0) { atomicAdd(&words[1], (u64)high); atomicAdd(&words[2], (u64)low); }
}

extern "C" __global__ void advance(i64 n, double* scores, const double* values, double weight) {
  GRID_STRIDE_LOOP(i, n)
    scores[i] = scores[i] + weight * values[i];
}

extern "C" __global__ void divide(i64 n, double divisor, double* first, double* second) {
  GRID_STRIDE_LOOP(i, n) {
    first[i] = first[i] / divisor;
    second[i] = second[i] / divisor;
  }
}

// -- pairs of level ranges, see risks/by_pair.py ------------------------------------------------
//
// A thread block has one level range. The thread of a loser loops over the winners above it, the thread
// of a winner over the losers below it, both in the order of the CPU. Sums over rows are taken in order,
// by one thread.

struct LevelRange {
  i64 first_level, end_level, first_row;
  int n_rows;
  const i64* level_start;
  const double *weight, *loser_weights;
};

__device__ __forceinline__ void find_extremes(const double* scores, int size, double* partials, double& lowest, double& highest) {
  lowest = INFINITE;
  highest = -INFINITE;
  for (int k = threadIdx.x; k < size; k += blockDim.x) {
    double s = scores[k];
    lowest = s < lowest ? s : lowest;
    highest = s > highest ? s : highest;
  }
  for (int step = 16; step > 0; step >>= 1) {
    double a = __shfl_xor_sync(~0u, lowest, step), b = __shfl_xor_sync(~0u, highest, step);
    lowest = a < lowest ? a : lowest;
    highest = b > highest ? b : highest;
  }
  if ((threadIdx.x & 31) == 0) { partials[threadIdx.x >> 5] = lowest; partials[32 + (threadIdx.x >> 5)] = highest; }
  __syncthreads();
  for (int warp = 0; warp < (blockDim.x + 31) / 32; warp++) {
    lowest = partials[warp] < lowest ? partials[warp] : lowest;
    highest = partials[32 + warp] > highest ? partials[32 + warp] : highest;
  }
  __syncthreads();
}

// Level of a row, searched from a level at or below it.
__device__ __forceinline__ i64 level_of(const i64* level_start, i64 level, i64 row) {
  while (level_start[level + 1] <= row) level++;
  return level;
}

struct TwoWinners { double slope, second_slope, curvature, second_curvature, odds_product; };

__device__ __forceinline__ TwoWinners two_winners(double exp_score, double first_inverse, double second_inverse) {
  double first_wrong = exp_score * first_inverse, second_wrong = exp_score * second_inverse;
  double first_odds = 1.0 + first_wrong, second_odds = 1.0 + second_wrong;
  double odds_product = first_odds * second_odds;
  double inverse = 1.0 / odds_product;
  double first_right = inverse * second_odds, second_right = inverse * first_odds;
  first_wrong = first_wrong * first_right;
  second_wrong = second_wrong * second_right;
  return {first_wrong, second_wrong, first_wrong * first_right, second_wrong * second_right, odds_product};
}

// Return the sum of weight * log(product) over the rows in order, and reset the products to 1.
__device__ double flush_logarithms(const LevelRange& range, double* product) {
  __shared__ double result;
  __syncthreads();
  for (int k = threadIdx.x; k < range.n_rows; k += blockDim.x)
    product[k] = product[k] != 1.0 ? range.loser_weights[k] * portable_log(product[k]) : 0.0;
  __syncthreads();
  if (threadIdx.x == 0) {
    double total = 0.0;
    for (int k = 0; k < range.n_rows; k++) total += product[k];
    result = total;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < range.n_rows; k += blockDim.x) product[k] = 1.0;
  return result;
}

// Sum slope and curvature of each loser over its winners, two winners at a time; return the value. Each
// entry of `winners` is 2 * row + whether the next row is a winner of the same step. Logarithms are taken
// of products of as many factors as cannot overflow. See `_narrow_logistic_pairs`.
__device__ double add_narrow_pairs(const LevelRange& range, double score_range, const double* exp_scores, double* loser_slope, double* loser_curvature, double* product, int* winners, int& n_winners) {
  int max_factors = (int)(690.0 / (score_range + 0.7)) - 1;
  int n_factors = 0;
  double value = 0.0;
  n_winners = 0;
  for (i64 level = range.first_level + 1; level < range.end_level; level++) {
    int n_losers = (int)(range.level_start[level] - range.first_row);
    i64 row = range.level_start[level], end_row = range.level_start[level + 1];
    while (row < end_row) {
      double winner_weight = range.weight[row];
      if (n_factors >= max_factors || (n_factors > 0 && winner_weight != range.weight[row - 1])) {
        value += range.weight[row - 1] * flush_logarithms(range, product);
        n_factors = 0;
      }
      int has_second = row + 1 < end_row && range.weight[row + 1] == winner_weight;
      double first_inverse = 1.0 / exp_scores[row - range.first_row];
      double second_inverse = 1.0 / (has_second ? exp_scores[row + 1 - range.first_row] : INFINITE);
      for (int k = threadIdx.x; k < n_losers; k += blockDim.x) {
        TwoWinners terms = two_winners(exp_scores[k], first_inverse, second_inverse);
        product[k] *= terms.odds_product;
        loser_slope[k] += winner_weight * (terms.slope + terms.second_slope);
        loser_curvature[k] += winner_weight * (terms.curvature + terms.second_curvature);
      }
      if (threadIdx.x == 0) winners[n_winners] = 2 * (int)(row - range.first_row) + has_second;
      n_winners++;
      row += 1 + has_second;
      n_factors += 1 + has_second;
    }
  }
  return value + range.weight[range.first_row + range.n_rows - 1] * flush_logarithms(range, product);
}

// Add pull and Hessian of the winners.
__device__ void add_winner_gradients(const LevelRange& range, const double* exp_scores, const int* winners, int n_winners, double* pull, double* hessian) {
  i64 level = range.first_level + 1;
  for (int index = threadIdx.x; index < n_winners; index += blockDim.x) {
    int first = winners[index] >> 1, has_second = winners[index] & 1;
    i64 row = range.first_row + first;
    level = level_of(range.level_start, level, row);
    int n_losers = (int)(range.level_start[level] - range.first_row);
    double first_inverse = 1.0 / exp_scores[first], second_inverse = 1.0 / (has_second ? exp_scores[first + 1] : INFINITE);
    double slope = 0.0, curvature = 0.0, second_slope = 0.0, second_curvature = 0.0;
    for (int k = 0; k < n_losers; k++) {
      TwoWinners terms = two_winners(exp_scores[k], first_inverse, second_inverse);
      double loser_weight = range.loser_weights[k];
      slope += loser_weight * terms.slope;
      curvature += loser_weight * terms.curvature;
      second_slope += loser_weight * terms.second_slope;
      second_curvature += loser_weight * terms.second_curvature;
    }
    double winner_weight = range.weight[row];
    pull[row] += winner_weight * slope;
    hessian[row] += winner_weight * curvature;
    if (has_second) { pull[row + 1] += winner_weight * second_slope; hessian[row + 1] += winner_weight * second_curvature; }
  }
}

// Add pull and Hessian of the losers. Returns the sum of their slopes, in the order of the rows, in
// thread 0.
__device__ double add_loser_gradients(const LevelRange& range, double* loser_slope, const double* loser_curvature, double* pull, double* hessian) {
  __syncthreads();
  for (int k = threadIdx.x; k < range.n_rows; k += blockDim.x) {
    double slope = range.loser_weights[k] * loser_slope[k];
    loser_slope[k] = slope;
    pull[range.first_row + k] -= slope;
    hessian[range.first_row + k] += range.loser_weights[k] * loser_curvature[k];
  }
  __syncthreads();
  double gradient_sum = 0.0;
  if (threadIdx.x == 0)
    for (int k = 0; k < range.n_rows; k++) gradient_sum += loser_slope[k];
  return gradient_sum;
}

// Return the value of a range whose margins are so large that 1 + exp(-margin) would lose digits, in
// thread 0. `losses` is working memory. See `_small_logistic_losses`.
__device__ double small_losses(const LevelRange& range, const double* exp_scores, double* losses) {
  for (int winner = threadIdx.x; winner < range.n_rows; winner += blockDim.x) {
    i64 level = level_of(range.level_start, range.first_level, range.first_row + winner);
    double loss = 0.0;
    if (level > range.first_level)
      for (int k = 0; k < (int)(range.level_start[level] - range.first_row); k++)
        loss += range.loser_weights[k] * portable_log1p(exp_scores[k] / exp_scores[winner]);
    losses[winner] = loss;
  }
  __syncthreads();
  double value = 0.0;
  if (threadIdx.x == 0)
    for (int k = (int)(range.level_start[range.first_level + 1] - range.first_row); k < range.n_rows; k++)
      value += range.weight[range.first_row + k] * losses[k];
  return value;
}

__device__ __forceinline__ LevelRange level_range_of(const i64* level_ranges, const i64* level_start, const double* weight, const double* loser_weight) {
  LevelRange range;
  range.first_level = level_ranges[2 * blockIdx.x];
  range.end_level = level_ranges[2 * blockIdx.x + 1];
  range.first_row = level_start[range.first_level];
  range.n_rows = (int)(level_start[range.end_level] - range.first_row);
  range.level_start = level_start;
  range.weight = weight;
  range.loser_weights = loser_weight + range.first_row;
  return range;
}

// Total weight of the pairs of each level range, one thread each.
extern "C" __global__ void range_weights(int n_ranges, const i64* level_ranges, const i64* level_start, const double* weight, const double* loser_weight, double* totals) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= n_ranges) return;
  i64 first_level = level_ranges[2 * index], end_level = level_ranges[2 * index + 1], loser = level_start[first_level];
  double total = 0.0, loser_weight_sum = 0.0;
  for (i64 level = first_level + 1; level < end_level; level++) {
    for (; loser < level_start[level]; loser++) loser_weight_sum += loser_weight[loser];
    for (i64 row = level_start[level]; row < level_start[level + 1]; row++)
      total += weight[row] * loser_weight_sum;
  }
  totals[index] = total;
}

// Logistic loss of level ranges with scores close together; see `_narrow_logistic_ranges`. Value and
// gradient sum of each range go into `sums`, NaN if its scores are too far apart. Ranges of up to
// `max_shared_rows` rows use shared memory, longer ones `scratch` and `winners_scratch`.
extern "C" __global__ void narrow_logistic_ranges(const i64* level_ranges, const i64* level_start, const double* scores, const double* weight, const double* loser_weight, const double* pair_weights, double* pull, double* hessian, double* sums, int max_shared_rows, double* scratch, int* winners_scratch, i64 n_rows) {
  extern __shared__ double shared[];
  __shared__ double partials[64];
  __shared__ int is_small;
  LevelRange range = level_range_of(level_ranges, level_start, weight, loser_weight);
  double *exp_scores, *loser_slope, *loser_curvature, *product;
  int* winners;
  if (range.n_rows <= max_shared_rows) {
    exp_scores = shared; loser_slope = exp_scores + max_shared_rows; loser_curvature = loser_slope + max_shared_rows; product = loser_curvature + max_shared_rows;
    winners = (int*)(product + max_shared_rows);
  } else {
    exp_scores = scratch + range.first_row; loser_slope = exp_scores + n_rows; loser_curvature = loser_slope + n_rows; product = loser_curvature + n_rows;
    winners = winners_scratch + range.first_row;
  }
  double lowest, highest;
  find_extremes(scores + range.first_row, range.n_rows, partials, lowest, highest);
  double score_range = highest - lowest, center = 0.5 * (highest + lowest);
  if (!(score_range < 80.0)) {
    if (threadIdx.x == 0) { sums[blockIdx.x] = QUIET_NAN; sums[gridDim.x + blockIdx.x] = QUIET_NAN; }
    return;
  }
  for (int k = threadIdx.x; k < range.n_rows; k += blockDim.x) {
    exp_scores[k] = portable_exp(scores[range.first_row + k] - center);
    loser_slope[k] = 0.0;
    loser_curvature[k] = 0.0;
    product[k] = 1.0;
  }
  __syncthreads();
  int n_winners;
  double value = add_narrow_pairs(range, score_range, exp_scores, loser_slope, loser_curvature, product, winners, n_winners);
  __syncthreads();
  add_winner_gradients(range, exp_scores, winners, n_winners, pull, hessian);
  double gradient_sum = add_loser_gradients(range, loser_slope, loser_curvature, pull, hessian);
  if (threadIdx.x == 0) is_small = value < 1e-6 * pair_weights[blockIdx.x];
  __syncthreads();
  if (is_small) value = small_losses(range, exp_scores, product);
  if (threadIdx.x == 0) { sums[blockIdx.x] = value; sums[gridDim.x + blockIdx.x] = gradient_sum; }
}

__device__ __forceinline__ double sum_of_eight(const double* s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Return the sum of weight * value in eight interleaved partial sums; see `_weighted_sum`.
__device__ double weighted_sum(const double* values, const double* weights, int count) {
  double partials[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  int whole = count - count % 8;
  for (int k = 0; k < whole; k += 8)
#pragma unroll
    for (int j = 0; j < 8; j++) partials[j] += weights[k + j] * values[k + j];
  for (int k = whole; k < count; k++) partials[0] += weights[k] * values[k];
  return sum_of_eight(partials);
}

struct Pair { double slope, curvature, loss; };

// Logistic loss at any margin, with its negative slope and its curvature.
__device__ __forceinline__ Pair logistic_pair(double margin) {
  double exponential = portable_exp(-fabs(margin));
  double slope = (margin > 0 ? exponential : 1.0) / (1.0 + exponential);
  double curvature = exponential / ((1.0 + exponential) * (1.0 + exponential));
  return {slope, curvature, portable_log1p(exponential) + (-margin > 0.0 ? -margin : 0.0)};
}

// Slope, curvature and weighted loss of a pair. `degree` is 0 for the logistic loss, 1 for the hinge and
// 2 for the squared hinge.
__device__ __forceinline__ Pair generic_pair(int degree, double knot, double winner_weight, double winner_score, double loser_score) {
  if (degree == 0) {
    Pair pair = logistic_pair(winner_score - loser_score);
    return {pair.slope, pair.curvature, winner_weight * pair.loss};
  }
  if (degree == 1) {
    double shortfall = (knot - winner_score) + loser_score;
    return {shortfall > 0.0 ? 1.0 : 0.0, 0.0, winner_weight * (shortfall > 0.0 ? shortfall : 0.0)};
  }
  double shortfall = 2.0 * ((knot - winner_score) + loser_score);
  double slope = shortfall > 0.0 ? shortfall : 0.0;
  return {slope, slope > 0.0 ? 2.0 : 0.0, 0.25 * winner_weight * slope * slope};
}

// Add pull and Hessian of one winner, in eight interleaved partial sums; see `_weighted_sum`.
__device__ void add_generic_winner(const LevelRange& range, int degree, double knot, const double* scores, i64 row, int n_losers, double* pull, double* hessian) {
  double winner_weight = range.weight[row], winner_score = scores[row - range.first_row];
  double slope[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  double curvature[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  int whole = n_losers - n_losers % 8;
  for (int k = 0; k < whole; k += 8)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      Pair pair = generic_pair(degree, knot, winner_weight, winner_score, scores[k + j]);
      slope[j] += range.loser_weights[k + j] * pair.slope;
      curvature[j] += range.loser_weights[k + j] * pair.curvature;
    }
  for (int k = whole; k < n_losers; k++) {
    Pair pair = generic_pair(degree, knot, winner_weight, winner_score, scores[k]);
    slope[0] += range.loser_weights[k] * pair.slope;
    curvature[0] += range.loser_weights[k] * pair.curvature;
  }
  pull[row] += winner_weight * sum_of_eight(slope);
  hessian[row] += winner_weight * sum_of_eight(curvature);
}

// Level ranges without sums (NaN): those that `narrow_logistic_ranges` skipped, or all for hinges. See
// `_generic_ranges`.
extern "C" __global__ void generic_ranges(const i64* level_ranges, const i64* level_start, int degree, double knot, const double* scores, const double* weight, const double* loser_weight, double* pull, double* hessian, double* sums, double* scratch, i64 n_rows) {
  double previous_sum = sums[gridDim.x + blockIdx.x];
  if (previous_sum == previous_sum) return;
  LevelRange range = level_range_of(level_ranges, level_start, weight, loser_weight);
  const double* range_scores = scores + range.first_row;
  double *loser_slope = scratch + range.first_row, *loser_curvature = loser_slope + n_rows, *loser_loss = loser_curvature + n_rows;
  for (int k = threadIdx.x; k < range.n_rows; k += blockDim.x) {
    double slope = 0.0, curvature = 0.0, loss = 0.0;
    i64 level = level_of(level_start, range.first_level, range.first_row + k);
    if (level > range.first_level)
      add_generic_winner(range, degree, knot, range_scores, range.first_row + k, (int)(level_start[level] - range.first_row), pull, hessian);
    for (i64 row = level_start[level + 1]; row < level_start[range.end_level]; row++) {
      double winner_weight = weight[row];
      Pair pair = generic_pair(degree, knot, winner_weight, range_scores[row - range.first_row], range_scores[k]);
      loss += pair.loss;
      slope += winner_weight * pair.slope;
      curvature += winner_weight * pair.curvature;
    }
    loser_slope[k] = slope;
    loser_curvature[k] = curvature;
    loser_loss[k] = loss;
  }
  __syncthreads();
  double gradient_sum = add_loser_gradients(range, loser_slope, loser_curvature, pull, hessian);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = weighted_sum(loser_loss, range.loser_weights, range.n_rows);
    sums[gridDim.x + blockIdx.x] = gradient_sum;
  }
}

// -- logistic loss of long lists, see risks/by_cell.py -------------------------------------------
//
// A fast multipole method on the score axis. Unlike on the CPU, every cell from the lowest to the highest
// score exists. Sums are taken in the order of the CPU, each by one thread.

#define ORDER 9
#define N_TERMS 13
#define FAR_FIELD_SIZE 29
#define NEAR_CELLS 12
#define TABLE_ROWS 256  // rows of the transfer tables
#define CELLS_PER_UNIT 4.0

// A node of levels: its first cell, numbers of cells and of groups of levels, first group, and the
// offsets of its cells among those of all groups and of all sides.
struct CellNode {
  double first_cell, loser_factor;
  i64 n_cells, n_groups, first_group, cell_start, side_start;
};

// A chunk of rows, whose moments are summed in order; `cell_start` is the offset of its cells.
struct CellChunk { i64 first_row, end_row, group, cell_start; };

// Ordered bits of the lowest and the highest score of each node; a thread block has a chunk of its rows.
extern "C" __global__ void node_extremes(const i64* chunks, const double* scores, u64* lowest, u64* highest) {
  __shared__ u64 block_lowest, block_highest;
  if (threadIdx.x == 0) { block_lowest = ~0ULL; block_highest = 0; }
  __syncthreads();
  u64 thread_lowest = ~0ULL, thread_highest = 0;
  const i64* chunk = chunks + 3 * (i64)blockIdx.x;
  for (i64 row = chunk[0] + threadIdx.x; row < chunk[1]; row += blockDim.x) {
    u64 bits = ordered_bits(scores[row]);
    thread_lowest = bits < thread_lowest ? bits : thread_lowest;
    thread_highest = bits > thread_highest ? bits : thread_highest;
  }
  atomicMin(&block_lowest, thread_lowest);
  atomicMax(&block_highest, thread_highest);
  __syncthreads();
  if (threadIdx.x == 0) { atomicMin(lowest + chunk[2], block_lowest); atomicMax(highest + chunk[2], block_highest); }
}

// Add the moments of a chunk of rows to those of its cells, by one warp. Each lane computes the powers of
// a row; then each of the first ORDER lanes adds one moment of all 32 rows.
__device__ __forceinline__ void add_moments(const CellChunk& chunk, double first_cell, const double* scores, const double* weight, double (*powers)[ORDER], int* cell_offset, double* moments) {
  int lane = threadIdx.x;
  i64 row = chunk.first_row + lane;
  double score = row < chunk.end_row ? scores[row] : 0.0, power = row < chunk.end_row ? weight[row] : 0.0;
  for (i64 begin = chunk.first_row; begin < chunk.end_row; begin += 32) {
    int count = chunk.end_row - begin < 32 ? (int)(chunk.end_row - begin) : 32;
    double scaled = score * CELLS_PER_UNIT;
    double cell_id = floor(scaled);
    double x = 2.0 * (scaled - cell_id) - 1.0;
    cell_offset[lane] = lane < count ? ORDER * (int)(cell_id - first_cell) : 0;
    for (int a = 0; a < ORDER; a++) {
      powers[lane][a] = power;
      power = power * x;
    }
    row = begin + 32 + lane;  // read while the others are added
    if (row < chunk.end_row) { score = scores[row]; power = weight[row]; }
    __syncwarp();
    if (lane < ORDER)
      for (int k = 0; k < count; k++) moments[cell_offset[k] + lane] += powers[k][lane];
    __syncwarp();
  }
}

// Moments of each chunk of rows, by one warp, in shared memory for up to `max_shared_cells` cells. See
// `_rows_to_moments`.
extern "C" __global__ void rows_to_moments(const CellChunk* chunks, const i64* node_of_group, const CellNode* nodes, const double* scores, const double* weight, int max_shared_cells, double* moments) {
  extern __shared__ double shared_moments[];
  __shared__ double powers[32][ORDER];
  __shared__ int cell_offset[32];
  CellChunk chunk = chunks[blockIdx.x];
  const CellNode* node = nodes + node_of_group[chunk.group];
  int size = (int)node->n_cells * ORDER;
  double *out = moments + chunk.cell_start * ORDER, first_cell = node->first_cell;
  bool in_shared = node->n_cells <= max_shared_cells;
  for (int i = threadIdx.x; i < size; i += 32) {
    if (in_shared) shared_moments[i] = 0.0;
    else out[i] = 0.0;
  }
  __syncwarp();
  if (!in_shared) {
    add_moments(chunk, first_cell, scores, weight, powers, cell_offset, out);
    return;
  }
  add_moments(chunk, first_cell, scores, weight, powers, cell_offset, shared_moments);
  for (int i = threadIdx.x; i < size; i += 32) out[i] = shared_moments[i];
}

// Moments of each group of levels (x): the sum over its chunks, in order.
extern "C" __global__ void sum_group_moments(const CellChunk* chunks, const i64* chunk_start, const i64* node_of_group, const CellNode* nodes, const double* moments, double* group_moments) {
  const CellNode* node = nodes + node_of_group[blockIdx.x];
  i64 size = node->n_cells * ORDER, index = blockIdx.y * (i64)blockDim.x + threadIdx.x;
  if (index >= size) return;
  i64 first = chunk_start[blockIdx.x], count = chunk_start[blockIdx.x + 1] - first;
  const double* source = moments + chunks[first].cell_start * ORDER + index;
  double total = 0.0;
#pragma unroll 8
  for (i64 chunk = 0; chunk < count; chunk++) total += source[chunk * size];
  group_moments[(node->cell_start + (blockIdx.x - node->first_group) * node->n_cells) * ORDER + index] = total;
}

// Moments of the groups above each group and, `below_offset` numbers later, of the groups below it, for
// each node (x). See `_sum_sides`.
extern "C" __global__ void sum_side_moments(const CellNode* nodes, const double* group_moments, i64 below_offset, double* side_moments) {
  const CellNode* node = nodes + blockIdx.x;
  i64 size = node->n_cells * ORDER, index = blockIdx.y * (i64)blockDim.x + threadIdx.x;
  if (index >= size) return;
  group_moments += node->cell_start * ORDER + index;
  side_moments += node->side_start * ORDER + index;
  double total = 0.0;
  for (i64 group = 0; group < node->n_groups - 1; group++) {
    total = group ? group_moments[group * size] + total : group_moments[0];
    side_moments[below_offset + group * size] = total;
  }
  for (i64 group = node->n_groups - 2; group >= 0; group--) {
    total = group < node->n_groups - 2 ? group_moments[(group + 1) * size] + total : group_moments[(group + 1) * size];
    side_moments[group * size] = total;
  }
}

// Sums of the cells of a side (x; y = 0: above, 1: below) over the cells more than NEAR_CELLS away; see
// `_far_field_sums`. `factors` are the exponentials of a distance of one cell, and of NEAR_CELLS + 1.
extern "C" __global__ void sum_far_field(const i64* side, const CellNode* nodes, const double* side_moments, i64 below_offset, const double* exponentials, const double* factors, double* far_field) {
  const CellNode* node = nodes + side[2 * blockIdx.x];
  i64 n_cells = node->n_cells;
  i64 start = node->side_start + side[2 * blockIdx.x + 1] * n_cells + blockIdx.y * below_offset;
  const double* moments = side_moments + start * ORDER;
  double* side_far_field = far_field + start * FAR_FIELD_SIZE;
  for (i64 i = threadIdx.x; i < n_cells * 2 * N_TERMS; i += blockDim.x) {
    i64 cell = i / (2 * N_TERMS);
    int j = (int)(i % (2 * N_TERMS)), term = j % N_TERMS;
    i64 source = j < N_TERMS ? cell + NEAR_CELLS + 1 : cell - NEAR_CELLS - 1;
    double entering = -0.0;  // adds nothing
    if (source >= 0 && source < n_cells && moments[source * ORDER] != 0.0) {
      double total = 0.0;
      for (int a = 0; a < ORDER; a++) {
        double exponential = exponentials[term * ORDER + a];
        total += (j >= N_TERMS && a % 2 ? -exponential : exponential) * moments[source * ORDER + a];
      }
      entering = total * factors[N_TERMS + term];
    }
    side_far_field[cell * FAR_FIELD_SIZE + j] = entering;
  }
  __syncthreads();
  int j = threadIdx.x;
  if (j >= 2 * N_TERMS + 2) return;
  bool from_right = j < N_TERMS || j == 2 * N_TERMS;
  if (j < 2 * N_TERMS) {
    double decay = factors[j % N_TERMS], sum = 0.0;
    for (i64 begin = 0; begin < n_cells; begin += 8) {
      int count = n_cells - begin < 8 ? (int)(n_cells - begin) : 8;
      double entering[8];
#pragma unroll
      for (int k = 0; k < 8; k++)
        entering[k] = k < count ? side_far_field[(from_right ? n_cells - 1 - begin - k : begin + k) * FAR_FIELD_SIZE + j] : 0.0;
#pragma unroll
      for (int k = 0; k < 8; k++) {
        sum = sum * decay + entering[k];
        if (k < count) side_far_field[(from_right ? n_cells - 1 - begin - k : begin + k) * FAR_FIELD_SIZE + j] = sum;
      }
    }
    return;
  }
  double weight = 0.0, distance = 0.0, gap = NEAR_CELLS + 1.0;
  for (i64 k = 0; k < n_cells; k++) {
    i64 cell = from_right ? n_cells - 1 - k : k, source = from_right ? cell + NEAR_CELLS + 1 : cell - NEAR_CELLS - 1;
    if (k > 0) distance = distance + weight * (1.0 / CELLS_PER_UNIT);
    if (source >= 0 && source < n_cells) {
      const double* source_moments = moments + source * ORDER;
      weight += source_moments[0];
      distance += (source_moments[0] * gap - 0.5 * source_moments[1]) / CELLS_PER_UNIT;
    }
    if (from_right) side_far_field[cell * FAR_FIELD_SIZE + FAR_FIELD_SIZE - 1] = weight;
    else {
      side_far_field[cell * FAR_FIELD_SIZE + FAR_FIELD_SIZE - 3] = weight;
      side_far_field[cell * FAR_FIELD_SIZE + FAR_FIELD_SIZE - 2] = distance;
    }
  }
}

// Gather near-field moments and far-field sums of a cell in the order of the transfer tables, by one
// warp; see `_gather_sources`.
__device__ __forceinline__ void gather_sources(const double* moments, const double* far_field, i64 n_cells, i64 cell, double* sources) {
  int lane = threadIdx.x & 31;
  __syncwarp();
  for (int i = lane; i < TABLE_ROWS; i += 32) {
    double value = 0.0;
    if (i < (2 * NEAR_CELLS + 1) * ORDER) {
      i64 index = (cell - NEAR_CELLS) * ORDER + i;
      if (index >= 0 && index < n_cells * ORDER) value = moments[index];
    } else if (i < (2 * NEAR_CELLS + 1) * ORDER + FAR_FIELD_SIZE)
      value = far_field[cell * FAR_FIELD_SIZE + i - (2 * NEAR_CELLS + 1) * ORDER];
    sources[i] = value;
  }
  __syncwarp();
}

// Return total + sources · (column j of a table), eight rows at a time; see `_add_product`.
__device__ __forceinline__ double add_product(const double* sources, const double* table, int columns, int j, double total) {
  for (int row = 0; row < TABLE_ROWS; row += 8) {
    const double* s = sources + row;
    if (s[0] == 0.0 && s[1] == 0.0 && s[2] == 0.0 && s[3] == 0.0 && s[4] == 0.0 && s[5] == 0.0 && s[6] == 0.0 && s[7] == 0.0) continue;
    const double* t = table + row * columns + j;
    total += ((s[0] * t[0] + s[1] * t[columns]) + (s[2] * t[2 * columns] + s[3] * t[3 * columns])) + ((s[4] * t[4 * columns] + s[5] * t[5 * columns]) + (s[6] * t[6 * columns] + s[7] * t[7 * columns]));
  }
  return total;
}

// Local coefficients of the cells of each group (x), one warp per cell, and value and gradient sum of
// their losers; see `_moments_to_local`.
extern "C" __global__ void moments_to_local(const i64* node_of_group, const CellNode* nodes, const double* above, const double* below, const double* group_moments, const double* side_moments, const double* far_field, i64 below_offset, double* local, double* sums) {
  __shared__ double all_sources[8][TABLE_ROWS], all_coefficients[8][3 * ORDER];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const CellNode* node = nodes + node_of_group[blockIdx.x];
  i64 n_cells = node->n_cells, cell = blockIdx.y * 8LL + warp, group = blockIdx.x - node->first_group;
  if (cell >= n_cells) return;
  i64 index = node->cell_start + group * n_cells + cell;
  const double* cell_moments = group_moments + index * ORDER;
  double *sources = all_sources[warp], *coefficients = all_coefficients[warp], coefficient = 0.0, total = 0.0;
  if (cell_moments[0] != 0.0) {
    if (group < node->n_groups - 1) {
      i64 side = node->side_start + group * n_cells;
      gather_sources(side_moments + side * ORDER, far_field + side * FAR_FIELD_SIZE, n_cells, cell, sources);
      if (lane < 3 * ORDER) coefficients[lane] = coefficient = add_product(sources, above, 3 * ORDER, lane, coefficient);
      __syncwarp();
      if (lane == 0)
        for (int a = 0; a < ORDER; a++) total += cell_moments[a] * coefficients[a];
      if (lane == 1)
        for (int a = 0; a < ORDER; a++) total -= cell_moments[a] * coefficients[ORDER + 2 * a];
    }
    if (group > 0) {
      i64 side = below_offset + node->side_start + (group - 1) * n_cells;
      gather_sources(side_moments + side * ORDER, far_field + side * FAR_FIELD_SIZE, n_cells, cell, sources);
      if (lane >= ORDER && lane < 3 * ORDER) coefficient = add_product(sources, below, 2 * ORDER, lane - ORDER, coefficient);
    }
  }
  if (lane >= ORDER && lane < 3 * ORDER) local[index * 2 * ORDER + lane - ORDER] = coefficient;
  if (lane < 2) sums[2 * index + lane] = total;
}

// Value and, `stride` numbers later, gradient sum of each node (x), summed over its cells in order.
extern "C" __global__ void sum_nodes(const CellNode* nodes, const double* sums, i64 stride, double* totals) {
  __shared__ double buffer[512];
  const CellNode* node = nodes + blockIdx.x;
  const double* source = sums + 2 * node->cell_start;
  i64 size = 2 * node->n_groups * node->n_cells;
  if (!size) return;
  double total = 0.0;
  for (i64 begin = 0; begin < size; begin += 512) {
    int count = size - begin < 512 ? (int)(size - begin) : 512;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) buffer[i] = source[begin + i];
    __syncthreads();
    if (threadIdx.x < 2)
      for (int i = threadIdx.x; i < count; i += 2) total += buffer[i];
  }
  if (threadIdx.x < 2) totals[threadIdx.x * stride + blockIdx.x] = node->loser_factor * total;
}

// Add the local polynomials to pull and Hessian of the rows; several thread blocks (y) share a chunk (x).
// See `_local_to_rows`.
extern "C" __global__ void local_to_rows(const CellChunk* chunks, const i64* node_of_group, const CellNode* nodes, const double* scores, const double* weight, const double* local, double* pull, double* hessian) {
  CellChunk chunk = chunks[blockIdx.x];
  const CellNode* node = nodes + node_of_group[chunk.group];
  double first_cell = node->first_cell, loser_factor = node->loser_factor;
  local += (node->cell_start + (chunk.group - node->first_group) * node->n_cells) * 2 * ORDER;
  for (i64 row = chunk.first_row + blockIdx.y * (i64)blockDim.x + threadIdx.x; row < chunk.end_row; row += gridDim.y * (i64)blockDim.x) {
    double scaled = scores[row] * CELLS_PER_UNIT;
    double cell_id = floor(scaled);
    double x = 2.0 * (scaled - cell_id) - 1.0;
    double square = x * x;
    const double* cell_local = local + (i64)(cell_id - first_cell) * 2 * ORDER;
    double gradient = cell_local[2 * ORDER - 2], curvature = cell_local[2 * ORDER - 1];
    double odd_gradient = cell_local[2 * ORDER - 4], odd_curvature = cell_local[2 * ORDER - 3];
#pragma unroll
    for (int a = ORDER - 3; a > 0; a -= 2) {
      gradient = gradient * square + cell_local[2 * a];
      curvature = curvature * square + cell_local[2 * a + 1];
      odd_gradient = odd_gradient * square + cell_local[2 * a - 2];
      odd_curvature = odd_curvature * square + cell_local[2 * a - 1];
    }
    gradient = gradient * square + cell_local[0];
    curvature = curvature * square + cell_local[1];
    double row_weight = weight[row] * loser_factor;
    pull[row] += row_weight * (gradient + x * odd_gradient);
    hessian[row] += row_weight * (curvature + x * odd_curvature);
  }
}

// -- pairs with weights by rank, see risks/lambdarank.py and risks/by_pair.py --------------------

// Mean discount of the ranks begin..end, and mean difference of two of them; see `_shared_ranks`.
__device__ void shared_ranks(const double* by_rank, int n_discounts, int begin, int end, double& mean, double& tied) {
  int count = end - begin;
  double total = 0.0, gap = 0.0;
  for (int rank = begin; rank < (end < n_discounts ? end : n_discounts); rank++) {
    total += by_rank[rank];
    gap += (double)(count - 1 - 2 * (rank - begin)) * by_rank[rank];
  }
  double last = end <= n_discounts ? by_rank[end - 1] : 0.0;
  mean = last;
  tied = 0.0;
  if (by_rank[begin] == last) return;
  mean = total / count;
  tied = 2.0 * gap / (count * (count - 1.0));
}

// Discounts of the rows at the first ranks of each query (x), which tied rows share; see `_rank_queries`.
extern "C" __global__ void rank_queries(const i64* first, const double* scores, const double* by_rank, int n_discounts, double* discount, double* tied) {
  i64 start = first[blockIdx.x];
  int rows = (int)(first[blockIdx.x + 1] - start);
  for (int k = threadIdx.x; k < rows; k += blockDim.x) {
    double score = scores[start + k], mean = 0.0, gap = 0.0;
    int above = 0, not_below = 0;
    for (int j = 0; j < rows; j++) {
      double other_score = scores[start + j];
      above += other_score > score;
      not_below += other_score >= score;
    }
    if (above < n_discounts) shared_ranks(by_rank, n_discounts, above, not_below, mean, gap);
    discount[start + k] = mean;
    tied[start + k] = gap;
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
  double first = (1.0 / 3 + z * (1.0 / 5)) + square * (1.0 / 7 + z * (1.0 / 9));
  double second = (1.0 / 11 + z * (1.0 / 13)) + square * (1.0 / 15 + z * (1.0 / 17));
  double series = first + fourth * (second + fourth * (1.0 / 19 + z * (1.0 / 21)));
  return n * 0.6931471805599453 + 2.0 * (s + s * (z * series));
}

// The rows of a query. `kind` is the kind of the loss; if `sparse`, only pairs with a discounted row are
// enumerated.
struct RankedQuery {
  const double *score, *inverse, *rank_score, *gain, *discount, *tied, *winner_weight, *loser_weight;
  double plain, factor, flat, knot;
  int kind, sparse, size;
};

enum { SMALL, NARROW, WIDE, HINGE, SQUARED, EXPONENTIAL };

// Exponential loss of a pair; beyond the largest exponent the pair has no weight.
__device__ __forceinline__ double ranked_exponential(const RankedQuery& q, int i, int k, double sign) {
  double exponent = sign > 0.0 ? q.score[k] + q.inverse[i] : q.inverse[k] + q.score[i];
  return portable_exp(exponent < 700.0 ? exponent : 700.0);
}

// Weight of the pair of rows i and k, where k loses (sign 1) or wins (sign -1); see `_pair_weights`.
__device__ __forceinline__ double ranked_weight(const RankedQuery& q, int i, int k, double sign) {
  if (sign < 0.0 && q.discount[k] > 0.0) return 0.0;
  double own_weight = sign > 0.0 ? q.winner_weight[i] : q.loser_weight[i], other_weight = sign > 0.0 ? q.loser_weight[k] : q.winner_weight[k];
  double gap = fabs(q.discount[i] - q.discount[k]) + q.flat;
  gap = gap + (q.rank_score[k] == q.rank_score[i] ? q.tied[i] : 0.0);
  return other_weight * (own_weight * q.plain + sign * own_weight * q.factor * (q.gain[i] - q.gain[k]) * gap);
}

__device__ __forceinline__ void ranked_slope(const RankedQuery& q, int i, int k, double sign, double& slope, double& curvature) {
  double weight = ranked_weight(q, i, k, sign);
  if (q.kind == EXPONENTIAL) {
    slope = q.knot * (weight * ranked_exponential(q, i, k, sign));
    curvature = q.knot * slope;
  } else if (q.kind <= NARROW) {
    double wrong = sign > 0.0 ? q.score[k] * q.inverse[i] : q.inverse[k] * q.score[i];
    double right = 1.0 / (1.0 + wrong);
    slope = weight * (wrong * right);
    curvature = slope * right;
  } else if (q.kind == WIDE) {
    Pair pair = logistic_pair(sign * (q.score[i] - q.score[k]));
    slope = weight * pair.slope;
    curvature = weight * pair.curvature;
  } else {
    double shortfall = q.knot - sign * (q.score[i] - q.score[k]);
    double unweighted_slope = shortfall > 0.0 ? (q.kind == HINGE ? 1.0 : 2.0 * shortfall) : 0.0;
    curvature = q.kind == SQUARED && unweighted_slope > 0.0 ? 2.0 * weight : 0.0;
    slope = unweighted_slope * weight;
  }
}

__device__ __forceinline__ double ranked_loss(const RankedQuery& q, int i, int k, double sign, double weight) {
  if (q.kind == EXPONENTIAL) return weight * ranked_exponential(q, i, k, sign);
  if (q.kind <= NARROW) {
    double wrong = sign > 0.0 ? q.score[k] * q.inverse[i] : q.inverse[k] * q.score[i];
    return weight * (q.kind == SMALL ? portable_log1p(wrong) : logarithm(1.0 + wrong));
  }
  double margin = sign * (q.score[i] - q.score[k]);
  if (q.kind == WIDE) return weight * logistic_pair(margin).loss;
  double shortfall = q.knot - margin;
  if (q.kind == HINGE) return weight * (shortfall > 0.0 ? shortfall : 0.0);
  double twice_shortfall = shortfall > 0.0 ? 2.0 * shortfall : 0.0;
  return weight * (0.25 * twice_shortfall * twice_shortfall);
}

// Sums of row i over rows low..high, in eight interleaved partial sums: of slopes and curvatures or, if
// `with_losses`, of losses and weights.
__device__ void ranked_sums(const RankedQuery& q, int i, int low, int high, double sign, int with_losses, double& first_sum, double& second_sum) {
  double first_partials[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, second_partials[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  int whole = high - (high - low) % 8;
  for (int k = low; k < high; k += 8)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      if (k + j >= high) break;
      double first, second;
      if (with_losses) {
        second = ranked_weight(q, i, k + j, sign);
        first = ranked_loss(q, i, k + j, sign, second);
      } else ranked_slope(q, i, k + j, sign, first, second);
      if (k < whole) { first_partials[j] += first; second_partials[j] += second; }
      else { first_partials[0] += first; second_partials[0] += second; }
    }
  first_sum = sum_of_eight(first_partials);
  second_sum = sum_of_eight(second_partials);
}

// Value of a query and total weight of its pairs. Thread 0 adds the sums of the rows, four numbers each
// in `row_sums`, in order.
__device__ double ranked_value(const RankedQuery& q, const i64* level_start, i64 first_level, i64 first_row, double* row_sums, double& weight_sum) {
  __shared__ double results[2];
  __syncthreads();
  for (int i = threadIdx.x; i < q.size; i += blockDim.x) {
    i64 level = level_of(level_start, first_level, first_row + i);
    int low = (int)(level_start[level] - first_row), high = (int)(level_start[level + 1] - first_row);
    double* own_sums = row_sums + 4 * i;
    own_sums[0] = own_sums[1] = own_sums[2] = own_sums[3] = 0.0;
    if (q.sparse && q.discount[i] == 0.0) continue;
    if (q.winner_weight[i] > 0.0 && low > 0) ranked_sums(q, i, 0, low, 1.0, 1, own_sums[0], own_sums[1]);
    if (q.sparse && q.loser_weight[i] > 0.0 && high < q.size) ranked_sums(q, i, high, q.size, -1.0, 1, own_sums[2], own_sums[3]);
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
  weight_sum = results[1];
  return results[0];
}

// Slopes of row k as winner and as loser, and its curvature, in the order of the CPU.
__device__ void ranked_row(const RankedQuery& q, int k, int low, int high, double& winner_slope, double& loser_slope, double& curvature) {
  double more_slope, more_curvature;
  bool enumerates = !q.sparse || q.discount[k] != 0.0;
  winner_slope = loser_slope = curvature = 0.0;
  if (q.sparse && q.discount[k] == 0.0)
    for (int i = 0; i < low; i++) {
      if (q.discount[i] == 0.0 || !(q.loser_weight[i] > 0.0)) continue;
      ranked_slope(q, i, k, -1.0, more_slope, more_curvature);
      winner_slope += more_slope;
      curvature += more_curvature;
    }
  if (enumerates && q.winner_weight[k] > 0.0 && low > 0) {
    ranked_sums(q, k, 0, low, 1.0, 0, more_slope, more_curvature);
    winner_slope += more_slope;
    curvature += more_curvature;
  }
  if (enumerates && q.sparse && q.loser_weight[k] > 0.0 && high < q.size) {
    ranked_sums(q, k, high, q.size, -1.0, 0, more_slope, more_curvature);
    loser_slope += more_slope;
    curvature += more_curvature;
  }
  for (int i = high; i < q.size; i++) {
    if ((q.sparse && q.discount[i] == 0.0) || !(q.winner_weight[i] > 0.0)) continue;
    ranked_slope(q, i, k, 1.0, more_slope, more_curvature);
    loser_slope += more_slope;
    curvature += more_curvature;
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
  int n_discounted = count;
  __syncthreads();
  return 2 * n_discounted < size;
}

// Largest exponent of a pair with a weight, 0 if there is none; see `_find_scale`.
__device__ double largest_exponent(const RankedQuery& q, const i64* level_start, i64 first_level, i64 first_row, double* partials) {
  double largest = -INFINITE;
  for (int i = threadIdx.x; i < q.size; i += blockDim.x) {
    i64 level = level_of(level_start, first_level, first_row + i);
    for (int k = 0; k < (int)(level_start[level] - first_row); k++) {
      double exponent = q.knot * (q.score[k] - q.score[i]);
      double gap = fabs(q.discount[i] - q.discount[k]) + q.flat;
      if (q.rank_score[i] == q.rank_score[k]) gap += q.tied[i];
      double weight = q.plain + q.factor * (q.gain[i] - q.gain[k]) * gap;
      if (exponent > largest && weight * q.winner_weight[i] * q.loser_weight[k] > 0.0) largest = exponent;
    }
  }
  largest = warp_max(largest);
  if ((threadIdx.x & 31) == 0) partials[threadIdx.x >> 5] = largest;
  __syncthreads();
  for (int warp = 0; warp < (int)(blockDim.x + 31) / 32; warp++) largest = partials[warp] > largest ? partials[warp] : largest;
  __syncthreads();
  return largest > -INFINITE ? largest : 0.0;
}

// Pairs of each query (x): value (if `with_value`) and gradient sum go into `sums` and, if `with_slopes`,
// pull and Hessian of the rows are set. `knot` is the rate of an exponential loss, whose sums are divided
// by exp(log_scale) of the query. `scratch` has two numbers for each row, `row_sums` four. See
// `_sum_queries`.
extern "C" __global__ void sum_ranked_queries(const i64* query_start, const i64* level_start, i64 n_rows, int degree, double knot, int sparse, double flat, const double* scores, const double* rank_scores, const double* gain, const double* discount, const double* tied, const double* weight, const double* loser_weight, const double* plain, const double* factor, int with_value, int with_slopes, double* scratch, double* row_sums, double* pull, double* hessian, double* sums, double* log_scale) {
  __shared__ double partials[64];
  i64 first_level = query_start[blockIdx.x], end_level = query_start[blockIdx.x + 1], first_row = level_start[first_level];
  int size = (int)(level_start[end_level] - first_row);
  double *score = scratch + first_row, *inverse = score + n_rows, *loser_slopes = row_sums + 4 * first_row;
  double lowest, highest, value = 0.0, weight_sum = 0.0;
  find_extremes(scores + first_row, size, partials, lowest, highest);
  bool narrow = degree == 0 && !(highest - lowest >= 80.0);
  double center = 0.5 * (highest + lowest);
  for (int k = threadIdx.x; k < size; k += blockDim.x) {
    score[k] = narrow ? portable_exp(scores[first_row + k] - center) : scores[first_row + k];
    inverse[k] = 1.0 / score[k];
  }
  RankedQuery q = {score, inverse, rank_scores + first_row, gain + first_row, discount + first_row, tied + first_row, weight + first_row, loser_weight + first_row, plain[blockIdx.x], factor[blockIdx.x], flat, knot, narrow ? NARROW : WIDE + degree, sparse, size};
  if (sparse) q.sparse = is_sparse(discount + first_row, size);
  if (degree == 3) {
    __syncthreads();
    double scale = knot * (highest - lowest) > 600.0 ? largest_exponent(q, level_start, first_level, first_row, partials) : 0.0;
    if (threadIdx.x == 0) log_scale[blockIdx.x] = scale;
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
      double exponent = knot * scores[first_row + k];
      score[k] = exponent - 0.5 * scale;
      inverse[k] = -exponent - 0.5 * scale;
    }
    __syncthreads();
  }
  if (with_value) {
    value = ranked_value(q, level_start, first_level, first_row, loser_slopes, weight_sum);
    if (q.kind == NARROW && value < 1e-6 * weight_sum) {
      q.kind = SMALL;
      value = ranked_value(q, level_start, first_level, first_row, loser_slopes, weight_sum);
    }
  }
  __syncthreads();
  if (with_slopes)
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
      i64 level = level_of(level_start, first_level, first_row + k);
      double winner_slope, loser_slope, curvature;
      ranked_row(q, k, (int)(level_start[level] - first_row), (int)(level_start[level + 1] - first_row), winner_slope, loser_slope, curvature);
      loser_slopes[k] = loser_slope;
      pull[first_row + k] = winner_slope - loser_slope;
      hessian[first_row + k] = curvature;
    }
  __syncthreads();
  if (threadIdx.x) return;
  double gradient_sum = 0.0;
  for (int k = 0; k < (with_slopes ? size : 0); k++) gradient_sum += loser_slopes[k];
  sums[blockIdx.x] = value;
  sums[gridDim.x + blockIdx.x] = gradient_sum;
}

// -- explicit pairs, see risks/by_pair.py --------------------------------------------------------

// Weighted loss, slope and curvature of all pairs, as three arrays in `terms`. If `gap`, the required
// margins are subtracted. See `_explicit_pairs`.
extern "C" __global__ void explicit_pairs(i64 n, const i64* winner, const i64* loser, const double* weight, const double* pair_margin, int gap, int degree, double knot, const double* scores, double* terms) {
  GRID_STRIDE_LOOP(i, n) {
    double margin = scores[winner[i]] - scores[loser[i]];
    if (gap) margin = margin - pair_margin[i];
    Pair pair;
    if (degree == 0) pair = logistic_pair(margin);
    else {
      double shortfall = knot - margin > 0.0 ? knot - margin : 0.0;
      double is_violated = margin < knot ? 1.0 : 0.0;
      if (degree == 1) pair = {is_violated, 0.0, shortfall};
      else pair = {2.0 * shortfall, 2.0 * is_violated, shortfall * shortfall};
    }
    terms[i] = weight[i] * pair.loss;
    terms[n + i] = weight[i] * pair.slope;
    terms[2 * n + i] = weight[i] * pair.curvature;
  }
}

// Exact sum of the terms at index[begin..end], in any order; see `sums_at` in engine/exact.py.
__device__ double sum_at(i64 begin, i64 end, const i64* index, const double* terms) {
  double largest = 0.0;
  for (i64 i = begin; i < end; i++) {
    double size = fabs(terms[index[i]]);
    if (size > largest || size != size) largest = size;
  }
  if (!(largest > 0.0 && largest < INFINITE)) return largest;
  int exponent;
  frexp(largest, &exponent);
  int half = exponent >> 1;
  double power = ldexp(1.0, -half), other_power = ldexp(1.0, half - exponent);
  i64 high = 0, low = 0;
  for (i64 i = begin; i < end; i++)
    add_fixed_point(terms[index[i]] * power * other_power * HIGH, high, low);
  return ldexp((double)high / HIGH + (double)low / LOW, exponent);
}

// Add the explicit pairs to pull and Hessian of each row: those it wins, then those it loses.
extern "C" __global__ void add_explicit_pairs(i64 n, i64 n_pairs, const i64* won_start, const i64* won, const i64* lost_start, const i64* lost, const double* terms, double* pull, double* hessian) {
  const double *slope = terms + n_pairs, *curvature = terms + 2 * n_pairs;
  GRID_STRIDE_LOOP(row, n) {
    i64 begin = won_start[row], end = won_start[row + 1], first = lost_start[row], last = lost_start[row + 1];
    pull[row] = (pull[row] + sum_at(begin, end, won, slope)) - sum_at(first, last, lost, slope);
    hessian[row] = (hessian[row] + sum_at(begin, end, won, curvature)) + sum_at(first, last, lost, curvature);
  }
}

// -- hinges of long lists, see risks/by_order.py -------------------------------------------------
//
// A split has two sides of sorted rows: losers (even numbers), then winners (odd numbers). Moments of
// losers are suffix sums (over rows of larger scores), moments of winners prefix sums. Every sum is taken
// in the order of the CPU, by one thread.

#define MAX_CHUNK_ROWS 512  // a chunk has 2^chunk_bits rows, or fewer at the end of a side

struct Side { i64 first_row, end_row, first_chunk, end_chunk; };
struct Chunk { i64 first_row, end_row, side; };
struct Moments { double zeroth, first, second; };

// Translate moments to a point at distance `by`.
__device__ __forceinline__ Moments translate(Moments m, double by) {
  return {m.zeroth, m.first + by * m.zeroth, m.second + by * (2.0 * m.first + by * m.zeroth)};
}

__device__ __forceinline__ Moments read_moments(const double* stored) { return {stored[0], stored[1], stored[2]}; }

__device__ __forceinline__ void write_moments(double* stored, const Moments& m) {
  stored[0] = m.zeroth;
  stored[1] = m.first;
  stored[2] = m.second;
}

// Sort keys: integers with the order of the scores; -0 becomes 0.
extern "C" __global__ void score_keys(i64 n, const double* scores, u64* keys) {
  GRID_STRIDE_LOOP(i, n)
    keys[i] = ordered_bits(scores[i] + 0.0);
}

// Scores and weights of the rows of each chunk, sorted by `order`.
extern "C" __global__ void sort_rows(const Chunk* chunks, const i64* order, const double* scores, const double* weight, const double* loser_weight, double* sorted_scores, double* sorted_weight) {
  Chunk chunk = chunks[blockIdx.x];
  const double* side_weight = chunk.side & 1 ? weight : loser_weight;
  for (i64 position = chunk.first_row + threadIdx.x; position < chunk.end_row; position += blockDim.x) {
    sorted_scores[position] = scores[order[position]] + 0.0;
    sorted_weight[position] = side_weight[order[position]];
  }
}

// Moments of the rows of a chunk up to each row, about its score; a thread has a chunk. See
// `_scan_chunks`.
extern "C" __global__ void scan_chunks(int n_chunks, const Chunk* chunks, const double* sorted_scores, const double* sorted_weight, double knot, double* moments) {
  int number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= n_chunks) return;
  Chunk chunk = chunks[number];
  bool winners = chunk.side & 1;
  i64 start = winners ? chunk.first_row : chunk.end_row - 1, step = winners ? 1 : -1;
  int n_rows = (int)(chunk.end_row - chunk.first_row);
  Moments m = {0.0, 0.0, 0.0};
  double previous = winners ? __ldg(sorted_scores + start) - knot : __ldg(sorted_scores + start);
#pragma unroll 8
  for (int k = 0; k < n_rows; k++) {
    i64 position = start + k * step;
    double point = winners ? __ldg(sorted_scores + position) - knot : __ldg(sorted_scores + position);
    m = translate(m, winners ? point - previous : previous - point);
    m.zeroth += __ldg(sorted_weight + position);
    write_moments(moments + 3 * position, m);
    previous = point;
  }
}

// Moments of all chunks before each chunk, about the nearest of their rows. A thread block has a side;
// its first thread adds what all threads have read. See `_carry_moments`.
extern "C" __global__ void carry_moments(const Side* sides, const Chunk* chunks, const double* sorted_scores, double knot, const double* moments, double* carry) {
  __shared__ double points[128];
  __shared__ Moments parts[128];
  Side side = sides[blockIdx.x];
  bool winners = blockIdx.x & 1;
  i64 n_chunks = side.end_chunk - side.first_chunk;
  Moments m = {0.0, 0.0, 0.0};
  double previous = 0.0;
  if (threadIdx.x == 0) write_moments(carry + 3 * (winners ? side.first_chunk : side.end_chunk - 1), m);
  for (i64 begin = 1; begin < n_chunks; begin += blockDim.x) {
    i64 number = begin + threadIdx.x, chunk = winners ? side.first_chunk + number : side.end_chunk - 1 - number;
    if (number < n_chunks) {
      i64 edge = winners ? chunks[chunk].first_row - 1 : chunks[chunk].end_row;
      points[threadIdx.x] = winners ? sorted_scores[edge] - knot : sorted_scores[edge];
      parts[threadIdx.x] = read_moments(moments + 3 * edge);
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int k = 0; k < (int)blockDim.x && begin + k < n_chunks; k++) {
        double by = winners ? points[k] - previous : previous - points[k];
        m = translate(m, begin + k > 1 ? by : 0.0);
        m.zeroth += parts[k].zeroth;
        m.first += parts[k].first;
        m.second += parts[k].second;
        parts[k] = m;
        previous = points[k];
      }
    __syncthreads();
    if (number < n_chunks) write_moments(carry + 3 * chunk, parts[threadIdx.x]);
    __syncthreads();
  }
}

// Moments of the rows of the other side that form a pair of positive loss with a row at `target`; false
// if there are none. See `_add_row_gradients`.
__device__ bool paired_moments(const Side& other, const double* sorted_scores, double target, bool winners, int chunk_bits, double knot, const double* moments, const double* carry, Moments& m) {
  i64 low = other.first_row, high = other.end_row;
  while (low < high) {
    i64 middle = (low + high) / 2;
    bool is_before = winners ? !(sorted_scores[middle] > target) : sorted_scores[middle] - knot < target;
    if (is_before) low = middle + 1;
    else high = middle;
  }
  if (low == (winners ? other.end_row : other.first_row)) return false;
  i64 source = winners ? low : low - 1, chunk = (source - other.first_row) >> chunk_bits;
  i64 edge = winners ? other.first_row + ((chunk + 1) << chunk_bits) : other.first_row + (chunk << chunk_bits) - 1;
  m = translate(read_moments(moments + 3 * source), winners ? sorted_scores[source] - target : target - (sorted_scores[source] - knot));
  if (edge < other.first_row || edge >= other.end_row) return true;
  Moments carried = translate(read_moments(carry + 3 * (other.first_chunk + chunk)), winners ? sorted_scores[edge] - target : target - (sorted_scores[edge] - knot));
  m.zeroth += carried.zeroth;
  m.first += carried.first;
  m.second += carried.second;
  return true;
}

// Add pull and Hessian of the rows of a chunk; value and gradient sum of its losers go into `sums`.
extern "C" __global__ void add_row_gradients(const Side* sides, const Chunk* chunks, const i64* order, const double* sorted_scores, const double* sorted_weight, int chunk_bits, double knot, int degree, const double* moments, const double* carry, double* pull, double* hessian, double* sums) {
  __shared__ double losses[MAX_CHUNK_ROWS], slopes[MAX_CHUNK_ROWS];
  Chunk chunk = chunks[blockIdx.x];
  Side other = sides[chunk.side ^ 1];
  bool winners = chunk.side & 1;
  for (i64 position = chunk.first_row + threadIdx.x; position < chunk.end_row; position += blockDim.x) {
    i64 row = order[position];
    double row_weight = sorted_weight[position], target = winners ? sorted_scores[position] - knot : sorted_scores[position];
    Moments m = {0.0, 0.0, 0.0};
    double slope = 0.0, curvature = 0.0;
    if (paired_moments(other, sorted_scores, target, winners, chunk_bits, knot, moments, carry, m)) {
      slope = degree == 1 ? m.zeroth : 2.0 * m.first;
      curvature = degree == 1 ? 0.0 : 2.0 * m.zeroth;
      hessian[row] += row_weight * curvature;
      if (winners) pull[row] += row_weight * slope;
      else pull[row] -= row_weight * slope;
    }
    losses[position - chunk.first_row] = winners ? 0.0 : row_weight * (degree == 1 ? m.first : m.second);
    slopes[position - chunk.first_row] = winners ? 0.0 : row_weight * slope;
  }
  __syncthreads();
  if (threadIdx.x != 0 && threadIdx.x != 32) return;
  const double* terms = threadIdx.x ? slopes : losses;
  double total = 0.0;
  for (int k = 0; k < (int)(chunk.end_row - chunk.first_row); k++) total += terms[k];
  sums[(threadIdx.x ? gridDim.x : 0) + blockIdx.x] = total;
}

// -- columns of tables, see engine/table.py ------------------------------------------------------

// Sort keys are integers with the order of the floats; -0 becomes 0, and missing values come last.
__device__ __forceinline__ u32 key_of(float x) {
  if (x != x) return ~0u;
  u32 bits = __float_as_uint(x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ u64 key_of(double x) { return x != x ? ~0ULL : ordered_bits(x + 0.0); }

__device__ __forceinline__ double value_of_key(u32 key) {
  return (double)__uint_as_float(key >> 31 ? key ^ 0x80000000u : ~key);
}

__device__ __forceinline__ double value_of_key(u64 key) { return from_ordered_bits(key); }

// Keys of columns, in tiles of 32 rows (x) by 32 columns (y); `row_step` and `column_step` are the
// strides of X. Threads of a warp read adjacent numbers of X and write adjacent keys.
template <typename Number, typename Key>
__device__ void keys_of_columns(i64 n, int columns, const Number* X, i64 row_step, i64 column_step, const i64* order, Key* keys) {
  __shared__ Key tile[32][33];
  i64 first_row = blockIdx.x * 32LL;
  int first_column = blockIdx.y * 32, reads_rows = row_step > column_step;
  int tile_row = reads_rows ? threadIdx.y : threadIdx.x, tile_column = reads_rows ? threadIdx.x : threadIdx.y;
  i64 row = first_row + tile_row;
  if (row < n && first_column + tile_column < columns)
    tile[tile_row][tile_column] = key_of(X[order[row] * row_step + (first_column + tile_column) * column_step]);
  __syncthreads();
  row = first_row + threadIdx.x;
  if (row < n && first_column + (int)threadIdx.y < columns)
    keys[(first_column + threadIdx.y) * n + row] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void keys_of_singles(i64 n, int columns, const float* X, i64 row_step, i64 column_step, const i64* order, u32* keys) {
  keys_of_columns(n, columns, X, row_step, column_step, order, keys);
}

extern "C" __global__ void keys_of_doubles(i64 n, int columns, const double* X, i64 row_step, i64 column_step, const i64* order, u64* keys) {
  keys_of_columns(n, columns, X, row_step, column_step, order, keys);
}

// First position in low..high of a sorted column whose key is >= `key`, or > `key` if `right`.
template <typename Key>
__device__ i64 binary_search(const Key* ordered, Key key, i64 low, i64 high, int right) {
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (ordered[middle] < key || (right && ordered[middle] == key)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// End of the bin that starts at `first`; see `_bin_end` in engine/table.py.
template <typename Key>
__device__ i64 bin_end(const Key* ordered, i64 size, i64 first, i64 left, i64 bins, i64 max_bins) {
  i64 target = first + (left - 1) / bins, heavy = (size - 1) / max_bins + 1, position = first;
  while (position < target) {
    position = position + heavy < target ? position + heavy : target;
    i64 start = binary_search(ordered, ordered[position], first, position, 0);
    i64 far = start + heavy - 1;
    if (start > first && far < size && ordered[far] == ordered[start]) return start;
  }
  return binary_search(ordered, ordered[target], target, size, 1);
}

// End of the bin that starts at position `i`, of rows with weights; sets the weight of the bin. See
// `_bin_ends_weighted`.
template <typename Key>
__device__ i64 weighted_bin_end(const Key* ordered, const i64* weight, i64 size, i64 i, i64 left, i64 bins, i64 max_bins, i64 total, i64& bin_weight) {
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
// the cut points, padded with infinity to 256, their number, the lowest and the highest value, and the
// number of values that are not missing. If `weighted`, `weights` are in the order of the values.
template <typename Key>
__device__ void cuts_of_columns(i64 n, int columns, int max_bins, const Key* sorted, int weighted, const i64* weights, double* cuts) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const Key* ordered = sorted + column * n;
  double* column_cuts = cuts + 260 * (i64)column;
  i64 size = binary_search(ordered, (Key)~(Key)0, 0, n, 0), count = 0, first = 0;
  const i64* column_weight = weights + column * n;
  i64 total = 0, left = 0, bins = 0, bin_weight = 0;
  bool many = false;
  while (!many || count < max_bins - 1) {
    i64 end = size;
    if (first < size && !many) end = binary_search(ordered, ordered[first], first, size, 1);
    else if (first < size && weighted) end = weighted_bin_end(ordered, column_weight, size, first, left, bins, (i64)max_bins, total, bin_weight);
    else if (first < size) {
      end = bin_end(ordered, size, first, left, bins, (i64)max_bins);
      bin_weight = end - first;
    }
    if (end == size) break;
    if (!many && count == max_bins - 1) {
      many = true;
      count = first = 0;
      total = weighted ? 0 : size;
      for (i64 j = 0; weighted && j < size; j++) total += column_weight[j];
      left = total;
      bins = max_bins;
      continue;
    }
    double below = value_of_key(ordered[end - 1]), above = value_of_key(ordered[end]);
    double cut = below / 2 + above / 2;
    column_cuts[count++] = below <= cut && cut < above ? cut : below + 0.0;
    left -= bin_weight;
    bins--;
    first = end;
  }
  for (int k = (int)count; k < 256; k++) column_cuts[k] = INFINITE;
  column_cuts[256] = (double)count;
  column_cuts[257] = size ? value_of_key(ordered[0]) : QUIET_NAN;
  column_cuts[258] = size ? value_of_key(ordered[size - 1]) : QUIET_NAN;
  column_cuts[259] = (double)size;
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
  __shared__ double column_cuts[256];
  column_cuts[threadIdx.x] = cuts[260 * (i64)blockIdx.y + threadIdx.x];
  __syncthreads();
  GRID_STRIDE_LOOP(row, n) {
    Key key = keys[blockIdx.y * n + row];
    double value = value_of_key(key);
    int below = 0;
#pragma unroll
    for (int step = 128; step > 0; step >>= 1) below += value > column_cuts[below + step - 1] ? step : 0;
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
  GRID_STRIDE_LOOP(row, n) {
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
extern "C" __global__ void transpose_codes(i64 n, int features, int width, const u8* columns, u8* rows) {
  __shared__ u8 tile[32][33];
  i64 row = blockIdx.x * 32LL + threadIdx.x;
  int feature = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = row < n && feature < features ? columns[feature * n + row] : 0;
  __syncthreads();
  i64 target = blockIdx.x * 32LL + threadIdx.y;
  if (target < n) rows[target * width + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void row_numbers(i64 n, int* rows) {
  GRID_STRIDE_LOOP(i, n)
    rows[i] = (int)i;
}

#define DRAW_TILE 2048

// Whether a row is sampled for a tree; see `hash_with_seeds` in engine/exact.py.
__device__ __forceinline__ bool is_drawn(u64 key, const u64* seeds, double threshold) {
  for (int k = 0; k < 3; k++) {
    key += seeds[k];
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ULL;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBULL;
    key ^= key >> 31;
  }
  return (double)(key >> 11) < threshold;
}

// Sample rows in tiles of DRAW_TILE, one warp each. The first launch (`writes` = 0) counts the sampled
// rows of each tile in `counts`; the second reads the tile's offset there and writes the rows.
extern "C" __global__ void draw_rows(i64 n, const u64* keys, const u64* seeds, double threshold, int writes, i64* counts, int* rows) {
  i64 low = blockIdx.x * (i64)DRAW_TILE, high = low + DRAW_TILE < n ? low + DRAW_TILE : n;
  i64 begin = writes ? counts[blockIdx.x] : 0, count = 0;
  int lane = threadIdx.x;
  for (i64 base = low; base < high; base += 32) {
    int drawn = base + lane < high && is_drawn(keys[base + lane], seeds, threshold);
    u32 votes = __ballot_sync(~0u, drawn);
    if (drawn && writes) rows[begin + count + __popc(votes & ((1u << lane) - 1))] = (int)(base + lane);
    count += __popc(votes);
  }
  if (lane == 0 && !writes) counts[blockIdx.x] = count;
}

// Quantize rows to packed words, or to two words each if `wide`; see engine/quantization.py.
extern "C" __global__ void pack(i64 n, int wide, int count_bits, const double* pull, const double* weight, double power, double other_power, double weight_power, double other_weight_power, i64* first, i64* second) {
  GRID_STRIDE_LOOP(i, n) {
    i64 pull_integer = (i64)rint(pull[i] * power * other_power);
    i64 weight_integer = (i64)rint(weight[i] * weight_power * other_weight_power);
    if (wide) { first[i] = pull_integer; second[i] = (weight_integer << count_bits) + 1; }
    else first[i] = (pull_integer << 38) + (weight_integer << 12) + 1;
  }
}

// A node to split, 20 words; see `Work` in engine/cuda.py. The smaller child comes first.
struct Work {
  i64 low, high;           // rows of the node
  i64 source, target;      // lists that hold the rows and receive them
  i64 feature;             // of the split
  i64 sum_low, sum_high;   // rows of the smaller child, in the list `target`
  i64 slot, parent;        // histograms of the smaller child and of the node
  i64 search;              // bit 0: search the smaller child; bit 1: the larger one
  i64 pull[2], weight[2];  // sums of the children
  i64 n_left, n_right;     // rows partitioned so far to either side
  i64 searched[2];         // features of each child searched so far
  i64 unused[2];
};

// The node of a tile (thread block); `first_tile` is that of each node.
__device__ __forceinline__ int node_of(const i64* first_tile, int n_nodes, int tile) {
  int low = 0, high = n_nodes - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (first_tile[middle] <= tile) low = middle; else high = middle - 1;
  }
  return low;
}

#define MOVE_TILE 2048

// Clear a histogram by `parts` thread blocks. Histograms are arrays (feature, code) of pairs of words.
__device__ void clear(ulonglong2* slot, i64 size, int part, int parts) {
  for (i64 i = part * (i64)blockDim.x + threadIdx.x; i < size; i += parts * (i64)blockDim.x)
    slot[i] = make_ulonglong2(0, 0);
}

// Partition the rows of nodes into another list, by `n_tiles` thread blocks of 512 threads: left rows
// from the beginning of the node's range, right rows from its end. (Their order depends on the order of
// the thread blocks; sums do not.) The remaining thread blocks, 20 for each node, clear the histograms of
// the smaller children.
extern "C" __global__ void partition_rows(Work* work, const i64* first_tile, int n_nodes, int n_tiles, int width, const u8* codes, const u8* left_codes, int* lists, i64 n, ulonglong2* histograms) {
  if ((int)blockIdx.x >= n_tiles) {
    int block = blockIdx.x - n_tiles;
    clear(histograms + work[block / 20].slot * width * 256, width * 256LL, block % 20, 20);
    return;
  }
  __shared__ int counts[64];
  __shared__ i64 next_left, next_right;
  int node = node_of(first_tile, n_nodes, blockIdx.x);
  Work* job = work + node;
  const int* source = lists + job->source * n;
  int* target = lists + job->target * n;
  const u8* node_left_codes = left_codes + 256 * node;
  i64 begin = job->low + (i64)(blockIdx.x - first_tile[node]) * MOVE_TILE;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int row[4], left[4], before[4];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    i64 i = begin + r * 512 + threadIdx.x;
    row[r] = i < job->high ? source[i] : -1;
    left[r] = row[r] >= 0 && node_left_codes[codes[(i64)row[r] * width + job->feature]];
    u32 votes = __ballot_sync(~0u, left[r]);
    before[r] = __popc(votes & ((1u << lane) - 1));
    if (lane == 0) counts[r * 16 + warp] = __popc(votes);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int j = 0; j < 64; j++) { int count = counts[j]; counts[j] = sum; sum += count; }
    i64 size = job->high - begin < MOVE_TILE ? job->high - begin : MOVE_TILE;
    next_left = job->low + (i64)atomicAdd((u64*)&job->n_left, (u64)sum);
    i64 n_right = size - sum;
    next_right = job->high - n_right - (i64)atomicAdd((u64*)&job->n_right, (u64)n_right);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; r++)
    if (row[r] >= 0) {
      int n_left = counts[r * 16 + warp] + before[r];
      if (left[r]) target[next_left + n_left] = row[r];
      else target[next_right + (r * 512 + threadIdx.x - n_left)] = row[r];
    }
}

#define STRIDE 257

// Shared memory has fast atomic additions of 32 bits only, so a packed word is summed as two words of 32
// bits, 64 * pull + 1 and 63 * weight + 1. The remainders modulo 64 and 63 of sums of up to 4031 such
// words determine the count, and the count determines pull and weight.
__device__ __forceinline__ void unpack(u32 first, u32 second, i64& pull, i64& weight, i64& count) {
  int modulo_64 = first & 63, modulo_63 = (int)(second % 63u);
  count = modulo_64 + 64 * ((modulo_63 - modulo_64 % 63 + 63) % 63);
  pull = ((i64)(int)first - count) >> 6;
  weight = ((i64)second - count) / 63;
}

// Add a 64-bit number to a sum stored as two words of 32 bits.
__device__ __forceinline__ void add_word(u32* low, u32* high, u32 more_low, u32 more_high) {
  u32 old = atomicAdd(low, more_low);
  u32 carried = more_high + (old + more_low < old ? 1u : 0u);
  if (carried) atomicAdd(high, carried);
}

// Sum the histograms of the smaller children: a thread block of 512 threads has 32 features (y) and a
// tile of `tile_rows` rows (x; at most 4000). If the sums of the tile fit, packed words are summed as
// above in one pass. Otherwise, and for wide numbers, 64-bit sums take two passes: pulls, then weights
// and counts.
extern "C" __global__ void fill_histograms(const Work* work, const i64* first_tile, int n_nodes, int tile_rows, int width, int features, int wide, int count_bits, const u8* codes, const i64* first_words, const i64* second_words, const int* lists, i64 n, u64* histograms) {
  extern __shared__ u32 low[];
  __shared__ i64 partials[32];
  __shared__ int fits;
  u32* high = low + 32 * STRIDE;
  int node = node_of(first_tile, n_nodes, blockIdx.x);
  const Work* job = work + node;
  const int* rows = lists + job->target * n;
  i64 begin = job->sum_low + (i64)(blockIdx.x - first_tile[node]) * tile_rows;
  i64 end = begin + tile_rows < job->sum_high ? begin + tile_rows : job->sum_high;
  if (!wide) {
    i64 pulls = 0, weights = 0;
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
      i64 packed = first_words[rows[i]];
      i64 pull = packed >> 38;
      pulls += pull < 0 ? -pull : pull;
      weights += (packed >> 12) & 0x3FFFFFF;
    }
    pulls = block_sum(pulls, partials);
    weights = block_sum(weights, partials);
    if (threadIdx.x == 0) fits = pulls < (1 << 25) - 64 && weights < (1 << 26);
  } else if (threadIdx.x == 0) fits = 0;
  __syncthreads();
  int passes = fits ? 1 : 2;
  int quad = threadIdx.x & 7, row0 = threadIdx.x >> 3, step = blockDim.x >> 3;
  int first_bin = quad * 4 * STRIDE;
  bool used = 32 * (int)blockIdx.y + 4 * quad < features;
  const u8* group = codes + 32 * blockIdx.y + 4 * quad;
  u64* out = histograms + 2 * (job->slot * width + 32 * (i64)blockIdx.y) * 256;
  for (int pass = 0; pass < passes; pass++) {
    for (int j = threadIdx.x; j < 2 * 32 * STRIDE; j += blockDim.x) low[j] = 0;
    __syncthreads();
    if (passes == 1 && used) {
#pragma unroll 4
      for (i64 i = begin + row0; i < end; i += step) {
        int row = rows[i];
        i64 packed = first_words[row];
        u32 four_codes = *(const u32*)(group + (i64)row * width);
        u32 first = (u32)(packed >> 38) * 64u + 1u, second = (u32)((packed >> 12) & 0x3FFFFFF) * 63u + 1u;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int bin = first_bin + j * STRIDE + ((four_codes >> (8 * j)) & 255);
          atomicAdd(low + bin, first);
          atomicAdd(high + bin, second);
        }
      }
    } else if (used) {
      for (i64 i = begin + row0; i < end; i += step) {
        int row = rows[i];
        i64 packed = first_words[row];
        if (wide) packed = pass ? second_words[row] : packed;
        else packed = pass ? (((packed & 0x3FFFFFFFFFLL) >> 12) << count_bits) + (packed & 4095) : packed >> 38;
        u32 four_codes = *(const u32*)(group + (i64)row * width);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int bin = first_bin + j * STRIDE + ((four_codes >> (8 * j)) & 255);
          add_word(low + bin, high + bin, (u32)packed, (u32)((u64)packed >> 32));
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

// -- the best splits of nodes, see engine/tree_histograms.py -------------------------------------

// The record of `Rules` in engine/tree_rows.py.
struct Rules {
  double pull_unit, weight_unit;
  i64 count_bits;
  double reg_lambda, reg_alpha, cat_smooth;
  i64 min_count;
  double min_weight, min_gain;
  i64 plain;
};

struct SplitFound {
  double score;
  i64 feature, cut, missing_above, pull, weight_count;
};
#define NO_SPLIT SplitFound{0.0, -1, -1, 0, 0, 0}

__device__ __forceinline__ double leaf_value(double pull, double curvature, double alpha, double low, double high) {
  double size = fabs(pull) - alpha;
  size = size > 0.0 ? size : 0.0;
  double value = curvature > 0 ? (pull > 0 ? size : -size) / curvature : 0.0;
  value = value < low ? low : value;
  return value > high ? high : value;
}

__device__ __forceinline__ double leaf_score(double pull, double curvature, double alpha, double value) {
  return 2.0 * (pull * value - alpha * fabs(value)) - curvature * value * value;
}

__device__ __forceinline__ double children_score(const Rules& rules, double left, double left_weight, double right, double right_weight, double penalty, const double* bounds, int sign) {
  if (rules.plain)
    return left * left / (left_weight + penalty) + right * right / (right_weight + penalty);
  double left_value = leaf_value(left, left_weight + penalty, rules.reg_alpha, bounds[0], bounds[1]);
  double right_value = leaf_value(right, right_weight + penalty, rules.reg_alpha, bounds[0], bounds[1]);
  if ((sign > 0 && left_value > right_value) || (sign < 0 && left_value < right_value)) return -INFINITE;
  return leaf_score(left, left_weight + penalty, rules.reg_alpha, left_value) + leaf_score(right, right_weight + penalty, rules.reg_alpha, right_value);
}

// Inclusive prefix sums over a thread block of 256 threads.
__device__ __forceinline__ void prefix_sums(i64& pull, i64& weight_count, i64* partials) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int step = 1; step < 32; step <<= 1) {
    i64 a = __shfl_up_sync(~0u, pull, step), b = __shfl_up_sync(~0u, weight_count, step);
    if (lane >= step) { pull += a; weight_count += b; }
  }
  if (lane == 31) { partials[2 * warp] = pull; partials[2 * warp + 1] = weight_count; }
  __syncthreads();
  for (int j = 0; j < warp; j++) { pull += partials[2 * j]; weight_count += partials[2 * j + 1]; }
  __syncthreads();
}

// Sort the categories that occur by their smoothed mean pull; empty ones come last.
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

// The first best cut of a feature, by a thread block with one thread for each bin; see `_best_cut` in
// engine/tree_histograms.py.
__device__ void best_cut(const Rules& rules, int bins, int sign, int category, i64 pull, i64 weight_count, const i64* missing, i64 pull_total, i64 word_total, const double* bounds, SplitFound* found) {
  __shared__ i64 pulls[256], weights[256];
  __shared__ double keys[256];
  __shared__ i64 partials[16];
  __shared__ int last_bin, best;
  double penalty = rules.reg_lambda;
  if (category) {
    sort_categories(rules, bins, pulls, weights, keys, pull, weight_count);
    penalty = rules.reg_lambda + rules.cat_smooth;
  }
  bool occurs = threadIdx.x < bins && weight_count != 0;
  if (threadIdx.x == 0) { last_bin = -1; best = 1 << 20; found->score = -INFINITE; found->feature = -1; }
  __syncthreads();
  if (occurs) atomicMax(&last_bin, (int)threadIdx.x);
  prefix_sums(pull, weight_count, partials);
  i64 mask = (1LL << rules.count_bits) - 1;
  double total_pull = (double)pull_total * rules.pull_unit;
  double total_weight = (double)(word_total >> rules.count_bits) * rules.weight_unit;
  double total_count = (double)(word_total & mask);
  double pull_below = (double)pull * rules.pull_unit;
  double weight_below = (double)(weight_count >> rules.count_bits) * rules.weight_unit;
  i64 count_below = weight_count & mask;
  double min_weight = penalty > 0.0 ? 0.0 : 4.9406564584124654e-324;
  min_weight = rules.min_weight > min_weight ? rules.min_weight : min_weight;
  double shift[2][3] = {{0.0, 0.0, 0.0}, {(double)missing[0] * rules.pull_unit, (double)(missing[1] >> rules.count_bits) * rules.weight_unit, (double)(missing[1] & mask)}};
  bool has_missing = shift[1][2] != 0.0;
  double scores[2] = {-INFINITE, -INFINITE};
  bool is_valid[2] = {false, false};
  if (sign && (int)threadIdx.x == last_bin) sign = 0;
#pragma unroll
  for (int side = 0; side < 2; side++) {
    if (!occurs || (side == 1 && !has_missing)) continue;
    double left_count = (double)count_below + shift[side][2], left_weight = weight_below + shift[side][1];
    is_valid[side] = !(left_count < (double)rules.min_count || left_weight < min_weight) && !(total_count - left_count < (double)rules.min_count || total_weight - left_weight < min_weight);
    double left_pull = pull_below + shift[side][0];
    if (is_valid[side]) scores[side] = children_score(rules, left_pull, left_weight, total_pull - left_pull, total_weight - left_weight, penalty, bounds, sign);
  }
  double best_score = scores[0] > -INFINITE ? scores[0] : -INFINITE;
  best_score = scores[1] > best_score ? scores[1] : best_score;
  best_score = block_max(best_score, (double*)partials);
  // Missing values on the left come before missing values on the right.
  if (is_valid[1] && scores[1] == best_score) atomicMin(&best, 2 * (int)threadIdx.x);
  else if (is_valid[0] && scores[0] == best_score) atomicMin(&best, 2 * (int)threadIdx.x + 1);
  __syncthreads();
  if (best_score > -INFINITE && best >> 1 == (int)threadIdx.x && best < 1 << 20) {
    int missing_above = best & 1;
    if (!has_missing) missing_above = 2.0 * (double)count_below < total_count ? 1 : 0;
    found->score = best_score;
    found->feature = 0;
    found->cut = (int)threadIdx.x == last_bin && !category ? bins - 1 : (int)threadIdx.x;
    found->missing_above = missing_above;
    found->pull = missing_above == 0 ? pull + missing[0] : pull;
    found->weight_count = missing_above == 0 ? weight_count + missing[1] : weight_count;
    if (category && missing_above == 0) { found->pull = pull_total - found->pull; found->weight_count = word_total - found->weight_count; }
  }
}

// The best split of a child over all features, by one warp.
__device__ void best_feature(const Work* job, int child, int features, const double* bounds, const Rules& rules, const SplitFound* found, SplitFound* best) {
  double pull = (double)job->pull[child] * rules.pull_unit;
  double weight = (double)(job->weight[child] >> rules.count_bits) * rules.weight_unit + rules.reg_lambda;
  double unsplit_score = pull * pull / weight;
  if (!rules.plain)
    unsplit_score = leaf_score(pull, weight, rules.reg_alpha, leaf_value(pull, weight, rules.reg_alpha, bounds[0], bounds[1]));
  double best_score = unsplit_score;
  int best_index = -1;
  for (int j = threadIdx.x; j < features; j += 32) {
    double score = __ldcg(&found[j].score);
    if (__ldcg(&found[j].feature) >= 0 && score > best_score) { best_score = score; best_index = j; }
  }
  for (int step = 16; step > 0; step >>= 1) {
    double other_score = __shfl_xor_sync(~0u, best_score, step);
    int other_index = __shfl_xor_sync(~0u, best_index, step);
    if (other_index >= 0 && (best_index < 0 || other_score > best_score || (other_score == best_score && other_index < best_index))) { best_score = other_score; best_index = other_index; }
  }
  if (threadIdx.x > 0) return;
  *best = NO_SPLIT;
  if (best_index < 0 || !(best_score - unsplit_score > 1.4551915228366852e-11 * fabs(best_score))) return;
  best->score = best_score - unsplit_score;
  best->feature = best_index;
  best->cut = __ldcg(&found[best_index].cut);
  best->missing_above = __ldcg(&found[best_index].missing_above);
  best->pull = __ldcg(&found[best_index].pull);
  best->weight_count = __ldcg(&found[best_index].weight_count);
}

// The best splits of the children (z = 0: smaller, 1: larger) of each node (y). A thread block of 256
// threads has a feature (x); the last one of a child to finish compares all features. The histogram of
// the larger child, node minus smaller child, replaces that of the node.
extern "C" __global__ void search_splits(Work* work, int width, const i64* n_bins, const u8* allowed, int step, const signed char* monotone, const u8* categorical, const double* bounds, const Rules* rules_record, i64* histograms, SplitFound* found, SplitFound* best) {
  Work* job = work + blockIdx.y;
  int child = blockIdx.z, feature = blockIdx.x, child_number = blockIdx.y * 2 + child;
  if (!(job->search >> child & 1)) {
    if (feature == 0 && threadIdx.x == 0) best[child_number] = NO_SPLIT;
    return;
  }
  Rules rules = *rules_record;
  SplitFound* feature_best = found + ((i64)child_number * gridDim.x + feature);
  i64 bin = 2 * ((job->slot * width + feature) * 256 + threadIdx.x);
  i64 pull = histograms[bin], weight_count = histograms[bin + 1];
  if (child) {
    i64 parent_bin = 2 * ((job->parent * width + feature) * 256 + threadIdx.x);
    pull = histograms[parent_bin] - pull;
    weight_count = histograms[parent_bin + 1] - weight_count;
    histograms[parent_bin] = pull;
    histograms[parent_bin + 1] = weight_count;
  }
  __shared__ i64 missing[2];
  __shared__ int is_last;
  if (threadIdx.x == 255) { missing[0] = pull; missing[1] = weight_count; }
  __syncthreads();
  if (allowed[blockIdx.y * step + feature])
    best_cut(rules, (int)n_bins[feature], monotone[feature], categorical[feature], pull, weight_count, missing, job->pull[child], job->weight[child], bounds + 2 * child_number, feature_best);
  else if (threadIdx.x == 0) { feature_best->score = -INFINITE; feature_best->feature = -1; }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd((u64*)&job->searched[child], 1ULL) == gridDim.x - 1;
  __syncthreads();
  if (is_last && threadIdx.x < 32) {
    __threadfence();
    best_feature(job, child, gridDim.x, bounds + 2 * child_number, rules, feature_best - feature, best + child_number);
  }
}

// -- leaves --------------------------------------------------------------------------------------

// Exact sums of pull and weight over the rows of leaves; a thread block has a tile of LEAF_TILE rows.
#define LEAF_TILE 4096
extern "C" __global__ void leaf_sums(const i64* leaves, const i64* first_tile, int n_leaves, const int* lists, i64 n, const double* pull, const double* weight, double power, double other_power, double weight_power, double other_weight_power, u64* sums) {
  __shared__ i64 partials[32];
  int leaf = node_of(first_tile, n_leaves, blockIdx.x);
  const int* rows = lists + leaves[3 * leaf + 2] * n;
  i64 begin = leaves[3 * leaf] + (i64)(blockIdx.x - first_tile[leaf]) * LEAF_TILE, end = leaves[3 * leaf + 1];
  end = begin + LEAF_TILE < end ? begin + LEAF_TILE : end;
  i64 pulls = 0, weights = 0;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
    int row = rows[i];
    pulls += (i64)rint(pull[row] * power * other_power);
    weights += (i64)rint(weight[row] * weight_power * other_weight_power);
  }
  pulls = block_sum(pulls, partials);
  weights = block_sum(weights, partials);
  if (threadIdx.x == 0) { atomicAdd(&sums[2 * leaf], (u64)pulls); atomicAdd(&sums[2 * leaf + 1], (u64)weights); }
}

extern "C" __global__ void leaf_values(const i64* leaves, const i64* first_tile, int n_leaves, const int* lists, i64 n, const double* value, double* values) {
  int leaf = node_of(first_tile, n_leaves, blockIdx.x);
  const int* rows = lists + leaves[3 * leaf + 2] * n;
  i64 begin = leaves[3 * leaf] + (i64)(blockIdx.x - first_tile[leaf]) * LEAF_TILE, end = leaves[3 * leaf + 1];
  end = begin + LEAF_TILE < end ? begin + LEAF_TILE : end;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) values[rows[i]] = value[leaf];
}

// Leaf values of all rows, found by descending the tree.
extern "C" __global__ void predict_codes(i64 n, int width, const u8* codes, const i64* feature, const u8* left_codes, const i64* child, int n_splits, const double* value, double* values) {
  GRID_STRIDE_LOOP(row, n) {
    i64 node = 0;
    while (node >= 0) {
      int left = left_codes[256 * node + codes[row * width + feature[node]]];
      node = child[left ? node : n_splits + node];
    }
    values[row] = value[-1 - node];
  }
}

// -- prediction, see weak_rankers/trees.py --------------------------------------------------------

// A split with `number` as threshold, or a leaf: its feature is -1, and `number` is its value times the
// weight of the tree.
struct TreeNode {
  double number;
  int feature, left, right, missing;  // missing: 1 if missing values go right
};

// Scores of rows, one thread each. The features in use are copied to shared memory first.
template <typename Number>
__device__ void score_rows(i64 n, i64 width, const Number* X, int n_features, const i64* features, int n_trees, const i64* start, const TreeNode* tree_nodes, double* scores) {
  extern __shared__ double shared_rows[];
  Number* x = (Number*)shared_rows;
  int block_rows = blockDim.x, stride = n_features | 1;
  i64 first = blockIdx.x * (i64)block_rows;
  int rows = n - first < block_rows ? (int)(n - first) : block_rows;
  for (int i = threadIdx.x; i < rows * n_features; i += blockDim.x)
    x[(i / n_features) * stride + i % n_features] = X[(first + i / n_features) * width + features[i % n_features]];
  __syncthreads();
  if ((int)threadIdx.x >= rows) return;
  const Number* row = x + threadIdx.x * stride;
  double score = 0.0;
  for (int tree = 0; tree < n_trees; tree++) {
    const TreeNode* root = tree_nodes + start[tree];
    const TreeNode* node = root;
    while (node->feature >= 0) {
      double value = (double)row[node->feature];
      int right = value != value ? node->missing : value > node->number;
      node = root + (right ? node->right : node->left);
    }
    score += node->number;
  }
  scores[first + threadIdx.x] = score;
}

extern "C" __global__ void score_singles(i64 n, i64 width, const float* X, int n_features, const i64* features, int n_trees, const i64* start, const TreeNode* tree_nodes, double* scores) {
  score_rows(n, width, X, n_features, features, n_trees, start, tree_nodes, scores);
}

extern "C" __global__ void score_doubles(i64 n, i64 width, const double* X, int n_features, const i64* features, int n_trees, const i64* start, const TreeNode* tree_nodes, double* scores) {
  score_rows(n, width, X, n_features, features, n_trees, start, tree_nodes, scores);
}

// -- exponential losses, see risks/by_level.py ---------------------------------------------------
//
// Levels are cut into chunks of rows, one warp each. Sums over a level are sums of integers.

// Maxima of -s and of power * s over each level for s = rate * score, plus the logarithms of the weights
// if `weighted`, as ordered bits. See `_chunk_extremes`.
extern "C" __global__ void level_extremes(int n_chunks, const i64* start, const i64* level, double rate, double power, int weighted, const double* scores, const double* log_weight, u64* extremes) {
  int chunk = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (chunk >= n_chunks) return;
  double lowest = INFINITE, highest = -INFINITE;
  for (i64 row = start[chunk] + lane; row < start[chunk + 1]; row += 32) {
    double margin = rate * scores[row];
    double low = weighted ? margin - log_weight[row] : margin;
    double high = weighted ? power * margin + log_weight[row] : margin;
    lowest = low < lowest ? low : lowest;
    highest = high > highest ? high : highest;
  }
  double first = warp_max(-lowest), second = warp_max(highest);
  if (!weighted) second = second * power;
  if (lane == 0) {
    atomicMax(&extremes[2 * level[chunk]], ordered_bits(first));
    atomicMax(&extremes[2 * level[chunk] + 1], ordered_bits(second));
  }
}

// Add a term as two integers, multiples of 2^-31 and of 2^-62; see `_sum_chunk_terms`.
__device__ __forceinline__ void add_term(double term, i64& high, i64& low) {
  double coarse = (term + 3145728.0) - 3145728.0;
  high += (i64)(coarse * HIGH);
  low += (i64)((((term - coarse) + 0.00146484375) - 0.00146484375) * LOW);
}

// Add the sums of the threads of a warp to the words of a level.
__device__ __forceinline__ void add_to_level(i64* sums, u64* words) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    i64 sum = warp_sum(sums[j]);
    if ((threadIdx.x & 31) == 0) atomicAdd(&words[j], (u64)sum);
  }
}

// Terms of rows as winners and as losers, relative to the largest of their level, and their sums; see
// `_chunk_terms`.
extern "C" __global__ void level_terms(int n_chunks, const i64* start, const i64* level, double rate, double power, int weighted, const double* scores, const double* log_weight, const u64* extremes, i64 n_rows, double* terms, u64* words) {
  int chunk = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (chunk >= n_chunks) return;
  i64 chunk_level = level[chunk];
  double low = -from_ordered_bits(extremes[2 * chunk_level]), high = from_ordered_bits(extremes[2 * chunk_level + 1]);
  bool divides = power == 1.0 && !weighted;
  double product = divides ? portable_exp(low - high) : 0.0;
  i64 sums[4] = {0, 0, 0, 0};
  for (i64 row = start[chunk] + lane; row < start[chunk + 1]; row += 32) {
    double margin = rate * scores[row];
    double winner_term = low - margin, loser_term = power * margin - high;
    if (weighted) { winner_term += log_weight[row]; loser_term += log_weight[row]; }
    winner_term = portable_exp(winner_term);
    if (product > 1e-280) {
      loser_term = product / winner_term;
      loser_term = loser_term < 1.0 ? loser_term : 1.0;
    } else loser_term = portable_exp(loser_term);
    terms[row] = winner_term;
    terms[n_rows + row] = loser_term;
    add_term(winner_term, sums[0], sums[1]);
    add_term(loser_term, sums[2], sums[3]);
  }
  add_to_level(sums, words + 4 * chunk_level);
}

__device__ __forceinline__ double sum_of_level(const i64* words, i64 level, int column) {
  return (double)words[4 * level + column] * 4.656612873077393e-10 + (double)words[4 * level + column + 1] * 2.168404344971009e-19;
}

__device__ __forceinline__ double logaddexp(double a, double b) {
  if (a < b) { double c = a; a = b; b = c; }
  if (b == -INFINITE) return a;
  return a + portable_log1p(portable_exp(b - a));
}

// Fill `by_level` for the query of each thread, with weights relative to the query; see
// `_fill_levels_of_queries`.
extern "C" __global__ void fill_levels(int n_queries, const i64* query_start, const i64* words, const u64* extremes, double power, const double* log_balance, i64 n_levels, double* by_level, double* level_extremes, double* log_query) {
  int query = blockIdx.x * blockDim.x + threadIdx.x;
  if (query >= n_queries) return;
  double *winner_sum = by_level, *loser_sum = by_level + n_levels, *winner_weight = by_level + 2 * n_levels;
  double *loser_weight = by_level + 3 * n_levels, *old_share = by_level + 4 * n_levels, *new_share = by_level + 5 * n_levels;
  i64 first_level = query_start[query], end_level = query_start[query + 1];
  double above = -INFINITE;
  for (i64 level = end_level - 1; level >= first_level; level--) {
    double low = -from_ordered_bits(extremes[2 * level]);
    level_extremes[level] = low;
    level_extremes[n_levels + level] = from_ordered_bits(extremes[2 * level + 1]);
    winner_sum[level] = sum_of_level(words, level, 0);
    loser_sum[level] = sum_of_level(words, level, 2);
    double log_winner = portable_log(winner_sum[level]) - low;
    winner_weight[level] = log_winner;
    loser_weight[level] = above;
    above = logaddexp(above, log_winner);
  }
  double below = -INFINITE, total = -INFINITE;
  old_share[first_level] = 0.0;
  new_share[first_level] = 0.0;
  for (i64 level = first_level; level < end_level; level++) {
    double log_loser = portable_log(loser_sum[level]) + level_extremes[n_levels + level] + log_balance[level];
    above = loser_weight[level];
    double log_winner = winner_weight[level] + below;
    winner_weight[level] = log_winner;
    loser_weight[level] = power * above + log_loser;
    total = logaddexp(total, log_winner);
    if (level < end_level - 1) {
      double log_weighted_loser = log_loser;
      if (power != 1.0) log_weighted_loser += (power - 1.0) * above;
      double merged = logaddexp(below, log_weighted_loser);
      old_share[level + 1] = portable_exp(below - merged);
      new_share[level + 1] = portable_exp(log_weighted_loser - merged);
      below = merged;
    }
  }
  for (i64 level = first_level; level < end_level; level++) {
    winner_weight[level] = portable_exp(winner_weight[level] - total);
    loser_weight[level] = portable_exp(loser_weight[level] - total);
  }
  log_query[query] = total;
}

// Logarithm of a sum of exponentials, by one thread block; see `log_sum_exp` in engine/exact.py.
extern "C" __global__ void log_sum_exp(int count, const double* logs, double* result) {
  __shared__ double warp_largest[32];
  __shared__ i64 partials[32];
  double largest = -INFINITE;
  for (int i = threadIdx.x; i < count; i += blockDim.x) largest = logs[i] > largest ? logs[i] : largest;
  largest = warp_max(largest);
  if ((threadIdx.x & 31) == 0) warp_largest[threadIdx.x >> 5] = largest;
  __syncthreads();
  for (int warp = 0; warp < (int)(blockDim.x + 31) / 32; warp++) largest = warp_largest[warp] > largest ? warp_largest[warp] : largest;
  i64 high = 0, low = 0;
  if (largest > -INFINITE && largest < INFINITE)  // halves are below 1, as the words require
    for (int i = threadIdx.x; i < count; i += blockDim.x)
      add_fixed_point(portable_exp(logs[i] - largest) * 0.5 * HIGH, high, low);
  high = block_sum(high, partials);
  low = block_sum(low, partials);
  if (threadIdx.x > 0) return;
  double total = ((double)high / HIGH + (double)low / LOW) * 2.0;
  *result = largest > -INFINITE && largest < INFINITE ? largest + portable_log(total) : largest;
}

// Make the weights of levels, shares of the gradient sum of a query, shares of that of all queries.
extern "C" __global__ void scale_levels(i64 n_levels, const i64* query, const double* log_query, const double* log_value, double* by_level) {
  GRID_STRIDE_LOOP(level, n_levels) {
    double share = portable_exp(log_query[query[level]] - *log_value);
    by_level[2 * n_levels + level] = by_level[2 * n_levels + level] * share;
    by_level[3 * n_levels + level] = by_level[3 * n_levels + level] * share;
  }
}

extern "C" __global__ void level_pulls(int n_chunks, const i64* start, const i64* level, i64 n_levels, const double* by_level, i64 n_rows, const double* terms, double* pull) {
  int chunk = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (chunk >= n_chunks) return;
  i64 chunk_level = level[chunk];
  double winner_factor = by_level[2 * n_levels + chunk_level] / by_level[chunk_level];
  double loser_factor = by_level[3 * n_levels + chunk_level] / by_level[n_levels + chunk_level];
  for (i64 row = start[chunk] + lane; row < start[chunk + 1]; row += 32)
    pull[row] = terms[row] * winner_factor - terms[n_rows + row] * loser_factor;
}

// Contribution of the curved price to the Hessian, by level; a thread has a query. `above` is working
// memory. See `_price_curvatures_of_queries`.
extern "C" __global__ void price_curvatures(int n_queries, const i64* query_start, i64 n_levels, const double* by_level, const double* extremes, double power, const double* log_balance, double log_value, double* above, double* price_curvature) {
  int query = blockIdx.x * blockDim.x + threadIdx.x;
  if (query >= n_queries) return;
  i64 first_level = query_start[query], end_level = query_start[query + 1];
  double sum = -INFINITE;
  for (i64 level = end_level - 1; level >= first_level; level--) {
    above[level] = sum;
    sum = logaddexp(sum, portable_log(by_level[level]) - extremes[level]);
  }
  double below = -INFINITE;
  for (i64 level = first_level; level < end_level; level++) {
    double log_winner = portable_log(by_level[level]) - extremes[level];
    price_curvature[level] = (power - 1.0) * portable_exp(2.0 * log_winner + below - log_value);
    if (level < end_level - 1) {
      double log_loser = portable_log(by_level[n_levels + level]) + extremes[n_levels + level] + log_balance[level];
      below = logaddexp(below, log_loser + (power - 2.0) * above[level]);
    }
  }
}

extern "C" __global__ void level_hessians(int n_chunks, const i64* start, const i64* level, i64 n_levels, const double* by_level, i64 n_rows, const double* terms, const double* price_curvature, double loser_power, double rate, double* hessian) {
  int chunk = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (chunk >= n_chunks) return;
  i64 chunk_level = level[chunk];
  double winner_factor = by_level[2 * n_levels + chunk_level] / by_level[chunk_level];
  double loser_factor = by_level[3 * n_levels + chunk_level] / by_level[n_levels + chunk_level];
  double quadratic = price_curvature[chunk_level] / (by_level[chunk_level] * by_level[chunk_level]);
  for (i64 row = start[chunk] + lane; row < start[chunk + 1]; row += 32)
    hessian[row] = rate * (terms[row] * (winner_factor + quadratic * terms[row]) + loser_power * loser_factor * terms[n_rows + row]);
}

// Sums of the terms of the rows where a weak ranker is 1, by level.
extern "C" __global__ void sum_ones(int n_chunks, const i64* start, const i64* level, i64 n_rows, const double* terms, const u8* values, u64* words) {
  int chunk = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (chunk >= n_chunks) return;
  i64 sums[4] = {0, 0, 0, 0};
  for (i64 row = start[chunk] + lane; row < start[chunk + 1]; row += 32)
    if (values[row]) {
      add_term(terms[row], sums[0], sums[1]);
      add_term(terms[n_rows + row], sums[2], sums[3]);
    }
  add_to_level(sums, words + 4 * level[chunk]);
}

// Weights of the pairs that a weak ranker orders correctly and wrongly, by query; see
// `_ordered_weights_of_queries`.
extern "C" __global__ void ordered_weights(int n_queries, const i64* query_start, const i64* ones, const i64* all, i64 n_levels, const double* by_level, double* correct, double* wrong) {
  int query = blockIdx.x * blockDim.x + threadIdx.x;
  if (query >= n_queries) return;
  i64 first_level = query_start[query], end_level = query_start[query + 1];
  double zeros_below = 0.0, ones_below = 0.0, correct_sum = 0.0, wrong_sum = 0.0;
  double previous_one = 0.0, previous_zero = 0.0;
  for (i64 level = first_level; level < end_level; level++) {
    i64 zeros[4];
    for (int j = 0; j < 4; j++) zeros[j] = all[4 * level + j] - ones[4 * level + j];
    if (level > first_level) {
      double old_share = by_level[4 * n_levels + level], new_share = by_level[5 * n_levels + level];
      ones_below = old_share * ones_below + new_share * previous_one / (previous_one + previous_zero);
      zeros_below = old_share * zeros_below + new_share * previous_zero / (previous_one + previous_zero);
    }
    double one = sum_of_level(ones, level, 0), zero = sum_of_level(zeros, 0, 0);
    double winner_weight = by_level[2 * n_levels + level];
    correct_sum += winner_weight * one / (one + zero) * zeros_below;
    wrong_sum += winner_weight * zero / (one + zero) * ones_below;
    previous_one = sum_of_level(ones, level, 2);
    previous_zero = sum_of_level(zeros, 0, 2);
  }
  correct[query] = correct_sum;
  wrong[query] = wrong_sum;
}

extern "C" __global__ void advance_by_bytes(i64 n, double* scores, const u8* values, double weight) {
  GRID_STRIDE_LOOP(i, n)
    scores[i] = scores[i] + weight * (double)values[i];
}

// -- stumps, see weak_rankers/stumps.py and engine/histograms.py ---------------------------------

// Most rows between two carries: sums of that many words of 20 bits, plus a remainder, stay below 2^32.
#define CARRY_ROWS 4000

// Sums of the pulls, in units of 2^-61, over the bins of 32 features (y); a thread block of 512 threads
// has `block_rows` rows (x). Shared memory has fast atomic additions of 32 bits only, so a sum is stored
// as three words, of 20, 20 and 32 bits.
extern "C" __global__ void stump_fill(i64 n, i64 block_rows, int width, int features, const u8* codes, const double* pull, u64* sums) {
  extern __shared__ u32 first[];
  u32 *second = first + 32 * STRIDE, *third = second + 32 * STRIDE;
  i64 begin = blockIdx.x * block_rows, end = begin + block_rows < n ? begin + block_rows : n;
  int quad = threadIdx.x & 7, row0 = threadIdx.x >> 3, step = blockDim.x >> 3;
  int first_bin = quad * 4 * STRIDE;
  bool used = 32 * (int)blockIdx.y + 4 * quad < features;
  const u8* group = codes + 32 * blockIdx.y + 4 * quad;
  for (int j = threadIdx.x; j < 3 * 32 * STRIDE; j += blockDim.x) first[j] = 0;
  __syncthreads();
  for (i64 low = begin; low < end; low += CARRY_ROWS) {
    i64 high = low + CARRY_ROWS < end ? low + CARRY_ROWS : end;
    if (used) {
#pragma unroll 4
      for (i64 row = low + row0; row < high; row += step) {
        i64 integer = (i64)rint(pull[row] * 2305843009213693952.0);
        u32 four_codes = *(const u32*)(group + row * width);
        u32 low_word = (u32)integer & 0xFFFFF, middle_word = (u32)(integer >> 20) & 0xFFFFF, high_word = (u32)(integer >> 40);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int bin = first_bin + j * STRIDE + ((four_codes >> (8 * j)) & 255);
          atomicAdd(first + bin, low_word);
          atomicAdd(second + bin, middle_word);
          atomicAdd(third + bin, high_word);
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

__device__ __forceinline__ i64 least_tied(i64 largest) { return largest - (largest >> 40) - 256; }

// Signed edge, first code above the threshold and side of missing values of the best stump of a feature,
// by 256 threads; see `_find_cut` in engine/histograms.py. Edges must have the sign `sign`; 0 allows
// both.
__device__ void find_cut(const u64* sums, int bins, int missing, int sign, i64 least, i64* best) {
  __shared__ i64 partials[16];
  __shared__ i64 total;
  __shared__ int chosen;
  int code = threadIdx.x, factor = sign ? sign : 1;
  i64 own_sum = code < bins ? factor * (i64)__ldcg(&sums[code]) : 0, up_to = own_sum, unused = 0;
  i64 missing_sum = factor * (i64)__ldcg(&sums[255]);
  prefix_sums(up_to, unused, partials);
  if (code == 255) { total = up_to; chosen = 1 << 20; }
  __syncthreads();
  i64 edge = total - (up_to - own_sum), other = edge + missing_sum;
  i64 size = sign || edge > 0 ? edge : -edge, other_size = sign || other > 0 ? other : -other;
  // With a threshold of `bins` only missing values are above it.
  bool below = code < bins && (code > 0 || missing), above = code < bins + (sign != 0) && code > 0 && missing;
  i64 largest = below && size > 0 ? size : 0;
  if (above && other_size > largest) largest = other_size;
  largest = block_max(largest, partials);
  if (least < 0) least = least_tied(largest);
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

// The best stump. A thread block of 256 threads has a feature; the last one to finish compares all
// features. `answer`: feature (-1 if there is none), edge, first code above the threshold, side of
// missing values.
extern "C" __global__ void stump_search(int features, const i64* n_bins, const u8* missing, const signed char* signs, const u8* allowed, const u64* sums, i64* best, u64* searched, i64* answer) {
  __shared__ int last, winner;
  __shared__ i64 partials[16];
  int feature = blockIdx.x;
  if (allowed[feature])
    find_cut(sums + 256 * feature, (int)n_bins[feature], missing[feature], signs[feature], -1, best + 3 * feature);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) { last = atomicAdd(searched, 1ULL) == gridDim.x - 1; winner = features; }
  __syncthreads();
  if (!last) return;
  __threadfence();
  i64 largest = 0;
  for (int j = threadIdx.x; j < features; j += blockDim.x)
    if (allowed[j]) {
      i64 edge = __ldcg(&best[3 * j]);
      edge = edge < 0 ? -edge : edge;
      largest = edge > largest ? edge : largest;
    }
  largest = block_max(largest, partials);
  i64 least = least_tied(largest);
  for (int j = threadIdx.x; j < features; j += blockDim.x)
    if (allowed[j]) {
      i64 edge = __ldcg(&best[3 * j]);
      if ((edge < 0 ? -edge : edge) >= least) { atomicMin(&winner, j); break; }
    }
  __syncthreads();
  if (largest <= 0) {
    if (threadIdx.x == 0) { answer[0] = -1; answer[1] = 0; answer[2] = 0; answer[3] = 0; }
    return;
  }
  i64 edge = __ldcg(&best[3 * winner]);
  if ((edge < 0 ? -edge : edge) < largest)  // it ties with the best: take its first stump that does
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
  GRID_STRIDE_LOOP(row, n) {
    u8 code = codes[row * width + feature];
    values[row] = code == 255 ? missing : code >= first;
  }
}

// -- pairs of features, see engine/histograms.py -------------------------------------------------

// Sums of words over the cells of the three pairs of each triple (y) of features; a thread block has
// `block_rows` rows (x). The halves of a word, pull and weight, are summed separately modulo 2^32, which
// is exact because no sum overflows.
extern "C" __global__ void triple_fill(i64 n, i64 block_rows, int features, const u8* codes, const i64* triples, const i64* words, u64* sums) {
  __shared__ u32 pulls[4096], weights[4096];
  const i64* triple = triples + 3 * blockIdx.y;
  const u8 *a = codes + triple[0] * n, *b = codes + triple[1] * n;
  bool three = triple[2] < features;
  const u8* c = codes + (three ? triple[2] : 0) * n;
  for (int j = threadIdx.x; j < 4096; j += blockDim.x) { pulls[j] = 0; weights[j] = 0; }
  __syncthreads();
  i64 begin = blockIdx.x * block_rows, end = begin + block_rows < n ? begin + block_rows : n;
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
    int pair = j >> 8, first = j >> 4 & 15, second = j & 15;
    int cells = pair == 0 ? first << 8 | second << 4 : pair == 1 ? first << 8 | second : first << 4 | second;
    int step = pair == 0 ? 1 : pair == 1 ? 16 : 256;
    u32 pull = 0, weight = 0;
    for (int k = 0; k < 16; k++) { pull += pulls[cells + k * step]; weight += weights[cells + k * step]; }
    u64 sum = ((u64)pull << 32) + weight;
    if (sum != 0) atomicAdd(&out[j], sum);
  }
}

// -- one weight for every pair, see risks/pair_weights.py ----------------------------------------
//
// A thread block has a chunk of the winners of a query, 32 winners and 64 losers at a time. Sums are
// taken in the order of the CPU. Weights are stored, or recomputed from the `factors` of all rounds: four
// for each round, by the values of winner and loser, which are stored in `bits`.

#define WINNERS 32
#define LOSERS 64

__device__ __forceinline__ double recomputed_weight(double weight, int n_rounds, const double* factors, const u64* bits, i64 n, i64 winner, i64 loser) {
  for (int word = 0; 64 * word < n_rounds; word++) {
    u64 winner_bits = bits[word * n + winner], loser_bits = bits[word * n + loser];
    int rounds_of_word = n_rounds - 64 * word < 64 ? n_rounds - 64 * word : 64;
    for (int s = 0; s < rounds_of_word; s++)
      weight *= __ldg(&factors[4 * (64 * word + s) + 2 * (int)(winner_bits >> s & 1) + (int)(loser_bits >> s & 1)]);
  }
  return weight;
}

// Multiply the weights of a chunk and sum them by row (also over losers of value 1 only) and by column;
// see `_multiply_and_sum`. `mode`: whether weights are read (bit 0) and written (bit 1); they are
// recomputed if not read.
extern "C" __global__ void multiply_and_sum(const i64* order, const i64* chunks, const i64* column_start, const i64* count, const i64* start, const u8* values, double tied, double wrong, double correct, int mode, double* weights, int n_rounds, const double* factors, const u64* bits, i64 n, const double* weight, const double* loser_weight, double scale, double* row_sums, double* row_ones, double* columns) {
  __shared__ double tile[WINNERS][LOSERS + 1], ones[LOSERS], partials[8][WINNERS];
  i64 chunk = order[blockIdx.x];
  i64 bottom = chunks[4 * chunk], begin = chunks[4 * chunk + 1], end = chunks[4 * chunk + 2];
  double* column = columns + column_start[chunk];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, part = warp & 3;
  i64 previous_losers = 0;
  for (i64 first_winner = begin; first_winner < end; first_winner += WINNERS) {
    i64 row = first_winner + lane, n_losers = row < end ? count[row] : 0, whole = n_losers - n_losers % 4;
    i64 max_losers = count[(first_winner + WINNERS < end ? first_winner + WINNERS : end) - 1];
    double sum = 0.0;
    for (i64 first_loser = 0; first_loser < max_losers; first_loser += LOSERS) {
      for (int j = threadIdx.x; j < WINNERS * LOSERS; j += blockDim.x) {
        int r = j / LOSERS, c = j % LOSERS;
        i64 winner = first_winner + r, k = first_loser + c;
        double w = 0.0;
        if (winner < end && k < count[winner]) {
          i64 index = start[winner] + k;
          if (mode & 1) {
            u8 above = values[winner], below = values[bottom + k];
            w = weights[index] * (above == below ? tied : above ? correct : wrong);
          } else w = recomputed_weight(weight[winner] * loser_weight[bottom + k] * scale, n_rounds, factors, bits, n, winner, bottom + k);
          if (mode & 2) weights[index] = w;
        }
        tile[r][c] = w;
      }
      if (threadIdx.x < LOSERS) ones[threadIdx.x] = first_loser + threadIdx.x < max_losers ? (double)values[bottom + first_loser + threadIdx.x] : 0.0;
      __syncthreads();
      for (int c = part; c < LOSERS && first_loser + c < whole; c += 4)
        sum += warp < 4 ? tile[lane][c] : tile[lane][c] * ones[c];
      if (part == 0 && whole >= first_loser && whole < first_loser + LOSERS)
        for (int c = (int)(whole - first_loser); first_loser + c < n_losers; c++)
          sum += warp < 4 ? tile[lane][c] : tile[lane][c] * ones[c];
      if (threadIdx.x < LOSERS && first_loser + threadIdx.x < max_losers) {
        i64 k = first_loser + threadIdx.x;
        double total = k < previous_losers ? column[k] : 0.0;
        for (int r = 0; r < WINNERS; r++) total += tile[r][threadIdx.x];
        column[k] = total;
      }
      __syncthreads();
    }
    partials[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && row < end) {
      row_sums[row] = (partials[0][lane] + partials[1][lane]) + (partials[2][lane] + partials[3][lane]);
      row_ones[row] = (partials[4][lane] + partials[5][lane]) + (partials[6][lane] + partials[7][lane]);
    }
    __syncthreads();
    previous_losers = max_losers;
  }
}

// Total weight of the pairs of each chunk (one thread), and of those that the weak ranker ties.
extern "C" __global__ void sum_chunks(int n_chunks, const i64* chunks, const u8* values, const double* row_sums, const double* row_ones, double* totals, double* ties) {
  int chunk = blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk >= n_chunks) return;
  double total = 0.0, tied = 0.0;
  for (i64 row = chunks[4 * chunk + 1]; row < chunks[4 * chunk + 2]; row++) {
    total += row_sums[row];
    tied += values[row] == 1 ? row_ones[row] : row_sums[row] - row_ones[row];
  }
  totals[chunk] = total;
  ties[chunk] = tied;
}

// Pulls: row sums minus column sums, divided by the total weight. The column sums of the chunks of a
// query are added in order.
extern "C" __global__ void subtract_columns(i64 n, const i64* query, const i64* first_chunk, const i64* chunks, const i64* column_start, const double* columns, const double* row_sums, double total, double* pull) {
  GRID_STRIDE_LOOP(row, n) {
    double column_sum = 0.0;
    for (i64 chunk = first_chunk[query[row]]; chunk < first_chunk[query[row] + 1]; chunk++) {
      i64 index = column_start[chunk] + row - chunks[4 * chunk];
      if (index < column_start[chunk + 1]) column_sum += columns[index];
    }
    pull[row] = (row_sums[row] - column_sum) / total + 0.0;
  }
}

// Store the value of a weak ranker in a bit of the word of each row.
extern "C" __global__ void store_bit(i64 n, int bit, const u8* values, u64* bits) {
  GRID_STRIDE_LOOP(row, n) {
    u64 others = bit ? bits[row] & ~(1ULL << bit) : 0;
    bits[row] = others | (u64)values[row] << bit;
  }
}

// Weights of the pairs that each of eight weak rankers ties, by winner, by 288 threads. The low eight
// bits of `ranker_bits` are the values of the weak rankers.
extern "C" __global__ void tied_weights(const i64* order, const i64* chunks, const i64* count, const i64* start, const u64* ranker_bits, int stored, const double* weights, int n_rounds, const double* factors, const u64* bits, i64 n, const double* weight, const double* loser_weight, double scale, double* by_winner) {
  __shared__ double tile[WINNERS][LOSERS + 1], sums[9][WINNERS];
  __shared__ u32 ones[LOSERS];
  i64 chunk = order[blockIdx.x];
  i64 bottom = chunks[4 * chunk], begin = chunks[4 * chunk + 1], end = chunks[4 * chunk + 2];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (i64 first_winner = begin; first_winner < end; first_winner += WINNERS) {
    i64 row = first_winner + lane, n_losers = row < end ? count[row] : 0;
    i64 max_losers = count[(first_winner + WINNERS < end ? first_winner + WINNERS : end) - 1];
    double sum = 0.0;
    for (i64 first_loser = 0; first_loser < max_losers; first_loser += LOSERS) {
      for (int j = threadIdx.x; j < WINNERS * LOSERS; j += blockDim.x) {
        int r = j / LOSERS, c = j % LOSERS;
        i64 winner = first_winner + r, k = first_loser + c;
        double w = 0.0;
        if (winner < end && k < count[winner]) {
          if (stored) w = weights[start[winner] + k];
          else w = recomputed_weight(weight[winner] * loser_weight[bottom + k] * scale, n_rounds, factors, bits, n, winner, bottom + k);
        }
        tile[r][c] = w;
      }
      if (threadIdx.x < LOSERS) ones[threadIdx.x] = first_loser + threadIdx.x < max_losers ? (u32)ranker_bits[bottom + first_loser + threadIdx.x] | 256u : 256u;
      __syncthreads();
      for (int c = 0; c < LOSERS && first_loser + c < n_losers; c++)
        if (ones[c] >> warp & 1) sum += tile[lane][c];
      __syncthreads();
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp < 8 && row < end) {
      double value = (double)(ranker_bits[row] >> warp & 1), tied_ones = sums[warp][lane];
      by_winner[warp * n + row] = value * tied_ones + (1.0 - value) * (sums[8][lane] - tied_ones);
    }
    __syncthreads();
  }
}

// Sums of `tied_weights` over the winners of each chunk (x) in order, for each weak ranker (y).
extern "C" __global__ void sum_tied_weights(int n_chunks, const i64* chunks, i64 n, const double* by_winner, double* sums) {
  int chunk = blockIdx.x * blockDim.x + threadIdx.x;
  if (chunk >= n_chunks) return;
  double tied = 0.0;
  for (i64 row = chunks[4 * chunk + 1]; row < chunks[4 * chunk + 2]; row++) tied += by_winner[blockIdx.y * n + row];
  sums[blockIdx.y * (i64)n_chunks + chunk] = tied;
}

// Coordinates of a weak ranker, see `_sketch` in weak_rankers/candidates.py; if there are `few`, a thread
// block sums them in shared memory.
extern "C" __global__ void sketch(i64 n, const u8* values, const i64* reference, int width, int few, u64* coordinates) {
  extern __shared__ u64 own_coordinates[];
  u64* sums = few ? own_coordinates : coordinates;
  if (few)
    for (int k = threadIdx.x; k < width; k += blockDim.x) sums[k] = 0;
  __syncthreads();
  GRID_STRIDE_LOOP(row, n) {
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

