// A test's tensor: dtype chosen at run time, any order of axes in memory, with room between and around its rows that
// nobody may touch.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "multihead/any_view.hpp"
#include "reference/array.hpp"

namespace multihead::test {

/// How a tensor lies in memory. order[0] is the slowest axis.
template <int R>
struct Layout {
  std::array<int, R> order = [] {
    std::array<int, R> axes{};
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }();
  index_t row_gap = 0;                    ///< unused elements after each run of the fastest axis
  std::optional<int> expanded_axis = {};  ///< an axis of stride 0
  index_t guard = 64;                     ///< unused elements before and after everything
};

template <int R>
class AnyTensor {
 public:
  AnyTensor() = default;
  AnyTensor(DType dtype, std::array<index_t, R> shape, const Layout<R>& layout = {})
      : dtype_(dtype), shape_(shape), offset_(layout.guard), present_(true) {
    index_t step = 1;
    for (int place = R - 1; place >= 0; --place) {
      const int axis = layout.order[place];
      const bool expanded = layout.expanded_axis && axis == *layout.expanded_axis;
      stride_[axis] = expanded ? 0 : step;
      if (!expanded) step *= shape[axis];
      if (place == R - 1) step += layout.row_gap;
    }
    // The untouched pattern is a NaN in every floating dtype, so that one read by mistake shows as well.
    bytes_.assign(static_cast<std::size_t>((step + 2 * layout.guard) * dtype_bytes(dtype)), 0xff);
  }

  explicit operator bool() const { return present_; }
  DType dtype() const { return dtype_; }
  const std::array<index_t, R>& shape() const { return shape_; }
  index_t size() const { return std::accumulate(shape_.begin(), shape_.end(), index_t{1}, std::multiplies<>()); }

  InputView<R> in() const {
    if (!present_) return {};
    return {bytes_.data() + offset_ * dtype_bytes(dtype_), dtype_, shape_, stride_};
  }
  OutputView<R> out() {
    if (!present_) return {};
    return {bytes_.data() + offset_ * dtype_bytes(dtype_), dtype_, shape_, stride_};
  }
  /// As a bias, a boolean mask, or the gradient of a bias.
  BroadcastView broadcast() const
    requires(R == 4)
  {
    return in();
  }
  BroadcastOutput broadcast_out()
    requires(R == 4)
  {
    return out();
  }

  std::array<index_t, R> index_of(index_t position) const {
    std::array<index_t, R> index{};
    for (std::size_t axis = R; axis-- > 0;) {
      index[axis] = position % shape_[axis];
      position /= shape_[axis];
    }
    return index;
  }

  double get(std::array<index_t, R> index) const {
    return reference::read_element<double>(bytes_.data(), dtype_, element(index));
  }
  void set(std::array<index_t, R> index, double value) {
    reference::write_element(bytes_.data(), dtype_, element(index), value);
  }
  /// Writes value(index) into every element.
  template <class Value>
  void generate(Value value) {
    for (index_t position = 0; position < size(); ++position) set(index_of(position), value(index_of(position)));
  }
  /// All elements, last axis fastest.
  std::vector<double> values() const { return reference::read<double, R>(in()).values; }

  /// The whole memory, gaps and guards included.
  const std::vector<unsigned char>& bytes() const { return bytes_; }
  /// Whether everything outside the view still holds the untouched pattern.
  bool outside_untouched() const {
    std::vector<unsigned char> rest = bytes_;
    const index_t width = dtype_bytes(dtype_);
    for (index_t position = 0; position < size(); ++position) {
      std::fill_n(rest.begin() + element(index_of(position)) * width, width, 0xff);
    }
    return std::all_of(rest.begin(), rest.end(), [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  index_t element(const std::array<index_t, R>& index) const {
    return std::inner_product(index.begin(), index.end(), stride_.begin(), offset_);
  }

  DType dtype_ = DType::f32;
  std::array<index_t, R> shape_{}, stride_{};
  index_t offset_ = 0;
  bool present_ = false;
  std::vector<unsigned char> bytes_;
};

}  // namespace multihead::test
