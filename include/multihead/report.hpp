// A self-contained HTML page of the attention heads of a model: styles, script and data are inside, nothing is loaded.
//
//   layers[l]  probs [1, H, Sq, Skv]   as attention_forward writes them; layers may differ in H
//   queries    Sq tokens               the rows
//   keys       Skv tokens              the columns; empty = the queries (self-attention)
#pragma once

#include <string>
#include <vector>

#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"
#include "multihead/threads.hpp"

namespace multihead {

/// A token as it is displayed. All texts are UTF-8 and displayed literally: HTML markup in them has no effect.
struct ReportToken {
  std::string text;
  bool special = false;  ///< [CLS], [SEP], padding and the like, which the page can hide
  index_t word = -1;     ///< index into ReportTokens::words; -1 = the token is a word of its own
};

struct ReportTokens {
  std::vector<ReportToken> tokens;
  std::vector<std::string> words = {};  ///< the text of each word; its tokens need not be adjacent
};

/// For each token whether it is special, [tokens].
MULTIHEAD_API Tensor<bool, 1> special_flags(const ReportTokens& tokens);

struct AttentionReport {
  std::string title;                               ///< for example the name of the model
  std::string text = {};                           ///< the analysed text, shown under the title and in the browser tab
  std::string model = {};                          ///< path or address of the model
  std::vector<std::string> notes = {};             ///< sentences shown under the title: "The text was cut ..."
  ReportTokens queries;                            ///< Sq
  ReportTokens keys = {};                          ///< Skv
  std::vector<TensorView<const float, 4>> layers;  ///< each [1, H, Sq, Skv], any strides
  index_t first_layer = 0;                         ///< the head that is displayed at first
  index_t first_head = 0;                          ///< its index within the layer

  /// The number under which each head is displayed, ascending within a layer, so that heads keep their original numbers
  /// after others were removed. Empty, or an empty list for a layer: 0 .. H-1.
  std::vector<std::vector<index_t>> head_numbers = {};
};

/// Decimal digits of the probabilities in the page, which are stored as whole multiples of 10^-digits, exactly rounded.
/// Six, or four if there are more than two million probabilities, to limit the size of the file; a head whose largest
/// probability is at most 0.01 then has five, and one at most 0.001 six, which takes no more bytes.
MULTIHEAD_API int report_digits(const AttentionReport& report);

/// The page, as one string of UTF-8.
///
/// @throws ShapeError  if the batch of a layer is not 1, its rows or columns are not as many as the tokens, a
///                     probability is not in [0, 1] (apart from rounding), a word index is out of range, there is no
///                     layer or a layer has no head, the first head does not exist, or the head_numbers of a
///                     layer are not one per head, from 0 up and ascending
///
/// Cost     about 60 ns per probability on one core; heads are distributed over the threads.
/// Memory   the page (about 0.75 bytes per probability at four digits, 3 at six) and one packed head per thread.
MULTIHEAD_API std::string attention_page(const AttentionReport& report, Executor* threads = nullptr);

/// The page of a server: a text field above an attention page. Each text that is typed is sent by POST to /page, as
/// UTF-8; what comes back, an attention_page, takes the place of the one before and keeps its head and view.
MULTIHEAD_API std::string live_page(const std::string& title);

}  // namespace multihead
