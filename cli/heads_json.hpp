// One head of `multihead heads` as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "heads.hpp"

namespace multihead::cli {

/// role, labels, roles, statistics
nlohmann::ordered_json roles_json(const HeadsResult& result, const lens::EncoderHead& head);

/// One object a layer; null where heads were not compared.
nlohmann::ordered_json layers_json(const HeadsResult& result);

/// All pairs in the order of the heads; null where heads were not compared.
nlohmann::ordered_json similarity_json(const HeadsResult& result);

/// cluster, nearest, replaceable, position; nothing where heads were not compared.
nlohmann::ordered_json head_redundancy_json(const HeadsResult& result, const lens::EncoderHead& head);

/// importance, importances; nothing where they were not judged.
nlohmann::ordered_json head_importance_json(const HeadsResult& result, const lens::EncoderHead& head);

/// By score, how well it agrees with ablation; null without that.
nlohmann::ordered_json agreement_json(const HeadsResult& result);

}  // namespace multihead::cli
