// What the files beside a vocabulary say about a tokenizer: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json, and the class that config.json names. Read as the `transformers` library reads them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/model_folder.hpp"
#include "multihead/tokenizer.hpp"
#include "text/added_tokens.hpp"

namespace multihead {

/// A token that is to be added to those of the vocabulary file.
struct StatedToken {
  AddedToken token;                 // its id is given by the vocabulary
  std::optional<JsonNode> id = {};  // the value or key that states an id, which must then be that of the vocabulary
  index_t stated_id = 0;            // what `id` says
  bool replaces = false;            // takes the place of an equal one that is there already, else it is left out
};

struct TokenizerSettings {
  /// Absent: not stated. An inner absence is JSON's null: as lower-casing.
  std::optional<bool> lowercase, isolate_ideographs;
  std::optional<std::optional<bool>> strip_accents;
  /// By their key: "cls_token" -> "[CLS]".
  std::map<std::string, std::string> special;
  std::vector<StatedToken> tokens;    ///< in the order in which they are added
  std::vector<JsonNode> never_split;  ///< must be added tokens, which are not split in any case
  bool is_bert = false;  ///< the class is stated, and one of those that build the whole of BERT's pipeline themselves
  std::optional<Side> truncation_side;
  bool uses_token_types = true;
  const JsonFile* config = nullptr;  ///< tokenizer_config.json, for error texts
};

/// @param from_vocabulary  there is a vocab.txt alone: the class must be BERT's, and its special tokens are added
/// @throws UnsupportedError, CheckpointError  in the name of Tokenizer::load
TokenizerSettings read_tokenizer_settings(const ModelFolder& folder, bool from_vocabulary);

}  // namespace multihead
