// One self-contained page of a model's heads: html with its styles, its script and its data, no outside address.
//
//   layers[l]  probs [1, H, Sq, Skv]   as attention_forward leaves them; layers may differ in H
//   queries    Sq tokens               the rows
//   keys       Skv tokens              the columns; left empty in self-attention: the queries again
#pragma once

#include <string>
#include <vector>

#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// A token as it is shown. All texts are UTF-8 and shown literally, markup included.
struct ReportToken {
  std::string text;
  bool special = false;  ///< [CLS], [SEP], padding: what the page can hide
  index_t word = -1;     ///< index into ReportTokens::words; -1 = the token is a word of its own
};

struct ReportTokens {
  std::vector<ReportToken> tokens;
  std::vector<std::string> words = {};  ///< the text of each word; a word's tokens may lie anywhere
};

/// [tokens]: which are special.
MULTIHEAD_API Tensor<bool, 1> special_flags(const ReportTokens& tokens);

struct AttentionReport {
  std::string title;                               ///< the model's name, say
  std::string text = {};                           ///< what was read; shown under the title and named in the tab
  std::string model = {};                          ///< where the model lies: a path or an address
  std::vector<std::string> notes = {};             ///< sentences shown under the title: "The text was cut ..."
  ReportTokens queries;                            ///< Sq
  ReportTokens keys = {};                          ///< Skv
  std::vector<TensorView<const float, 4>> layers;  ///< each [1, H, Sq, Skv], any strides
  index_t first_layer = 0;                         ///< the head that is open at first
  index_t first_head = 0;                          ///< counted among those that the layer has

  /// The number that each head is shown under, rising within a layer: what is left of a layer whose heads were removed
  /// keeps its names. Empty, or an empty list for a layer: 0 .. H-1.
  std::vector<std::vector<index_t>> head_numbers = {};
};

/// Weights of a page are kept as whole multiples of 10^-digits: every number shown is the exact one, rounded.
/// Six digits, or four where the maps hold more than two million weights and six would make the file too large; a head
/// without large weights then has five (none above 0.01) or six (none above 0.001), which cost it no more bytes.
MULTIHEAD_API int report_digits(const AttentionReport& report);

/// The page, as one string of UTF-8.
///
/// @throws ShapeError  if a layer's batch is not 1, its rows or columns are not as many as the tokens, a weight is not
///                     in [0, 1] (a little over for rounding), a word index is out of range, there is no layer or a
///                     layer has no head, the first head does not exist, or the numbers of a layer's heads are not one
///                     a head, from 0 up and rising
///
/// Cost     some 60 ns a weight on one core; heads go to the threads one by one.
/// Memory   the page (about 0.75 byte a weight at four digits, 3 at six) and one packed head a thread.
MULTIHEAD_API std::string attention_page(const AttentionReport& report, Executor* threads = nullptr);

}  // namespace multihead
