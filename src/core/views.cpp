#include <string>

#include "core/require.hpp"
#include "multihead/broadcast_view.hpp"
#include "multihead/tensor.hpp"

namespace multihead::detail {

void check_buffer(index_t size, const index_t* shape, int rank) {
  const index_t wanted = checked_size(shape, rank, 1);
  require(size >= wanted, "TensorView", "the buffer must hold all elements of the shape",
          {{"elements", size}, {"shape", shape_text(shape, rank)}, {"wanted", wanted}});
}

BroadcastAxes::BroadcastAxes(std::span<const index_t> shape_of, std::span<const index_t> stride_of) {
  require(!shape_of.empty() && shape_of.size() <= 4, "BroadcastView", "the rank must be 1 to 4",
          {{"rank", shape_of.size()}});
  require(stride_of.empty() || stride_of.size() == shape_of.size(), "BroadcastView",
          "shape and stride must have as many entries", {{"shape", shape_of.size()}, {"stride", stride_of.size()}});
  index_t step = 1;
  for (std::size_t n = 1; n <= shape_of.size(); ++n) {
    shape[4 - n] = shape_of[shape_of.size() - n];
    stride[4 - n] = stride_of.empty() ? step : stride_of[stride_of.size() - n];
    step *= shape[4 - n];
  }
}

}  // namespace multihead::detail
