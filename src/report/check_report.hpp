// What must hold before a page is made.
#pragma once

#include "multihead/report.hpp"

namespace multihead {

/// @throws ShapeError  as attention_page
void check_report(const AttentionReport& report);

/// The keys' tokens: the queries' where none are given.
const ReportTokens& key_tokens(const AttentionReport& report);

}  // namespace multihead
