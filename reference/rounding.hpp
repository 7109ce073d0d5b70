// A number that knows how wrong it may be: running error analysis by standard deviations.
//
//   z = fl(x op y) = (x op y) (1 + e)       e independent, uniform in [-u, u]: variance u^2 / 3
//   var z = (dz/dx)^2 var x + (dz/dy)^2 var y + z^2 u^2 / 3
//
// u = 2^-24 for Real = float, 2^-53 for double. Put in as the arithmetic of the reference, it tells for each result how
// far rounding carries the plain implementation from the truth, whatever cancels and whether or not a run is lucky.
// A sum with 0 and a product with 0 or 1 are exact. e^x rounds x once more, as one that goes through 2^(x log2 e) does.
// First order; inputs are exact; numbers that are not finite have no deviation. Source: Wilkinson 1963, running error
// analysis; Higham & Mary 2019 for independent roundings.
#pragma once

#include <cmath>
#include <compare>
#include <limits>
#include <type_traits>

#include "multihead/types.hpp"

namespace multihead::reference {

/// Distance from 1 to the next number.
constexpr double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f32: return 0x1p-23;
    case DType::f16: return 0x1p-10;
    default: return 0x1p-7;
  }
}

/// A number that comes with a deviation of its own; of the plain types, the number.
template <class Real>
Real deviating(Real x, double) {
  return x;
}
template <class Real>
double value_of(Real x) {
  return static_cast<double>(x);
}

template <class Real>
class Rounding {
 public:
  constexpr Rounding() = default;
  template <class Number>
    requires std::is_convertible_v<Number, double>
  constexpr Rounding(Number value) : value_(static_cast<double>(value)) {}

  /// What stands in for the number when it is stored: its standard deviation.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  explicit operator Number() const {
    return static_cast<Number>(std::sqrt(variance_));
  }

  friend Rounding deviating(Rounding x, double deviation) {
    return result(x.value_, x.variance_ + square(deviation), false);
  }

  friend double value_of(Rounding x) { return x.value_; }

  friend Rounding operator+(Rounding x, Rounding y) {
    return result(x.value_ + y.value_, x.variance_ + y.variance_, x.value_ != 0 && y.value_ != 0);
  }
  friend Rounding operator-(Rounding x) { return result(-x.value_, x.variance_, false); }
  friend Rounding operator-(Rounding x, Rounding y) { return x + -y; }
  friend Rounding operator*(Rounding x, Rounding y) {
    return result(x.value_ * y.value_, square(y.value_) * x.variance_ + square(x.value_) * y.variance_,
                  std::abs(x.value_) != 1 && std::abs(y.value_) != 1);
  }
  friend Rounding operator/(Rounding x, Rounding y) {
    const double z = x.value_ / y.value_;
    return result(z, (x.variance_ + square(z) * y.variance_) / square(y.value_), y.value_ != 1);
  }
  Rounding& operator+=(Rounding y) { return *this = *this + y; }
  Rounding& operator-=(Rounding y) { return *this = *this - y; }
  Rounding& operator/=(Rounding y) { return *this = *this / y; }

  friend bool operator==(Rounding x, Rounding y) { return x.value_ == y.value_; }
  friend std::partial_ordering operator<=>(Rounding x, Rounding y) { return x.value_ <=> y.value_; }

  friend Rounding abs(Rounding x) { return x.value_ < 0 ? -x : x; }
  friend Rounding sqrt(Rounding x) {
    const double z = std::sqrt(x.value_);
    return result(z, x.variance_ / (4 * x.value_));
  }
  friend Rounding exp(Rounding x) {
    const double z = std::exp(x.value_);
    return result(z, square(z) * (x.variance_ + square(x.value_ * kUnit) / 3) + square(kFlushed));
  }
  friend Rounding log(Rounding x) { return result(std::log(x.value_), x.variance_ / square(x.value_)); }
  friend Rounding tanh(Rounding x) {
    const double z = std::tanh(x.value_);
    return result(z, square(1 - z * z) * x.variance_);
  }

 private:
  static constexpr double kUnit = std::numeric_limits<Real>::epsilon() / 2;

  // Exponentials below the smallest normal number may be flushed to 0. (Of f64 a larger one, that has a square.)
  static constexpr double kFlushed = sizeof(Real) == 4 ? 0x1p-126 : 0x1p-500;

  static constexpr double square(double x) { return x * x; }

  static Rounding result(double value, double inherited, bool rounded = true) {
    Rounding z = value;
    if (std::isfinite(value)) z.variance_ = inherited + (rounded ? square(value * kUnit) / 3 : 0);
    if (!std::isfinite(z.variance_)) z.variance_ = 0;
    return z;
  }

  double value_ = 0, variance_ = 0;
};

}  // namespace multihead::reference

template <class Real>
struct std::numeric_limits<multihead::reference::Rounding<Real>> : std::numeric_limits<Real> {
  static constexpr multihead::reference::Rounding<Real> infinity() { return std::numeric_limits<double>::infinity(); }
};
