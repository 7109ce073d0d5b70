#include "multihead/tensor.hpp"

#include "core/require.hpp"

namespace multihead {

index_t checked_size(const index_t* shape, int rank, index_t element_bytes) {
  index_t size = 1, bytes = element_bytes;
  bool fits = true;
  for (int axis = 0; axis < rank; ++axis) {
    require(shape[axis] >= 0, "Tensor", "extents must not be negative", {{"shape", shape_text(shape, rank)}});
    fits = fits && !__builtin_mul_overflow(size, shape[axis], &size);
  }
  fits = fits && !__builtin_mul_overflow(size, element_bytes, &bytes);
  require(fits, "Tensor", "the size must fit in 63 bits of bytes",
          {{"shape", shape_text(shape, rank)}, {"element_bytes", element_bytes}});
  return size;
}

}  // namespace multihead
