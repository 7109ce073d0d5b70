// Tokens and their ids, both ways.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "multihead/types.hpp"

namespace multihead {

class Vocabulary {
 public:
  /// False, and nothing changed, if the token or the id is taken already.
  bool insert(std::string token, index_t id);

  std::optional<index_t> id_of(std::string_view token) const;
  const std::string* token_of(index_t id) const;  // null if there is none

  index_t num_tokens() const { return static_cast<index_t>(tokens_.size()); }
  index_t largest_id() const { return largest_id_; }  // -1 if empty

  auto begin() const { return tokens_.begin(); }  // pairs (id, token), in no order
  auto end() const { return tokens_.end(); }

 private:
  std::unordered_map<index_t, std::string> tokens_;
  std::unordered_map<std::string_view, index_t> ids_;  // the keys live in tokens_
  index_t largest_id_ = -1;
};

}  // namespace multihead
