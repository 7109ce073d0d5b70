#include "multihead/nn/activation.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/elementwise.hpp"
#include "kernels/training.hpp"
#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

constexpr index_t kRowsPerTask = 16;
constexpr double kCubic = 0.044715;
const double kTanhScale = std::sqrt(2.0 / std::numbers::pi);

// Both forms of GELU are 0 below -kFar and x above kFar, even in double precision. Arguments, infinity included, are
// clamped to this range, where no product overflows. NaN stays NaN.
constexpr int kFar = 40;
template <class T>
T from_left(T x) {
  return x < -T{kFar} ? -T{kFar} : x;
}
template <class T>
T near(T x) {
  return x > T{kFar} ? T{kFar} : from_left(x);
}

// Phi, the standard normal distribution function. With erfc it keeps its relative accuracy far to the left.
template <class T>
T normal_cdf(T x) {
  return T(0.5) * std::erfc(-x * T(std::numbers::sqrt2 / 2));
}

struct Relu {
  template <class T>
  static T value(T x) {
    return x < T{0} ? T{0} : x;  // NaN stays NaN
  }
  static constexpr auto kKernel = &kernels::ElementwiseTable::relu;
  template <class T>
  static T slope(T x) {
    return x > T{0} ? T{1} : T{0};
  }
};

struct Gelu {
  template <class T>
  static T value(T x) {
    return from_left(x) * normal_cdf(near(x));
  }
  static constexpr auto kKernel = &kernels::ElementwiseTable::gelu;
  template <class T>
  static T slope(T x) {
    x = near(x);
    const T density = std::exp(-x * x / 2) * T(1.0 / std::sqrt(2.0 * std::numbers::pi));
    return normal_cdf(x) + x * density;
  }
};

struct GeluTanh {
  template <class T>
  static T value(T x) {
    const T u = near(x);
    return from_left(x) / 2 * (1 + std::tanh(T(kTanhScale) * (u + T(kCubic) * u * u * u)));
  }
  static constexpr auto kKernel = &kernels::ElementwiseTable::gelu_tanh;
  template <class T>
  static T slope(T x) {
    x = near(x);
    const T t = std::tanh(T(kTanhScale) * (x + T(kCubic) * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * T(kTanhScale) * (1 + T(3 * kCubic) * x * x);
  }
};

// 1 / (1 + e^-x), without an overflow of the power
template <class T>
T sigmoid(T x) {
  const T small = std::exp(x < T{0} ? x : -x);
  return (x < T{0} ? small : T{1}) / (1 + small);
}

struct Silu {
  template <class T>
  static T value(T x) {
    return x < -std::numeric_limits<T>::max() ? T{0} : x * sigmoid(x);
  }
  template <class T>
  static T slope(T x) {
    constexpr T kVanishes = 800;  // e^-x is 0 in double precision too
    const T u = x > kVanishes ? kVanishes : x < -kVanishes ? -kVanishes : x;
    const T s = sigmoid(u);
    return s * (1 + u * (1 - s));
  }
};

// Calls work(F{}) with the type F that holds the functions of the activation.
template <class Work>
void dispatch(Activation activation, const Work& work) {
  switch (activation) {
    case Activation::relu: return work(Relu{});
    case Activation::gelu: return work(Gelu{});
    case Activation::gelu_tanh: return work(GeluTanh{});
    case Activation::silu: return work(Silu{});
  }
}

template <class T>
bool fits(const TensorView<const T, 2>& x, const auto& view) {
  return view.shape() == x.shape() && has_contiguous_rows(view);
}

}  // namespace

template <class T>
void activation_forward(Activation activation, TensorView<const T, 2> x, TensorView<T, 2> y, Executor* threads) {
  require(fits(x, x) && fits(x, y), "activation_forward", "x and y must have one shape, with contiguous rows",
          {{"x", text_of(x)}, {"y", text_of(y)}});
  dispatch(activation, [&]<class F>(F) {
    for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
      for (index_t n = begin; n < end; ++n) {
        if constexpr (std::is_same_v<T, float> && std::is_same_v<F, Silu>) {
          kernels::training().silu(&x(n, 0), &y(n, 0), x.shape(1));
        } else if constexpr (std::is_same_v<T, float>) {
          (kernels::elementwise().*F::kKernel)(&x(n, 0), &y(n, 0), x.shape(1));
        } else {
          for (index_t j = 0; j < x.shape(1); ++j) y(n, j) = F::value(x(n, j));
        }
      }
    });
  });
}

template <class T>
void activation_backward(Activation activation, TensorView<const T, 2> x, TensorView<const T, 2> dy,
                         TensorView<T, 2> dx, Executor* threads) {
  require(fits(x, x) && fits(x, dy) && fits(x, dx), "activation_backward",
          "x, dy and dx must have one shape, with contiguous rows",
          {{"x", text_of(x)}, {"dy", text_of(dy)}, {"dx", text_of(dx)}});
  dispatch(activation, [&]<class F>(F) {
    for_blocks(threads, x.shape(0), kRowsPerTask, [&](index_t begin, index_t end) {
      for (index_t n = begin; n < end; ++n) {
        if constexpr (std::is_same_v<T, float> && std::is_same_v<F, Relu>) {
          kernels::training().relu_backward(&x(n, 0), &dy(n, 0), &dx(n, 0), x.shape(1));
        } else if constexpr (std::is_same_v<T, float> && std::is_same_v<F, Silu>) {
          kernels::training().silu_backward(&x(n, 0), &dy(n, 0), &dx(n, 0), x.shape(1));
        } else {
          for (index_t j = 0; j < x.shape(1); ++j) dx(n, j) = dy(n, j) * F::slope(x(n, j));
        }
      }
    });
  });
}

template void activation_forward(Activation, TensorView<const float, 2>, TensorView<float, 2>, Executor*);
template void activation_forward(Activation, TensorView<const double, 2>, TensorView<double, 2>, Executor*);
template void activation_backward(Activation, TensorView<const float, 2>, TensorView<const float, 2>,
                                  TensorView<float, 2>, Executor*);
template void activation_backward(Activation, TensorView<const double, 2>, TensorView<const double, 2>,
                                  TensorView<double, 2>, Executor*);

}  // namespace multihead::nn
