#include "multihead/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "multihead/any_view.hpp"
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
  EXPECT_EQ(view.shape, (std::array<index_t, 4>{1, 1, 2, 3}));
  EXPECT_EQ(view.stride, (std::array<index_t, 4>{0, 0, 3, 1}));
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
