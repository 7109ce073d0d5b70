// A page from its template.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace multihead {

/// The template with each mark, as {{title}}, replaced by its value; what is put in is not looked at again.
std::string fill(std::string_view text, const std::vector<std::pair<std::string_view, std::string_view>>& values);

}  // namespace multihead
