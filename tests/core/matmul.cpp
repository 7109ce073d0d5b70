#include "multihead/matmul.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/error_text.hpp"
#include "tests/support/random.hpp"

namespace multihead {
namespace {

template <class T>
Tensor<T, 2> random_matrix(index_t rows, index_t columns, std::mt19937_64& random) {
  Tensor<T, 2> result({rows, columns});
  std::uniform_real_distribution<double> number(-1, 2);  // not of mean zero: that would hide faults
  for (index_t n = 0; n < result.size(); ++n) result.data()[n] = static_cast<T>(number(random));
  return result;
}

/// Against long double sums; the bound is that of any order of summation, k * eps * sum |a b|.
template <class T>
void expect_product(TensorView<const T, 2> a, TensorView<const T, 2> b, TensorView<const T, 2> c,
                    TensorView<const T, 1> bias, TensorView<const T, 2> before) {
  const auto epsilon = static_cast<long double>(std::numeric_limits<T>::epsilon());
  for (index_t m = 0; m < c.shape(0); ++m) {
    for (index_t n = 0; n < c.shape(1); ++n) {
      long double sum = bias ? bias(n) : T{0}, size = std::abs(sum);
      if (before) sum += before(m, n);
      if (before) size += std::abs(before(m, n));
      for (index_t k = 0; k < a.shape(1); ++k) {
        sum += static_cast<long double>(a(m, k)) * b(n, k);
        size += std::abs(static_cast<long double>(a(m, k)) * b(n, k));
      }
      ASSERT_LE(std::abs(c(m, n) - sum), static_cast<long double>(a.shape(1) + 2) * epsilon * size)
          << "m=" << m << " n=" << n << " of " << c.shape(0) << "x" << c.shape(1) << "x" << a.shape(1);
    }
  }
}

template <class T>
void sweep() {
  std::mt19937_64 random(test::run_seed());
  Threads threads(3);
  for (const auto [m, n, k] : {std::array<index_t, 3>{1, 1, 1},
                               {1, 24, 5},
                               {3, 25, 64},
                               {4, 23, 255},
                               {5, 48, 256},
                               {7, 47, 257},
                               {33, 1, 600},
                               {130, 96, 31},
                               {2, 3, 0},
                               {0, 5, 4},
                               {5, 0, 4}}) {
    const auto a = random_matrix<T>(m, k, random), b = random_matrix<T>(n, k, random),
               bias = random_matrix<T>(1, n, random);
    const auto at = random_matrix<T>(k, m, random), bt = random_matrix<T>(k, n, random);
    Tensor<T, 2> c({m, n});
    matmul(a.view(), b.view(), c.view());
    expect_product<T>(a.view(), b.view(), c.view(), {}, {});
    matmul(a.view(), b.view(), c.view(), {.bias = bias.view()[0], .threads = &threads});
    expect_product<T>(a.view(), b.view(), c.view(), bias.view()[0], {});
    matmul(at.view().permute({1, 0}), bt.view().permute({1, 0}), c.view());
    expect_product<T>(at.view().permute({1, 0}), bt.view().permute({1, 0}), c.view(), {}, {});
    const PackedMatrix<T> packed(bt.view().permute({1, 0}));
    matmul(a.view(), bt.view().permute({1, 0}), c.view(), {.packed = &packed, .threads = &threads});
    expect_product<T>(a.view(), bt.view().permute({1, 0}), c.view(), {}, {});
    const Tensor<T, 2> before = c.clone();
    matmul(a.view(), bt.view().permute({1, 0}), c.view(),
           {.bias = bias.view()[0], .accumulate = true, .packed = &packed});
    expect_product<T>(a.view(), bt.view().permute({1, 0}), c.view(), bias.view()[0], before.view());
    std::copy_n(before.data(), c.size(), c.data());
    matmul(a.view(), bt.view().permute({1, 0}), c.view(), {.bias = bias.view()[0], .accumulate = true});
    expect_product<T>(a.view(), bt.view().permute({1, 0}), c.view(), bias.view()[0], before.view());
  }
}

TEST(Matmul, AgreesWithPlainSums) {
  sweep<float>();
  sweep<double>();
}

TEST(Matmul, SameBitsForAnyThreadsAndRowsAlone) {
  std::mt19937_64 random(test::run_seed());
  const auto a = random_matrix<float>(301, 300, random), b = random_matrix<float>(50, 300, random);
  Tensor<float, 2> alone({301, 50}), shared({301, 50}), row({1, 50});
  matmul(a.view(), b.view(), alone.view());
  Threads threads(5);
  matmul(a.view(), b.view(), shared.view(), {.threads = &threads});
  EXPECT_EQ(std::memcmp(alone.data(), shared.data(), sizeof(float) * 301 * 50), 0);
  matmul(a.view().slice(0, 97, 98), b.view(), row.view());
  EXPECT_EQ(std::memcmp(&alone(97, 0), row.data(), sizeof(float) * 50), 0);
}

// A few tokens lie in the lanes, many do not: each row must be the row of the same call with all of them.
TEST(Matmul, AnyNumberOfRowsGivesTheBitsOfAll) {
  std::mt19937_64 random(test::run_seed());
  Threads threads(3);
  constexpr index_t kAll = 300;
  for (const auto [n, k] : {std::array<index_t, 2>{77, 129}, {48, 1}, {1, 131}, {200, 1537}, {25, 3100}}) {
    const auto wide = random_matrix<float>(kAll, k + 3, random), tall = random_matrix<float>(n + 2, k + 5, random),
               biases = random_matrix<float>(n, 2, random);
    const auto a = wide.view().slice(1, 2, k + 2), b = tall.view().slice(0, 1, n + 1).slice(1, 4, k + 4);
    const TensorView<const float, 1> bias = biases.view().permute({1, 0})[1];
    Tensor<float, 2> all({kAll, n});
    matmul(a, b, all.view(), {.bias = bias});
    // c + a b^T: each slab of k is summed from zero and added as a whole.
    Tensor<float, 2> all_added({kAll, n});
    for (index_t i = 0; i < kAll; ++i) {
      for (index_t j = 0; j < n; ++j) all_added(i, j) = bias(j);
    }
    matmul(a, b, all_added.view(), {.accumulate = true});
    const PackedMatrix<float> packed(b, &threads);
    Tensor<float, 2> of_packed({kAll, n});
    matmul(a, b, of_packed.view(), {.bias = bias, .packed = &packed, .threads = &threads});
    ASSERT_EQ(std::memcmp(of_packed.data(), all.data(), sizeof(float) * static_cast<std::size_t>(all.size())), 0);
    expect_product<float>(a, b, all.view(), bias, {});
    for (index_t m = 1; m <= 34; ++m) {
      const index_t first = (m * 37) % (kAll - 34);
      Tensor<float, 2> few({m, n}), added({m, n + 1});
      matmul(a.slice(0, first, first + m), b, few.view(), {.bias = bias, .threads = &threads});
      ASSERT_EQ(std::memcmp(few.data(), &all(first, 0), sizeof(float) * static_cast<std::size_t>(m * n)), 0)
          << "m=" << m << " n=" << n << " k=" << k;
      matmul(a.slice(0, first, first + m), b, few.view(), {.bias = bias, .packed = &packed});
      ASSERT_EQ(std::memcmp(few.data(), &all(first, 0), sizeof(float) * static_cast<std::size_t>(m * n)), 0)
          << "packed, m=" << m << " n=" << n << " k=" << k;
      // Accumulated, into rows that do not follow one another.
      for (index_t i = 0; i < m; ++i) {
        for (index_t j = 0; j < n; ++j) added(i, j) = bias(j);
      }
      matmul(a.slice(0, first, first + m), b, added.view().slice(1, 0, n), {.accumulate = true});
      for (index_t i = 0; i < m; ++i) {
        ASSERT_EQ(std::memcmp(&added(i, 0), &all_added(first + i, 0), sizeof(float) * static_cast<std::size_t>(n)), 0);
        ASSERT_EQ(added(i, n), 0.0f);
      }
    }
  }
}

// A long product is taken in slabs of k: the bias, and what c holds, enter it once.
TEST(Matmul, TheBiasEntersALongProductOnce) {
  for (const index_t k : {1, 1535, 1536, 1537, 3073, 5000}) {
    for (const index_t m : {1, 5, 60}) {
      const Tensor<float, 2> a({m, k}), b({50, k});  // zeros: c is what it starts from
      Tensor<float, 1> bias({50});
      for (index_t n = 0; n < 50; ++n) bias(n) = 1000 + static_cast<float>(n);
      const PackedMatrix<float> packed(b.view()), nothing;
      for (const PackedMatrix<float>* p : {&nothing, &packed}) {
        Tensor<float, 2> c({m, 50});
        matmul(a.view(), b.view(), c.view(), {.bias = bias.view(), .packed = p});
        for (index_t n = 0; n < 50; ++n) ASSERT_EQ(c(m - 1, n), bias(n)) << "k=" << k << " m=" << m;
        matmul(a.view(), b.view(), c.view(), {.bias = bias.view(), .accumulate = true, .packed = p});
        for (index_t n = 0; n < 50; ++n) ASSERT_EQ(c(m - 1, n), 2 * bias(n)) << "k=" << k << " m=" << m;
      }
    }
  }
}

TEST(Matmul, PartsAreTheirProductsAlone) {
  std::mt19937_64 random(test::run_seed());
  Threads threads(2);
  for (const index_t m : {1, 19, 128, 700}) {
    const auto a = random_matrix<float>(m, 200, random), b0 = random_matrix<float>(130, 200, random),
               b1 = random_matrix<float>(0, 200, random), b2 = random_matrix<float>(49, 200, random),
               bias = random_matrix<float>(1, 130, random);
    Tensor<float, 2> c0({m, 130}), c1({m, 0}), c2({m, 49}), alone0({m, 130}), alone2({m, 49});
    const MatmulPart<float> parts[] = {
        {b0.view(), c0.view(), bias.view()[0]}, {b1.view(), c1.view()}, {b2.view(), c2.view()}};
    matmul(a.view(), parts, &threads);
    matmul(a.view(), b0.view(), alone0.view(), {.bias = bias.view()[0]});
    matmul(a.view(), b2.view(), alone2.view());
    EXPECT_EQ(std::memcmp(c0.data(), alone0.data(), sizeof(float) * static_cast<std::size_t>(c0.size())), 0) << m;
    EXPECT_EQ(std::memcmp(c2.data(), alone2.data(), sizeof(float) * static_cast<std::size_t>(c2.size())), 0) << m;
    // Some packed, some not, some of no rows.
    const PackedMatrix<float> packed1(b1.view()), packed2(b2.view()), nothing;
    Tensor<float, 2> again0({m, 130}), again2({m, 49});
    const MatmulPart<float> mixed[] = {{b0.view(), again0.view(), bias.view()[0], &nothing},
                                       {b1.view(), c1.view(), {}, &packed1},
                                       {b2.view(), again2.view(), {}, &packed2}};
    matmul(a.view(), mixed, &threads);
    EXPECT_EQ(std::memcmp(again0.data(), alone0.data(), sizeof(float) * static_cast<std::size_t>(c0.size())), 0) << m;
    EXPECT_EQ(std::memcmp(again2.data(), alone2.data(), sizeof(float) * static_cast<std::size_t>(c2.size())), 0) << m;
  }
}

TEST(Matmul, WritesNothingBesideC) {
  std::mt19937_64 random(test::run_seed());
  const auto a = random_matrix<float>(9, 40, random), b = random_matrix<float>(26, 40, random);
  Tensor<float, 2> wide({11, 40});
  const PackedMatrix<float> packed(b.view()), nothing;
  for (const PackedMatrix<float>* p : {&nothing, &packed}) {
    std::fill_n(wide.data(), wide.size(), 7.0f);
    matmul(a.view(), b.view(), wide.view().slice(0, 1, 10).slice(1, 3, 29), {.packed = p});
    for (index_t m = 0; m < 11; ++m) {
      for (index_t n = 0; n < 40; ++n) {
        const bool inside = m >= 1 && m < 10 && n >= 3 && n < 29;
        if (!inside) {
          ASSERT_EQ(wide(m, n), 7.0f) << m << " " << n;
        }
      }
    }
  }
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  Tensor<float, 2> a({2, 3}), b({4, 5}), b3({4, 3}), c({2, 4}), wrong({2, 5});
  Tensor<float, 1> bias({3});
  EXPECT_EQ(test::error_of([&] { matmul(a.view(), b.view(), c.view()); }),
            "matmul: a [m, k] and b [n, k] must agree in k, got a=[2, 3], b=[4, 5]");
  EXPECT_EQ(test::error_of([&] { matmul(a.view(), b3.view(), wrong.view()); }),
            "matmul: c must be [m, n], got a=[2, 3], b=[4, 3], c=[2, 5]");
  Tensor<float, 2> turned({4, 2});
  EXPECT_EQ(test::error_of([&] {
              matmul(a.view(), b3.view(), turned.view().permute({1, 0}));
            }),
            "matmul: the last axis of c must be contiguous, got stride=2");
  EXPECT_EQ(test::error_of([&] { matmul(a.view(), b3.view(), c.view(), {.bias = bias.view()}); }),
            "matmul: bias must be [n], got bias=3, n=4");
  const PackedMatrix<float> packed(b.view());
  EXPECT_EQ(test::error_of([&] { matmul(a.view(), b3.view(), c.view(), {.packed = &packed}); }),
            "matmul: packed must be of b [n, k], got packed=[4, 5], b=[4, 3]");
  // One part that does not fit keeps all from being written.
  std::fill_n(c.data(), c.size(), 7.0f);
  const MatmulPart<float> parts[] = {{b3.view(), c.view()}, {b.view(), c.view()}};
  EXPECT_EQ(test::error_of([&] { matmul(a.view(), parts); }),
            "matmul: a [m, k] and b [n, k] must agree in k, got a=[2, 3], b=[4, 5]");
  for (index_t n = 0; n < c.size(); ++n) EXPECT_EQ(c.data()[n], 7.0f);
}

}  // namespace
}  // namespace multihead
