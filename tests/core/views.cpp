// All ways to make a view, as a user writes them, and those that must not compile.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include "multihead/broadcast_view.hpp"
#include "multihead/kv_cache.hpp"
#include "multihead/layout.hpp"
#include "multihead/tensor.hpp"
#include "tests/support/error_text.hpp"

namespace multihead {
namespace {

using test::error_of;

template <class To, class... From>
constexpr bool kMakes = std::is_constructible_v<To, From...>;

// A const tensor is no output.
static_assert(kMakes<InputView<2>, const Tensor<float, 2>&> && kMakes<InputView<2>, Tensor<float, 2>&>);
static_assert(kMakes<OutputView<2>, Tensor<float, 2>&> && !kMakes<OutputView<2>, const Tensor<float, 2>&>);
static_assert(kMakes<BroadcastOutput, Tensor<float, 2>&> && !kMakes<BroadcastOutput, const Tensor<float, 2>&>);
static_assert(!kMakes<OutputView<2>, TensorView<const float, 2>> && !kMakes<OutputView<1>, const std::vector<float>&>);
static_assert(!kMakes<OutputView<2>, InputView<2>> && kMakes<InputView<2>, OutputView<2>>);
static_assert(!kMakes<OutputView<2>, const float*, std::array<index_t, 2>>);
static_assert(!kMakes<BroadcastOutput, const void*, DType, std::vector<index_t>>);
static_assert(!kMakes<TensorView<float, 2>, const Tensor<float, 2>&>);

// A temporary owner would leave the view dangling.
static_assert(!kMakes<InputView<2>, Tensor<float, 2>> && !kMakes<InputView<2>, const Tensor<float, 2>>);
static_assert(!kMakes<OutputView<2>, Tensor<float, 2>> && !kMakes<TensorView<const float, 2>, Tensor<float, 2>>);
static_assert(!kMakes<TensorView<float, 2>, Tensor<float, 2>> && !kMakes<BroadcastView, Tensor<float, 2>>);
static_assert(!kMakes<BroadcastOutput, Tensor<float, 2>>);
static_assert(!kMakes<InputView<1>, std::vector<float>> && !kMakes<TensorView<const float, 1>, std::vector<float>>);
static_assert(kMakes<InputView<1>, std::span<float>> && kMakes<TensorView<const float, 1>, std::span<float>>);
template <class Temporary>
concept HasView = requires(Temporary&& tensor) { static_cast<Temporary&&>(tensor).view(); };
static_assert(HasView<Tensor<float, 2>&> && !HasView<Tensor<float, 2>> && !HasView<const Tensor<float, 2>>);
static_assert(HasView<KvCache&> && !HasView<KvCache>);
template <class Temporary>
concept CanBeBhsd = requires(Temporary&& tensor) { bhsd(static_cast<Temporary&&>(tensor)).data(); };
static_assert(CanBeBhsd<Tensor<float, 4>&> && !CanBeBhsd<Tensor<float, 4>>);

// A pointer without a shape, another rank and a type that is no DType make no view; nothing takes one for another rank.
static_assert(!kMakes<InputView<2>, float*> && !kMakes<InputView<2>, std::vector<float>&>);
static_assert(!kMakes<InputView<2>, Tensor<float, 3>&> && !kMakes<InputView<2>, int*, std::array<index_t, 2>>);
static_assert(!kMakes<BroadcastView, TensorView<float, 5>>);

template <class View>
void expect_view(const View& view, const void* data, DType dtype, const typename View::Extents& shape,
                 const typename View::Extents& stride) {
  EXPECT_TRUE(view);
  EXPECT_EQ(view.data(), data);
  EXPECT_EQ(view.dtype(), dtype);
  EXPECT_EQ(view.shape(), shape);
  EXPECT_EQ(view.stride(), stride);
}

TEST(Views, OfATensor) {
  Tensor<float, 3> x({2, 3, 4});
  const Tensor<float, 3>& read_only = x;
  const InputView<3> a = x, b = read_only, c = x.view();
  const OutputView<3> d = x, e = x.view();
  const InputView<3> f = d;
  for (const InputView<3>& view : {a, b, c, f}) expect_view(view, x.data(), DType::f32, {2, 3, 4}, {12, 4, 1});
  for (const OutputView<3>& view : {d, e}) expect_view(view, x.data(), DType::f32, {2, 3, 4}, {12, 4, 1});
  static_assert(std::is_same_v<decltype(TensorView(x)), TensorView<float, 3>>);
  static_assert(std::is_same_v<decltype(TensorView(read_only)), TensorView<const float, 3>>);
  static_assert(std::is_same_v<decltype(InputView(x)), InputView<3>>);
}

template <class T>
void expect_pointer_views(DType dtype) {
  std::array<T, 8> data{};
  T* const pointer = data.data();
  const T* const read_only = pointer;
  const int rows = 2, columns = 3;  // extents need not be index_t
  const InputView<2> a = {pointer, {rows, columns}}, b = {read_only, {rows, columns}}, c = {data, {rows, columns}};
  const OutputView<2> d = {pointer, {rows, columns}}, e = {data, {rows, columns}};
  const InputView<2> f = {static_cast<const void*>(pointer), dtype, {rows, columns}};
  const OutputView<2> g = {static_cast<void*>(pointer), dtype, {rows, columns}};
  for (const InputView<2>& view : {a, b, c, f}) expect_view(view, pointer, dtype, {2, 3}, {3, 1});
  for (const OutputView<2>& view : {d, e, g}) expect_view(view, pointer, dtype, {2, 3}, {3, 1});
  const InputView<2> h = {pointer, {2, 3}, {4, 1}}, i = {pointer, dtype, {2, 3}, {4, 1}};
  const OutputView<2> j = {pointer, {2, 3}, {4, 1}}, k = {pointer, dtype, {2, 3}, {4, 1}};
  for (const InputView<2>& view : {h, i}) expect_view(view, pointer, dtype, {2, 3}, {4, 1});
  for (const OutputView<2>& view : {j, k}) expect_view(view, pointer, dtype, {2, 3}, {4, 1});
  EXPECT_EQ(h.template as<T>().stride(0), 4);
  static_assert(std::is_same_v<decltype(h.template as<T>()), TensorView<const T, 2>>);
  static_assert(std::is_same_v<decltype(j.template as<T>()), TensorView<T, 2>>);
}

TEST(Views, OfAPointerAndAShape) {
  expect_pointer_views<float>(DType::f32);
  expect_pointer_views<double>(DType::f64);
  expect_pointer_views<bf16>(DType::bf16);
  expect_pointer_views<f16>(DType::f16);
  expect_pointer_views<bool>(DType::boolean);
  expect_pointer_views<index_t>(DType::i64);
}

TEST(Views, DeduceTheRank) {
  float data[24] = {};
  float* const pointer = data;
  const float* const read_only = data;
  const int n = 2;
  static_assert(std::is_same_v<decltype(TensorView(pointer, {n, 3, 4})), TensorView<float, 3>>);
  static_assert(std::is_same_v<decltype(TensorView(read_only, {n, 3})), TensorView<const float, 2>>);
  static_assert(std::is_same_v<decltype(TensorView(pointer, {n, 3}, {1, 2})), TensorView<float, 2>>);
  static_assert(std::is_same_v<decltype(TensorView(pointer, std::array<index_t, 2>{n, 3})), TensorView<float, 2>>);
  static_assert(std::is_same_v<decltype(InputView(read_only, {n, 3, 4})), InputView<3>>);
  static_assert(std::is_same_v<decltype(OutputView(pointer, {n, 3}, {1, 2})), OutputView<2>>);
  static_assert(std::is_same_v<decltype(InputView(pointer, DType::bf16, {n, 3})), InputView<2>>);
  EXPECT_EQ(TensorView(pointer, {n, 3}, {1, 2}).stride(1), 2);
}

TEST(Views, OfVectorsSpansAndArrays) {
  std::vector<float> numbers(6);
  const std::vector<float>& read_only = numbers;
  const std::span<float> span(numbers);
  const std::vector<index_t> lengths{3, 5};
  const index_t array[] = {3, 5};
  const TensorView<const index_t, 1> a = lengths, b = array;
  EXPECT_EQ(a.data(), lengths.data());
  EXPECT_EQ(b(1), 5);
  EXPECT_EQ(a.shape(0) + b.shape(0), 4);
  const InputView<1> c = numbers, d = read_only, e = span;
  const OutputView<1> f = numbers, g = span;
  for (const InputView<1>& view : {c, d, e}) expect_view(view, numbers.data(), DType::f32, {6}, {1});
  for (const OutputView<1>& view : {f, g}) expect_view(view, numbers.data(), DType::f32, {6}, {1});
  static_assert(std::is_same_v<decltype(TensorView(numbers)), TensorView<float, 1>>);
  static_assert(std::is_same_v<decltype(TensorView(read_only, {2, 3})), TensorView<const float, 2>>);
  EXPECT_EQ(InputView<2>(numbers, {2, 3}).shape(1), 3);
  EXPECT_EQ(error_of([&] { (void)InputView<1>(numbers, {7}); }),
            "TensorView: the buffer must hold all elements of the shape, got elements=6, shape=[7], wanted=7");
  EXPECT_EQ(error_of([&] {
              (void)OutputView<2>(span, {3, 3});
            }),
            "TensorView: the buffer must hold all elements of the shape, got elements=6, shape=[3, 3], wanted=9");
  EXPECT_EQ(error_of([&] {
              (void)TensorView<const float, 2>(read_only, {-1, 3});
            }),
            "Tensor: extents must not be negative, got shape=[-1, 3]");
}

TEST(Views, AreAbsentOnlyByDefault) {
  EXPECT_FALSE(InputView<2>() || OutputView<2>() || BroadcastView() || BroadcastOutput());
  const TensorView<float, 2> none;
  EXPECT_FALSE(InputView<2>(none) || OutputView<2>(none) || BroadcastView(none) || BroadcastOutput(none));
  EXPECT_FALSE(InputView<2>(OutputView<2>()) || InputView<2>().as<float>() || OutputView<2>().as<float>());
  float* const null = nullptr;
  EXPECT_TRUE((InputView<2>(null, {0, 4}) && OutputView<2>(null, {0, 4}) && BroadcastView(null, {0, 4})));
  EXPECT_TRUE((InputView<1>(nullptr, DType::f16, {0}) && OutputView<1>(nullptr, DType::f16, {0})));
  const std::vector<float> empty;
  EXPECT_TRUE(InputView<1>(empty));
}

TEST(BroadcastViews, OfAnyRank) {
  Tensor<float, 2> x({2, 3});
  const Tensor<float, 2>& read_only = x;
  const std::vector<index_t> shape{2, 3}, stride{3, 1};
  const void* const address = x.data();
  const BroadcastView a = x, b = read_only, c = x.view(), d = {x.data(), {2, 3}}, e = {x.data(), {2, 3}, {3, 1}},
                      f = {address, DType::f32, {2, 3}}, g = {address, DType::f32, {2, 3}, {3, 1}},
                      h = {address, DType::f32, shape}, i = {address, DType::f32, shape, stride}, j = InputView<2>(x),
                      k = OutputView<2>(x), r = {std::span(x.data(), 6), {2, 3}};
  for (const BroadcastView& view : {a, b, c, d, e, f, g, h, i, j, k, r}) {
    expect_view(view, x.data(), DType::f32, {1, 1, 2, 3}, {0, 0, 3, 1});
  }
  void* const writable = x.data();
  const BroadcastOutput l = x, m = x.view(), n = {x.data(), {2, 3}}, o = {writable, DType::f32, shape},
                        p = OutputView<2>(x), s = {std::span(x.data(), 6), {2, 3}};
  for (const BroadcastOutput& view : {l, m, n, o, p, s}) {
    expect_view(view, x.data(), DType::f32, {1, 1, 2, 3}, {0, 0, 3, 1});
  }
  for (std::size_t rank = 1; rank <= 4; ++rank) {
    const std::vector<index_t> twos(rank, 2);
    EXPECT_EQ(BroadcastView(address, DType::f32, twos).shape(static_cast<int>(4 - rank)), 2);
    EXPECT_EQ(BroadcastView(address, DType::f32, twos).shape(0), rank < 4 ? 1 : 2);
  }
  const std::vector<index_t> none, five(5, 1);
  const std::vector<float> few(5);
  EXPECT_EQ(error_of([&] {
              (void)BroadcastView(few, {2, 3});
            }),
            "TensorView: the buffer must hold all elements of the shape, got elements=5, shape=[2, 3], wanted=6");
  EXPECT_EQ(error_of([&] { BroadcastView(address, DType::f32, none); }),
            "BroadcastView: the rank must be 1 to 4, got rank=0");
  EXPECT_EQ(error_of([&] { BroadcastOutput(writable, DType::f32, five); }),
            "BroadcastView: the rank must be 1 to 4, got rank=5");
  EXPECT_EQ(error_of([&] { BroadcastView(address, DType::f32, shape, five); }),
            "BroadcastView: shape and stride must have as many entries, got shape=2, stride=5");
}

TEST(Layout, ViewsOfBothOrdersAreIndexedAlike) {
  const index_t B = 2, S = 3, H = 4, D = 5;
  std::vector<float> token_major(120), head_major(120);
  for (index_t b = 0, n = 0; b < B; ++b) {
    for (index_t s = 0; s < S; ++s) {
      for (index_t h = 0; h < H; ++h) {
        for (index_t d = 0; d < D; ++d, ++n) {
          token_major[static_cast<std::size_t>(n)] = static_cast<float>(n);
          head_major[static_cast<std::size_t>(((b * H + h) * S + s) * D + d)] = static_cast<float>(n);
        }
      }
    }
  }
  Tensor<float, 4> tensor({B, H, S, D});
  std::copy(head_major.begin(), head_major.end(), tensor.data());
  const float* const read_only = head_major.data();
  const void* const address = head_major.data();
  const std::array<index_t, 4> bshd_stride{S * H * D, H * D, D, 1}, bhsd_stride{H * S * D, S * D, D, 1};
  const InputView<4> views[] = {
      bshd(token_major, B, S, H, D),
      bshd(token_major.data(), B, S, H, D),
      bshd(token_major.data(), B, S, H, D, bshd_stride),
      bshd(static_cast<const void*>(token_major.data()), DType::f32, B, S, H, D),
      bshd(static_cast<void*>(token_major.data()), DType::f32, B, S, H, D, bshd_stride),
      bhsd(head_major, B, H, S, D),
      bhsd(read_only, B, H, S, D),
      bhsd(head_major.data(), B, H, S, D, bhsd_stride),
      bhsd(address, DType::f32, B, H, S, D),
      bhsd(address, DType::f32, B, H, S, D, bhsd_stride),
      bhsd(static_cast<void*>(head_major.data()), DType::f32, B, H, S, D),
      bhsd(tensor),
      bhsd(std::as_const(tensor)),
      bhsd(tensor.view()),
  };
  for (const InputView<4>& view : views) {
    EXPECT_EQ(view.shape(), (std::array<index_t, 4>{B, S, H, D}));
    for (index_t b = 0, n = 0; b < B; ++b) {
      for (index_t s = 0; s < S; ++s) {
        for (index_t h = 0; h < H; ++h) {
          for (index_t d = 0; d < D; ++d, ++n) ASSERT_EQ(view.as<float>()(b, s, h, d), static_cast<float>(n));
        }
      }
    }
  }
  const OutputView<4> out = bhsd(head_major, B, H, S, D), untyped = bshd(token_major.data(), B, S, H, D);
  EXPECT_EQ(out.stride(), (std::array<index_t, 4>{H * S * D, D, S * D, 1}));
  EXPECT_TRUE(untyped);
  std::vector<bf16> halves(120);
  EXPECT_EQ(InputView<4>(bhsd(halves, B, H, S, D)).dtype(), DType::bf16);
  EXPECT_EQ(error_of([&] { bhsd(head_major, B, H, S, D + 1); }),
            "TensorView: the buffer must hold all elements of the shape, got elements=120, shape=[2, 4, 3, 6], "
            "wanted=144");
}

}  // namespace
}  // namespace multihead
