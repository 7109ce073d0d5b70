#include "multihead/tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "multihead/broadcast_view.hpp"
#include "tests/support/error_text.hpp"

namespace multihead {
namespace {

TEST(TensorView, StridesFollowTheLastAxis) {
  float data[24] = {};
  for (int n = 0; n < 24; ++n) data[n] = static_cast<float>(n);
  const TensorView<float, 3> view(data, {2, 3, 4});
  EXPECT_EQ(view(1, 2, 3), 23.0f);
  EXPECT_TRUE(view.is_contiguous());
  const auto turned = view.permute({2, 0, 1});
  EXPECT_EQ(turned.shape(0), 4);
  EXPECT_EQ(turned(3, 1, 2), 23.0f);
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_EQ(view.slice(1, 1, 3)(1, 0, 0), 16.0f);
  EXPECT_EQ(view[1](2, 3), 23.0f);
}

TEST(TensorView, AbsentIsFalseAndEmptyIsNot) {
  EXPECT_FALSE((TensorView<float, 2>()));
  EXPECT_TRUE((TensorView<float, 2>(nullptr, {0, 4})));
  EXPECT_FALSE((InputView<2>(TensorView<float, 2>())));
  EXPECT_FALSE((TensorView<const float, 2>(TensorView<float, 2>())));
}

TEST(BroadcastView, AlignsAtTheRight) {
  float data[6] = {};
  const BroadcastView view(TensorView<float, 2>(data, {2, 3}));
  EXPECT_EQ(view.shape(), (std::array<index_t, 4>{1, 1, 2, 3}));
  EXPECT_EQ(view.stride(), (std::array<index_t, 4>{0, 0, 3, 1}));
}

TEST(Tensor, IsZeroAlignedAndMovable) {
  Tensor<float, 2> a({5, 7});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
  for (index_t n = 0; n < a.size(); ++n) ASSERT_EQ(a.data()[n], 0.0f);
  a(4, 6) = 1;
  const Tensor<float, 2> copy = a.clone();
  a(4, 6) = 2;
  EXPECT_EQ(copy(4, 6), 1.0f);
  const Tensor<float, 2> moved = std::move(a);
  EXPECT_EQ(moved(4, 6), 2.0f);
}

// Memory that was let go is used again, on whichever thread it was: it must be zeros all the same, and nobody else's.
TEST(Tensor, IsZeroInMemoryThatWasUsedBefore) {
  const auto fill = [](Tensor<float, 1>& x, float value) { std::fill_n(x.data(), x.size(), value); };
  std::vector<Tensor<float, 1>> alive;
  for (int round = 0; round < 100; ++round) {
    const index_t size = 1000 + (round * 7919) % 40 * 100'000;  // from less than is kept to more than a huge page
    Tensor<float, 1> x({size});
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % 64, 0u);
    for (index_t n = 0; n < size; ++n) ASSERT_EQ(x(n), 0.0f) << "round " << round << " of " << size;
    fill(x, static_cast<float>(round + 1));
    alive.push_back(std::move(x));
    if (alive.size() > 5) {
      const std::size_t gone = static_cast<std::size_t>(round) % alive.size();
      if (round % 3 == 0) {
        std::thread([gone = std::move(alive[gone])] {}).join();
      }
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    for (const auto& other : alive) {
      for (index_t n = 1; n < other.size(); ++n) ASSERT_EQ(other(n), other(0));
    }
  }
}

TEST(Tensor, RefusesExtentsThatCannotBe) {
  EXPECT_EQ(test::error_of([&] {
              Tensor<float, 2>({3, -1});
            }),
            "Tensor: extents must not be negative, got shape=[3, -1]");
  EXPECT_EQ(test::error_of([&] {
              Tensor<float, 3>({index_t{1} << 31, index_t{1} << 31, 4});
            }),
            "Tensor: the size must fit in 63 bits of bytes, got shape=[2147483648, 2147483648, 4], "
            "element_bytes=4");
}

}  // namespace
}  // namespace multihead
