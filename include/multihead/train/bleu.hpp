// BLEU of translations against one reference each, as the program sacreBLEU prints it with its defaults:
//
//   BLEU = 100 * BP * (p1 p2 p3 p4)^(1/4)            p_n = n-grams of the translations that the reference of
//                                                    their line has too, each at most as often as there, / all of them
//   BP   = min(1, exp(1 - reference_length / length))
//
// Counts are sums over all lines. A p_n without a match counts as 1 / (2^k * all), k = 1 for the first such n, 2 for
// the next. Signature: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp. Give whole texts with their own spacing and case,
// neither pieces nor tokens.
// Sources: Papineni et al. 2002; the smoothing: Chen & Cherry 2014, method 3; the form: Post 2018.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/types.hpp"

namespace multihead::train {

struct Bleu {
  double score = 0;                    ///< in [0, 100] up to rounding
  std::array<double, 4> precisions{};  ///< p1 .. p4 in percent, smoothed
  double brevity_penalty = 0;          ///< in [0, 1]
  index_t length = 0;                  ///< tokens of the translations
  index_t reference_length = 0;        ///< tokens of the references
};

/// @param translations, references  UTF-8, one a line, as many of the one as of the other
/// @throws ShapeError  if their numbers differ or are 0
/// @throws Error       if a line is not UTF-8
MULTIHEAD_API Bleu bleu(std::span<const std::string> translations, std::span<const std::string> references);

/// The tokens of a line by the rules that are called 13a: marks of punctuation and symbols stand alone, but for ' and
/// for - . , inside of words and numbers.
/// @throws Error  if the line is not UTF-8
MULTIHEAD_API std::vector<std::string> tokens_13a(std::string_view line);

}  // namespace multihead::train
