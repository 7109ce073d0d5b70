// From hidden states to a vocabulary, and the label-smoothed cross-entropy of its softmax, without storing the logits.
//
//   logits[n, :] = scale * x[n] weight^T + bias        lse[n] = log sum_v exp(logits[n, v])            [V]
//   nll[n]       = lse[n] - logits[n, target[n]]
//   loss[n]      = (1 - e) * nll[n] + e * (lse[n] - mean_v logits[n, v])              e = label_smoothing
//   dlogits[n]   = gradient_scale * (softmax(logits[n]) - (1 - e) * onehot(target[n]) - e / V)
//
// The smoothed target has e / V on every class, as in PyTorch; other toolkits spread e over V - 1 or V - 2. Tied
// output: `weight` is the matrix of an Embedding. Source: Szegedy et al. 2016, section 7; Press & Wolf 2017 (tied).
#pragma once

#include <optional>

#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"

namespace multihead::nn {

/// The projection to the vocabulary. T is float or double.
template <class T>
struct VocabularyOutput {
  TensorView<const T, 2> weight;     ///< [V, E], an Embedding's matrix where tied
  TensorView<const T, 1> bias = {};  ///< [V]; absent = 0
  double scale = 1;                  ///< of x, before the product
};

/// logits [n, V] of x [n, E]; overwritten. @throws ShapeError  before anything is written
template <class T>
MULTIHEAD_API void vocabulary_logits(const VocabularyOutput<T>& output, TensorView<const T, 2> x,
                                     TensorView<T, 2> logits, Executor* threads = nullptr);

struct VocabularyLossOptions {
  double label_smoothing = 0;           ///< e in [0, 1)
  double gradient_scale = 1;            ///< of all gradients: 1 / (targets of the whole step) for their mean
  std::optional<index_t> ignored = {};  ///< targets of this id count nowhere, neither in sums nor in gradients
  Executor* threads = nullptr;
};

/// Sums over the targets that count, in natural units.
struct VocabularyLoss {
  double loss = 0;          ///< smoothed
  double nll = 0;           ///< of the targets alone: what is reported
  index_t num_targets = 0;  ///< that count
};

/// Gradients. Absent ones are not computed.
template <class T>
struct VocabularyGradients {
  TensorView<T, 2> dx = {};       ///< [n, E]; overwritten
  TensorView<T, 2> dweight = {};  ///< [V, E]; added to
  TensorView<T, 1> dbias = {};    ///< [V]; added to
};

/// @param x        [n, E], last axis contiguous
/// @param targets  [n], each in [0, V) or `ignored`
/// @param nll      [n] written: each row's nll, 0 where it is ignored; absent = not written
/// @throws ShapeError  before anything is written; names the first target that has no row
///
/// Cost     2*n*E*V flops, three times that with gradients.
/// Memory   logits of 256 rows, and two packed copies of weight.
/// Threads  the result is bitwise equal for any thread count; a row's loss and dx for any other rows.
template <class T>
MULTIHEAD_API VocabularyLoss vocabulary_loss(const VocabularyOutput<T>& output, TensorView<const T, 2> x,
                                             TensorView<const index_t, 1> targets,
                                             const VocabularyGradients<T>& gradients = {},
                                             const VocabularyLossOptions& options = {}, TensorView<T, 1> nll = {});

}  // namespace multihead::nn
