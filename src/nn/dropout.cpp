#include "multihead/nn/dropout.hpp"

#include <cmath>

#include "core/philox.hpp"
#include "core/splitmix64.hpp"
#include "kernels/dropout_rows.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

// 2^32 stands for "no word is kept".
std::uint64_t threshold_of(double probability) {
  return static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
}

// Word j % 4 of the block that decides about feature j.
std::uint32_t word(std::uint64_t key, index_t sequence_id, index_t i, index_t j) {
  return philox(key, {{static_cast<std::uint32_t>(j / 4), static_cast<std::uint32_t>(i), 0,
                       static_cast<std::uint32_t>(sequence_id)}})
      .word[j % 4];
}

template <class T>
void drop_row(const RowDropout& dropout, index_t sequence_id, index_t i, const T* x, T* y, index_t features,
              bool accumulate) {
  const std::uint64_t threshold = threshold_of(dropout.probability);
  const double scale = dropout.probability < 1 ? 1 / (1 - dropout.probability) : 0;
  if (threshold > 0xffffffffu) {
    for (index_t j = 0; j < features && !accumulate; ++j) y[j] = 0;
  } else if constexpr (std::is_same_v<T, float>) {
    kernels::dropout_row({dropout.key, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(sequence_id),
                          static_cast<std::uint32_t>(threshold), static_cast<float>(scale)},
                         x, y, features, accumulate);
  } else {
    for (index_t j = 0; j < features; ++j) {
      const T kept = word(dropout.key, sequence_id, i, j) >= threshold ? x[j] * scale : T{0};
      y[j] = accumulate ? y[j] + kept : kept;
    }
  }
}

template <class T>
void pass_on(TensorView<const T, 2> x, TensorView<T, 2> y, bool accumulate) {
  if (!accumulate && x.data() == y.data()) return;
  for (index_t n = 0; n < x.shape(0); ++n) {
    const T* from = &x(n, 0);
    T* to = &y(n, 0);
    for (index_t j = 0; j < x.shape(1); ++j) to[j] = accumulate ? to[j] + from[j] : from[j];
  }
}

}  // namespace

std::uint64_t dropout_key(std::uint64_t seed, std::uint64_t step, std::uint64_t place) {
  return splitmix64(splitmix64(splitmix64(seed) ^ step) ^ place);
}

bool row_dropout_keeps(const RowDropout& dropout, index_t sequence_id, index_t i, index_t j) {
  return word(dropout.key, sequence_id, i, j) >= threshold_of(dropout.probability);
}

template <class T>
void apply_dropout(const RowDropout& dropout, TensorView<const T, 2> x, TensorView<T, 2> y, bool accumulate,
                   Executor* threads) {
  const char* function = "apply_dropout";
  require(dropout.probability >= 0 && dropout.probability <= 1, function, "probability must be in [0, 1]",
          {{"probability", dropout.probability}});
  require(y.shape() == x.shape() && has_contiguous_rows(x) && has_contiguous_rows(y), function,
          "x and y must have one shape, with contiguous rows", {{"x", text_of(x)}, {"y", text_of(y)}});
  if (dropout.probability == 0) return pass_on(x, y, accumulate);
  const auto& offsets = dropout.offsets;
  require(bool(offsets) && offsets.shape(0) > 0, function, "offsets must be given where something is dropped");
  const index_t batch = offsets.shape(0) - 1;
  require(offsets(0) == 0 && offsets(batch) == x.shape(0), function, "offsets must go from 0 to the rows of x",
          {{"first", offsets(0)}, {"last", offsets(batch)}, {"x", text_of(x)}});
  for (index_t b = 0; b < batch; ++b) {
    require(offsets(b) <= offsets(b + 1), function, "offsets must not descend",
            {{"b", b}, {"offset", offsets(b)}, {"next", offsets(b + 1)}});
  }
  require(!dropout.sequence_ids || dropout.sequence_ids.shape(0) == batch, function, "sequence_ids must be [B]",
          {{"sequence_ids", text_of(dropout.sequence_ids)}, {"B", batch}});
  for (index_t b = 0; dropout.sequence_ids && b < batch; ++b) {
    const index_t id = dropout.sequence_ids(b);
    require(id >= 0 && id <= index_t{0xffffffff}, function, "sequence_ids must be in [0, 2^32)",
            {{"b", b}, {"sequence_id", id}});
  }
  constexpr index_t kSequencesPerTask = 8;
  for_blocks(threads, batch, kSequencesPerTask, [&](index_t begin, index_t end) {
    for (index_t b = begin; b < end; ++b) {
      const index_t id = dropout.sequence_ids ? dropout.sequence_ids(b) : b;
      for (index_t n = offsets(b); n < offsets(b + 1); ++n) {
        drop_row(dropout, id, n - offsets(b), &x(n, 0), &y(n, 0), x.shape(1), accumulate);
      }
    }
  });
}

template void apply_dropout(const RowDropout&, TensorView<const float, 2>, TensorView<float, 2>, bool, Executor*);
template void apply_dropout(const RowDropout&, TensorView<const double, 2>, TensorView<double, 2>, bool, Executor*);

}  // namespace multihead::nn
