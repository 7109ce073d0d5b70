#include "multihead/nn/vocabulary_loss.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/training.hpp"
#include "multihead/matmul.hpp"
#include "nn/row_sums.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr const char* kFunction = "vocabulary_loss";

// Logits of 256 rows and 8,000 classes are 8 MB. Fewer rows read and write dweight more often than they save.
constexpr index_t kRowsPerBlock = 256;
constexpr index_t kRowsPerTask = 4;

struct RowLoss {
  double loss, nll;
};

struct RowSums {
  double max, sum_exp, sum;
};

RowSums sums_of(const float* x, index_t n) {
  const auto [max, sum_exp, sum] = kernels::training().row_statistics(x, n);
  return {max, sum_exp, sum};
}
RowSums sums_of(const double* x, index_t n) {
  const double max = *std::max_element(x, x + n);
  return {max, sum_of(n, [&](index_t j) { return std::exp(x[j] - max); }), sum_of(n, [&](index_t j) { return x[j]; })};
}

void softmax_gradient(float* x, index_t n, double max, double scale, double shift) {
  kernels::training().softmax_gradient(x, n, static_cast<float>(max), static_cast<float>(scale),
                                       static_cast<float>(shift));
}
void softmax_gradient(double* x, index_t n, double max, double scale, double shift) {
  for (index_t j = 0; j < n; ++j) x[j] = std::exp(x[j] - max) * scale - shift;
}

// The loss of a row of logits, which become their gradient where `gradient_scale` is given.
template <class T>
RowLoss loss_of(T* logits, index_t n, index_t target, double smoothing, const double* gradient_scale) {
  const RowSums row = sums_of(logits, n);
  const double lse = row.max + std::log(row.sum_exp), count = static_cast<double>(n);
  const double nll = lse - static_cast<double>(logits[target]);
  if (gradient_scale != nullptr) {
    const double by = *gradient_scale;
    softmax_gradient(logits, n, row.max, by / row.sum_exp, by * smoothing / count);
    logits[target] -= static_cast<T>(by * (1 - smoothing));
  }
  return {(1 - smoothing) * nll + smoothing * (lse - row.sum / count), nll};
}

template <class T>
void check(const VocabularyOutput<T>& output, TensorView<const T, 2> x, TensorView<const index_t, 1> targets,
           const VocabularyGradients<T>& gradients, const VocabularyLossOptions& options, TensorView<T, 1> nll) {
  const index_t num_rows = x.shape(0), vocab_size = output.weight.shape(0);
  require(vocab_size > 0 && output.weight.shape(1) == x.shape(1) && has_contiguous_rows(x) &&
              (!output.bias || output.bias.shape(0) == vocab_size) && targets.shape(0) == num_rows &&
              (!nll || nll.shape(0) == num_rows),
          kFunction, "x must be [n, E] with contiguous rows, weight [V, E], bias [V], targets and nll [n]",
          {{"x", text_of(x)},
           {"weight", text_of(output.weight)},
           {"bias", text_of(output.bias)},
           {"targets", text_of(targets)},
           {"nll", text_of(nll)}});
  require((!gradients.dx || (gradients.dx.shape() == x.shape() && has_contiguous_rows(gradients.dx))) &&
              (!gradients.dweight || gradients.dweight.shape() == output.weight.shape()) &&
              (!gradients.dbias || gradients.dbias.shape(0) == vocab_size),
          kFunction, "dx must be [n, E] with contiguous rows, dweight [V, E], dbias [V]",
          {{"dx", text_of(gradients.dx)},
           {"dweight", text_of(gradients.dweight)},
           {"dbias", text_of(gradients.dbias)},
           {"x", text_of(x)},
           {"weight", text_of(output.weight)}});
  require(options.label_smoothing >= 0 && options.label_smoothing < 1, kFunction, "label_smoothing must be in [0, 1)",
          {{"label_smoothing", options.label_smoothing}});
  for (index_t n = 0; n < num_rows; ++n) {
    if ((targets(n) >= 0 && targets(n) < vocab_size) || targets(n) == options.ignored) continue;
    require(false, kFunction, "a target must be in [0, V)",
            {{"target", targets(n)}, {"position", n}, {"V", vocab_size}});
  }
}

// scale * x, in memory of its own where there is something to scale.
template <class T>
TensorView<const T, 2> scaled(TensorView<const T, 2> x, double scale, Tensor<T, 2>& memory) {
  if (scale == 1) return x;
  memory = Tensor<T, 2>::uninitialized(x.shape());
  for (index_t n = 0; n < x.shape(0); ++n) {
    for (index_t j = 0; j < x.shape(1); ++j) memory(n, j) = static_cast<T>(x(n, j) * scale);
  }
  return memory.view();
}

}  // namespace

template <class T>
void vocabulary_logits(const VocabularyOutput<T>& output, TensorView<const T, 2> x, TensorView<T, 2> logits,
                       Executor* threads) {
  Tensor<T, 2> memory;
  matmul(scaled(x, output.scale, memory), output.weight, logits, {.bias = output.bias, .threads = threads});
}

template <class T>
VocabularyLoss vocabulary_loss(const VocabularyOutput<T>& output, TensorView<const T, 2> x,
                               TensorView<const index_t, 1> targets, const VocabularyGradients<T>& gradients,
                               const VocabularyLossOptions& options, TensorView<T, 1> nll) {
  check(output, x, targets, gradients, options, nll);
  const index_t num_rows = x.shape(0), vocab_size = output.weight.shape(0);
  const bool backward = gradients.dx || gradients.dweight || gradients.dbias;
  const bool several = num_rows > kRowsPerBlock;  // then packing pays
  const PackedMatrix<T> packed = several ? PackedMatrix<T>(output.weight, options.threads) : PackedMatrix<T>();
  const TensorView<const T, 2> transposed = output.weight.permute({1, 0});
  const PackedMatrix<T> packed_transposed =
      several && gradients.dx ? PackedMatrix<T>(transposed, options.threads) : PackedMatrix<T>();
  auto logits = Tensor<T, 2>::uninitialized({std::min(num_rows, kRowsPerBlock), vocab_size});
  std::vector<RowLoss> losses(static_cast<std::size_t>(num_rows), RowLoss{0, 0});
  Tensor<T, 2> memory;
  for (index_t begin = 0; begin < num_rows; begin += kRowsPerBlock) {
    const index_t end = std::min(num_rows, begin + kRowsPerBlock);
    const TensorView<T, 2> block = logits.view().slice(0, 0, end - begin);
    const TensorView<const T, 2> rows = scaled(x.slice(0, begin, end), output.scale, memory);
    matmul(rows, output.weight, block, {.bias = output.bias, .packed = &packed, .threads = options.threads});
    for_blocks(options.threads, end - begin, kRowsPerTask, [&](index_t first, index_t last) {
      for (index_t n = first; n < last; ++n) {
        T* const row = &block(n, 0);
        if (targets(begin + n) == options.ignored) {
          std::fill_n(row, vocab_size, T{0});
        } else {
          losses[static_cast<std::size_t>(begin + n)] =
              loss_of(row, vocab_size, targets(begin + n), options.label_smoothing,
                      backward ? &options.gradient_scale : nullptr);
        }
      }
    });
    if (gradients.dx) {
      const TensorView<T, 2> dx = gradients.dx.slice(0, begin, end);
      matmul(block, transposed, dx, {.packed = &packed_transposed, .threads = options.threads});
      for (index_t n = 0; output.scale != 1 && n < end - begin; ++n) {
        for (index_t j = 0; j < dx.shape(1); ++j) dx(n, j) = static_cast<T>(dx(n, j) * output.scale);
      }
    }
    if (gradients.dweight) {
      matmul(TensorView<const T, 2>(block).permute({1, 0}), rows.permute({1, 0}), gradients.dweight,
             {.accumulate = true, .threads = options.threads});
    }
    if (gradients.dbias) add_rows<T>(block, gradients.dbias, options.threads);
  }
  VocabularyLoss sum;
  for (index_t n = 0; n < num_rows; ++n) {
    const RowLoss& row = losses[static_cast<std::size_t>(n)];
    sum.loss += row.loss, sum.nll += row.nll;
    sum.num_targets += targets(n) != options.ignored;
    if (nll) nll(n) = static_cast<T>(row.nll);
  }
  return sum;
}

template void vocabulary_logits(const VocabularyOutput<float>&, TensorView<const float, 2>, TensorView<float, 2>,
                                Executor*);
template void vocabulary_logits(const VocabularyOutput<double>&, TensorView<const double, 2>, TensorView<double, 2>,
                                Executor*);
template VocabularyLoss vocabulary_loss(const VocabularyOutput<float>&, TensorView<const float, 2>,
                                        TensorView<const index_t, 1>, const VocabularyGradients<float>&,
                                        const VocabularyLossOptions&, TensorView<float, 1>);
template VocabularyLoss vocabulary_loss(const VocabularyOutput<double>&, TensorView<const double, 2>,
                                        TensorView<const index_t, 1>, const VocabularyGradients<double>&,
                                        const VocabularyLossOptions&, TensorView<double, 1>);

}  // namespace multihead::nn
