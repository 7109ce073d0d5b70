// Classes of code points, as the reference tokenizer sees them.
//
// It takes them from four tables of different years:
//   control, punctuation, nonspacing mark    Unicode 8.0
//   combining mark, normal forms             Unicode 9.0
//   word character                           Unicode 16.0
//   lower case                               Unicode 17.0
// ICU is younger than the first two and may be older than the others. A code point that came after a table has no class
// in it, so ICU's answer counts only for code points of the table's age; what Unicode itself reclassified since, and
// what ICU may not know yet, is listed one by one. A test compares all code points.
#pragma once

#include "multihead/types.hpp"

namespace multihead {

/// Assigned in Unicode `major`.0 or before.
bool assigned_by(char32_t c, int major);

bool is_whitespace(char32_t c);       // White_Space
bool is_control(char32_t c);          // Cc, Cf, Co; tab, newline and return are whitespace instead
bool is_punctuation(char32_t c);      // P*, and the ASCII symbols such as $ + ~
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_combining_mark(char32_t c);   // M*
bool is_word(char32_t c);             // \w of a regular expression: Alphabetic, M*, Nd, Pc, Join_Control
bool is_cjk_ideograph(char32_t c);    // the blocks of the original BERT

/// Lower case of one code point regardless of context: two code points for U+0130, else one. `second` is 0 if unused.
struct LowerCase {
  char32_t first = 0;
  char32_t second = 0;
};
LowerCase lower_case(char32_t c);

}  // namespace multihead
