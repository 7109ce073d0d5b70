// The table of one target: every kernel, for one arithmetic type.

#if defined(MULTIHEAD_KERNELS_TABLE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TABLE_INL
#undef MULTIHEAD_KERNELS_TABLE_INL
#else
#define MULTIHEAD_KERNELS_TABLE_INL
#endif

#include "hwy/highway.h"
#include "kernels/backward/backward-inl.hpp"
#include "kernels/backward/input_gradients-inl.hpp"
#include "kernels/decode/decode-inl.hpp"
#include "kernels/decode/decode_layout-inl.hpp"
#include "kernels/forward/block_layout-inl.hpp"
#include "kernels/forward/combine-inl.hpp"
#include "kernels/forward/forward-inl.hpp"
#include "kernels/kernels.hpp"
#include "kernels/product/dot-inl.hpp"
#include "kernels/product/matmul-inl.hpp"
#include "kernels/product/row_dots-inl.hpp"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

template <class T>
const Table<T>* MakeTable() {
  static constexpr Table<T> kTable{
      .target = HWY_STR(HWY_NAMESPACE),
      .lanes = kTileLanes<T>,
      .vector_lanes = kVectorLanes<T>,
      .forward_workspace = &ForwardWorkspace<T>,
      .forward_block = &ForwardBlockKernel<T>,
      .decode_rows = kDecodeRows<T>,
      .decode_workspace = &DecodeWorkspace<T>,
      .decode = &DecodeKernel<T>,
      .combine_chunks = &CombineChunks<T>,
      .backward_workspace = &BackwardWorkspace<T>,
      .backward_block = &BackwardBlockKernel<T>,
      .query_gradient_workspace = &QueryGradientWorkspace<T>,
      .query_gradient = &QueryGradient<T>,
      .bias_gradient = &BiasGradient<T>,
      .matmul_panel = &MatmulPanel<T>,
      .pack_panel = &PackPanel<T>,
      .row_dots = &RowDots<T>,
  };
  return &kTable;
}

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
