#include "multihead/nn/adam.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ceil_div.hpp"
#include "kernels/training.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr index_t kElementsPerTask = 1 << 14;  // four arrays of 64 KB in f32: within an L2 cache

template <class T>
bool is_contiguous(TensorView<T, 1> x) {
  return x && (x.shape(0) <= 1 || x.stride(0) == 1);
}

template <class T>
void check(const AdamTensors<T>& t, const AdamOptions& options, const AdamStepOptions& step) {
  const char* function = "adam_step";
  const bool present = is_contiguous(t.parameter) && is_contiguous(t.gradient) && is_contiguous(t.mean) &&
                       is_contiguous(t.mean_of_squares);
  const auto has_shape = [&](const auto& x) { return x.shape() == t.parameter.shape(); };
  require(present && has_shape(t.gradient) && has_shape(t.mean) && has_shape(t.mean_of_squares), function,
          "parameter, gradient, mean and mean_of_squares must be contiguous and of one shape [n]",
          {{"parameter", text_of(t.parameter)},
           {"gradient", text_of(t.gradient)},
           {"mean", text_of(t.mean)},
           {"mean_of_squares", text_of(t.mean_of_squares)}});
  require(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, function,
          "beta1 and beta2 must be in [0, 1)", {{"beta1", options.beta1}, {"beta2", options.beta2}});
  require(options.epsilon >= 1e-30 && std::isfinite(options.epsilon), function,
          "epsilon must be finite and at least 1e-30", {{"epsilon", options.epsilon}});
  require(step.step >= 1, function, "step must be at least 1", {{"step", step.step}});
  require(
      step.rate >= 0 && std::isfinite(step.rate) && options.weight_decay >= 0 && step.rate * options.weight_decay <= 1,
      function, "rate and weight_decay must be at least 0, the rate finite, and their product at most 1",
      {{"rate", step.rate}, {"weight_decay", options.weight_decay}});
  require(std::isfinite(step.gradient_scale), function, "gradient_scale must be finite",
          {{"gradient_scale", step.gradient_scale}});
}

// The factors of a step that no element changes, in double.
struct Factors {
  double beta1, beta2, gradient_scale, decay, step, inverse_root_bias, epsilon;

  Factors(const AdamOptions& options, const AdamStepOptions& s)
      : beta1(options.beta1),
        beta2(options.beta2),
        gradient_scale(s.gradient_scale),
        decay(1 - s.rate * options.weight_decay),
        step(s.rate / (1 - std::pow(beta1, static_cast<double>(s.step)))),
        inverse_root_bias(1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(s.step)))),
        epsilon(options.epsilon) {}
};

void update(const Factors& f, const float* gradient, float* p, float* mean, float* square, index_t n) {
  const auto rounded = [](double x) { return static_cast<float>(x); };
  const kernels::AdamStep step{.beta1 = rounded(f.beta1),
                               .one_minus_beta1 = rounded(1 - f.beta1),
                               .beta2 = rounded(f.beta2),
                               .one_minus_beta2 = rounded(1 - f.beta2),
                               .gradient_scale = rounded(f.gradient_scale),
                               .decay = rounded(f.decay),
                               .step = rounded(f.step),
                               .inverse_root_bias = rounded(f.inverse_root_bias),
                               .epsilon = rounded(f.epsilon)};
  kernels::training().adam(step, gradient, p, mean, square, n);
}
void update(const Factors& f, const double* gradient, double* p, double* mean, double* square, index_t n) {
  for (index_t i = 0; i < n; ++i) {
    const double g = f.gradient_scale * gradient[i];
    mean[i] = f.beta1 * mean[i] + (1 - f.beta1) * g;
    square[i] = f.beta2 * square[i] + (1 - f.beta2) * g * g;
    p[i] = f.decay * p[i] - f.step * mean[i] / (f.inverse_root_bias * std::sqrt(square[i]) + f.epsilon);
  }
}

double squares_of(const float* x, index_t n) { return kernels::training().sum_of_squares(x, n); }
double squares_of(const double* x, index_t n) {
  double sum = 0;
  for (index_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace

template <class T>
void adam_step(const AdamTensors<T>& tensors, const AdamOptions& options, const AdamStepOptions& step,
               Executor* threads) {
  check(tensors, options, step);
  const Factors factors(options, step);
  for_blocks(threads, tensors.parameter.shape(0), kElementsPerTask, [&](index_t begin, index_t end) {
    update(factors, tensors.gradient.data() + begin, tensors.parameter.data() + begin, tensors.mean.data() + begin,
           tensors.mean_of_squares.data() + begin, end - begin);
  });
}

template <class T>
double sum_of_squares(TensorView<const T, 1> x, Executor* threads) {
  require(is_contiguous(x), "sum_of_squares", "x must be contiguous", {{"x", text_of(x)}});
  // A sum for each task, added in order: the number of threads changes nothing.
  std::vector<double> sums(static_cast<std::size_t>(ceil_div(x.shape(0), kElementsPerTask)));
  for_blocks(threads, x.shape(0), kElementsPerTask, [&](index_t begin, index_t end) {
    sums[static_cast<std::size_t>(begin / kElementsPerTask)] = squares_of(x.data() + begin, end - begin);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

double clip_scale(double sum_of_squares, double max_norm) {
  require(max_norm > 0, "clip_scale", "max_norm must be above 0", {{"max_norm", max_norm}});
  require<Error>(std::isfinite(sum_of_squares) && sum_of_squares >= 0, "clip_scale",
                 "sum_of_squares must be finite and not negative", {{"sum_of_squares", sum_of_squares}},
                 "the gradients hold NaN or infinity");
  return std::min(1.0, max_norm / (std::sqrt(sum_of_squares) + 1e-6));
}

template void adam_step(const AdamTensors<float>&, const AdamOptions&, const AdamStepOptions&, Executor*);
template void adam_step(const AdamTensors<double>&, const AdamOptions&, const AdamStepOptions&, Executor*);
template double sum_of_squares(TensorView<const float, 1>, Executor*);
template double sum_of_squares(TensorView<const double, 1>, Executor*);

}  // namespace multihead::nn
