#include "reference/array.hpp"

namespace multihead::reference {
namespace {

/// Calls visit(position, offset) for each element of a view, last axis fastest.
template <int R, class Visit>
void for_each_element(const std::array<index_t, R>& shape, const std::array<index_t, R>& stride, Visit visit) {
  index_t size = 1;
  for (index_t extent : shape) size *= extent;
  for (index_t position = 0; position < size; ++position) {
    index_t rest = position, offset = 0;
    for (int axis = R - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * stride[axis];
      rest /= shape[axis];
    }
    visit(static_cast<std::size_t>(position), offset);
  }
}

}  // namespace

template <class Real>
Real read_element(const void* data, DType dtype, index_t offset) {
  switch (dtype) {
    case DType::f32: return static_cast<Real>(static_cast<const float*>(data)[offset]);
    case DType::f64: return static_cast<Real>(static_cast<const double*>(data)[offset]);
    case DType::bf16: return static_cast<Real>(to_float(static_cast<const bf16*>(data)[offset]));
    case DType::f16: return static_cast<Real>(to_float(static_cast<const f16*>(data)[offset]));
    case DType::boolean: return static_cast<Real>(static_cast<const bool*>(data)[offset] ? 1 : 0);
    case DType::i64: return static_cast<Real>(static_cast<const index_t*>(data)[offset]);
  }
  return Real(0);
}

template <class Real>
void write_element(void* data, DType dtype, index_t offset, Real value) {
  switch (dtype) {
    case DType::f32: static_cast<float*>(data)[offset] = static_cast<float>(value); return;
    case DType::f64: static_cast<double*>(data)[offset] = static_cast<double>(value); return;
    case DType::bf16: static_cast<bf16*>(data)[offset] = to_bf16(static_cast<float>(value)); return;
    case DType::f16: static_cast<f16*>(data)[offset] = to_f16(static_cast<float>(value)); return;
    case DType::boolean: static_cast<bool*>(data)[offset] = value != Real(0); return;
    case DType::i64: static_cast<index_t*>(data)[offset] = static_cast<index_t>(value); return;
  }
}

template <class Real, int R>
Array<Real, R> read(const InputView<R>& view) {
  if (!view) return {};
  Array<Real, R> array(view.shape());
  for_each_element<R>(view.shape(), view.stride(), [&](std::size_t position, index_t offset) {
    array.values[position] = read_element<Real>(view.data(), view.dtype(), offset);
  });
  return array;
}

template <class Real, int R>
void write(const Array<Real, R>& array, const OutputView<R>& view) {
  if (!view) return;
  for_each_element<R>(view.shape(), view.stride(), [&](std::size_t position, index_t offset) {
    write_element(view.data(), view.dtype(), offset, array.values[position]);
  });
}

#define MULTIHEAD_REFERENCE_RANK(Real, R)                     \
  template Array<Real, R> read<Real, R>(const InputView<R>&); \
  template void write<Real, R>(const Array<Real, R>&, const OutputView<R>&);
#define MULTIHEAD_REFERENCE_REAL(Real)                            \
  template Real read_element<Real>(const void*, DType, index_t);  \
  template void write_element<Real>(void*, DType, index_t, Real); \
  MULTIHEAD_REFERENCE_RANK(Real, 1)                               \
  MULTIHEAD_REFERENCE_RANK(Real, 3)                               \
  MULTIHEAD_REFERENCE_RANK(Real, 4)
MULTIHEAD_REFERENCE_REAL(float)
MULTIHEAD_REFERENCE_REAL(double)
MULTIHEAD_REFERENCE_REAL(long double)
MULTIHEAD_REFERENCE_REAL(Rounding<float>)
MULTIHEAD_REFERENCE_REAL(Rounding<double>)

}  // namespace multihead::reference
