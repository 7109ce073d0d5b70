// Untrusted text inside HTML and inside a script element.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace multihead {

/// & < > " ' become entities.
std::string escape_html(std::string_view text);

/// JSON in which no '<', '>', '&' and no character outside ASCII stands, so that nothing in it can end or open an
/// element; U+2028 and its like are escaped with the rest. Bytes that are no UTF-8 become U+FFFD.
std::string json_for_script(const nlohmann::json& value);

}  // namespace multihead
