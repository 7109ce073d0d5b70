// A self-contained HTML page of what the heads of a model do: their roles, what they have in common, two heads or two
// models beside each other. Styles, script and data are inside, nothing is loaded.
#pragma once

#include <string>
#include <string_view>

#include "multihead/export.hpp"

namespace multihead {

/// The page, as one string of UTF-8, of the JSON that `multihead heads` writes (docs/lens.md). All that a page needs
/// are `heads`, each with `layer` and `head`; the page leaves out views whose numbers are absent and says so. Texts in
/// it are displayed literally: HTML markup in them has no effect. Entries of `similarity` are rounded to four decimals.
///
///   title        shown above and in the browser's tab, for example the name of the model
///   heads_json   UTF-8
///
/// @throws CheckpointError  if the text is not JSON, or has no list of heads, or a head has no layer or number, or two
///                          heads have the same
///
/// Cost     that of reading the JSON and writing it again.
MULTIHEAD_API std::string atlas_page(const std::string& title, std::string_view heads_json);

}  // namespace multihead
