#include "text/vocabulary.hpp"

#include <algorithm>

namespace multihead {

bool Vocabulary::insert(std::string token, index_t id) {
  if (ids_.contains(token)) return false;
  const auto [it, is_new] = tokens_.try_emplace(id, std::move(token));
  if (!is_new) return false;
  ids_.emplace(it->second, id);
  largest_id_ = std::max(largest_id_, id);
  return true;
}

std::optional<index_t> Vocabulary::id_of(std::string_view token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const std::string* Vocabulary::token_of(index_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : &it->second;
}

}  // namespace multihead
