// A forward of an encoder whose steps are kept: gradients with regard to the gates of its heads, and runs from any
// layer on with other head outputs.
//
//   y_l = concat(gate_lh * Z_lh) w_o^T + b_o      Z_lh [tokens, Dv], the output of head h of layer l
//
//   dloss / dgate_lh of sequence b = sum over the tokens of b of <Z_lh, dloss / d(gate_lh Z_lh)>
//
// All tensors hold the tokens of the batch without padding, one sequence after the other.
#pragma once

#include <memory>
#include <vector>

#include "multihead/encoder.hpp"

namespace multihead {

struct EncoderTraceOptions {
  std::span<const TensorView<const float, 1>> gates = {};  ///< as EncoderOptions::gates
  Executor* threads = nullptr;
};

/// What the layers after a changed one attend with.
enum class LaterMaps : std::uint8_t {
  recomputed,  ///< the maps that follow from the change
  recorded,    ///< those of the trace: the change passes through values alone (Olsson et al. 2022)
};

/// The encoder must outlive the trace and keep its weights; gates are copied.
class MULTIHEAD_API EncoderTrace {
 public:
  /// @throws ShapeError  as Encoder::forward
  /// Cost  that of Encoder::forward. Memory  about 10 [tokens, E] and a [tokens, hidden_features] for each layer.
  EncoderTrace(const Encoder& encoder, const EncoderInput& input, const EncoderTraceOptions& options = {});
  ~EncoderTrace();
  EncoderTrace(EncoderTrace&&) noexcept;
  EncoderTrace& operator=(EncoderTrace&&) noexcept;

  TensorView<const index_t, 1> offsets() const;    ///< [B + 1]; sequence b is tokens [offsets[b], offsets[b+1])
  TensorView<const float, 2> last_hidden() const;  ///< [tokens, E]; the bits of Encoder::forward
  TensorView<const float, 3> head_outputs(index_t layer) const;  ///< [tokens, H, Dv] before gates
  TensorView<const float, 3> values(index_t layer) const;        ///< [tokens, H, Dv] v of each head

  /// The last hidden states if w_o of a layer read `heads` in place of its heads' outputs times gates. Bit-identical to
  /// a whole forward if `heads` are those of the forward with other gates in this layer.
  /// @param heads  [tokens, H, Dv], contiguous
  /// @throws ShapeError  if there is no such layer, or the shape of heads is not that of head_outputs(layer)
  /// Cost  a forward from this layer on, without its attention.
  Tensor<float, 2> run_from(index_t layer, TensorView<const float, 3> heads,
                            LaterMaps maps = LaterMaps::recomputed) const;

  /// The gradient with regard to the gates, for each sequence of the batch by itself.
  /// @param dlast_hidden  [tokens, E] gradient of a loss that is a sum over sequences
  /// @return one [B, H] for each layer
  /// @throws ShapeError  if dlast_hidden is not [tokens, E]
  /// Cost  about that of a forward and a half; no gradients of parameters. Threads  the same bits for any number.
  std::vector<Tensor<float, 2>> gate_gradients(TensorView<const float, 2> dlast_hidden) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace multihead
