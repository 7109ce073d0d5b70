// What must hold before a page is made.
#pragma once

#include "multihead/report.hpp"

namespace multihead {

/// @throws ShapeError  as attention_page
void check_report(const AttentionReport& report);

/// The keys' tokens: the queries' where none are given.
const ReportTokens& key_tokens(const AttentionReport& report);

/// The numbers that were given for a layer's heads, or null.
const std::vector<index_t>* numbers_of(const AttentionReport& report, std::size_t layer);

}  // namespace multihead
