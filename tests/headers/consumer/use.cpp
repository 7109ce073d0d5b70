// The templates of the public headers made use of: most warnings come with the types.
#include <cstdint>
#include <string_view>

#include "multihead/any_view.hpp"
#include "multihead/attention.hpp"
#include "multihead/matmul.hpp"
#include "multihead/safetensors.hpp"
#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"
#include "multihead/types.hpp"

namespace {

using namespace multihead;

template <class T, int R>
index_t use_views(Tensor<T, R>& tensor) {
  const Tensor<T, R>& constant = tensor;
  const TensorView<T, R> view = tensor.view();
  const TensorView<const T, R> read = view;
  const InputView<R> in = read;
  const OutputView<R> out = view;
  index_t sum = tensor.size() + constant.shape(R - 1) + view.stride(0) + in.shape().back() + out.stride().back();
  sum += view.is_contiguous() && read && in && out ? 1 : 0;
  sum += in.template as<T>().size() + out.template as<T>().size();
  std::array<int, static_cast<std::size_t>(R)> order{};
  for (std::size_t axis = 0; axis < order.size(); ++axis) order[axis] = R - 1 - static_cast<int>(axis);
  sum += view.permute(order).shape(0) + view.slice(0, 0, 1).size();
  if constexpr (R > 1) sum += view[0].size();
  if constexpr (R == 2) sum += static_cast<index_t>(view(0, 0)) + static_cast<index_t>(constant(0, 0));
  return sum + tensor.clone().size();
}

template <class T>
index_t use_type() {
  Tensor<T, 1> a({3});
  Tensor<T, 2> b({3, 4});
  Tensor<T, 3> c({3, 4, 5});
  Tensor<T, 4> d({3, 4, 5, 6});
  return use_views(a) + use_views(b) + use_views(c) + use_views(d) + dtype_bytes(dtype_of<T>);
}

}  // namespace

std::int64_t use_of_public_headers();
std::int64_t use_of_public_headers() {
  Threads threads(1);
  Tensor<float, 4> q({1, 2, 3, 4}), out({1, 2, 3, 4});
  attention_forward({.q = q.view(), .k = q.view(), .v = q.view()}, {.out = out.view()},
                    {.mask = {.causal = Causal::bottom_right, .window_left = 2}, .threads = &threads});
  std::int64_t sum = use_type<float>() + use_type<double>() + use_type<std::int64_t>();
  const Safetensors file = load_safetensors("model.safetensors");
  sum += file.read<float, 2>("a").size() + file.view<float, 3>("b").size();
  return sum + static_cast<index_t>(std::string_view(dtype_name(DType::bf16)).size());
}
