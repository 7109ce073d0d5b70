// Post-processors: the tokens that are put around the text.
#pragma once

#include <optional>

#include "text/added_tokens.hpp"
#include "text/json_node.hpp"
#include "text/vocabulary.hpp"

namespace multihead {

struct SpecialToken {
  index_t id = 0;
  std::string token;
};

/// One place of a template: a text's tokens, or tokens that are added.
struct TemplateStep {
  std::optional<index_t> sequence = {};  // 0 = text, 1 = pair; unset = `tokens`
  std::vector<SpecialToken> tokens = {};
  index_t type_id = 0;
};

using Template = std::vector<TemplateStep>;

/// Every post-processor here is two templates.
struct PostProcessor {
  Template single = {{.sequence = 0}};
  Template pair = {{.sequence = 0}, {.sequence = 1, .type_id = 1}};
};

index_t num_added_tokens(const Template& steps);

/// From the value of "post_processor". Special tokens whose ids contradict the vocabularies are refused.
PostProcessor read_post_processor(const JsonNode& node, const Vocabulary& model, const Vocabulary& added);

}  // namespace multihead
