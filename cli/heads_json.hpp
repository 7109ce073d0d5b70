// One head of `multihead heads` as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "heads.hpp"

namespace multihead::cli {

/// role, labels, roles, statistics
nlohmann::ordered_json roles_json(const HeadsResult& result, const lens::EncoderHead& head);

}  // namespace multihead::cli
