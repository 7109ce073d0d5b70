#include "text/post_processor.hpp"

#include <algorithm>

namespace multihead {
namespace {

struct Vocabularies {
  const Vocabulary& model;
  const Vocabulary& added;
};

SpecialToken checked(const JsonNode& node, SpecialToken token, const Vocabularies& known) {
  const auto added_id = known.added.id_of(token.token);
  const auto id = added_id ? added_id : known.model.id_of(token.token);
  if (!id) node.fail("must be in the vocabulary", {{"token", quote(token.token)}});
  if (*id != token.id) {
    node.fail("must have the id that the vocabulary gives it",
              {{"token", quote(token.token)}, {"id", token.id}, {"expected", *id}});
  }
  return token;
}

// {"id": .., "ids": [..], "tokens": [..]}: one name in the template may stand for several tokens.
std::vector<SpecialToken> read_special(const JsonNode& node, const Vocabularies& known) {
  const auto ids = node.at("ids").elements();
  const auto tokens = node.at("tokens").elements();
  if (ids.size() != tokens.size()) {
    node.fail("must have as many ids as tokens", {{"ids", ids.size()}, {"tokens", tokens.size()}});
  }
  std::vector<SpecialToken> special;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    special.push_back(checked(tokens[i], {ids[i].count(), tokens[i].text()}, known));
  }
  return special;
}

TemplateStep read_step(const JsonNode& node, const JsonNode& special_tokens, const Vocabularies& known) {
  if (const auto sequence = node.find("Sequence")) {
    const std::string name = sequence->at("id").text();
    if (name != "A" && name != "B") sequence->fail("must be A or B", {{"id", quote(name)}});
    return {.sequence = name == "A" ? 0 : 1, .type_id = sequence->at("type_id").count()};
  }
  const JsonNode special = node.at("SpecialToken");
  return {.tokens = read_special(special_tokens.at(special.at("id").text()), known),
          .type_id = special.at("type_id").count()};
}

Template read_template(const JsonNode& node, const JsonNode& special_tokens, const Vocabularies& known,
                       index_t num_sequences) {
  Template steps;
  for (const JsonNode& element : node.elements()) steps.push_back(read_step(element, special_tokens, known));
  for (index_t sequence = 0; sequence < 2; ++sequence) {
    const auto uses =
        std::count_if(steps.begin(), steps.end(), [&](const TemplateStep& step) { return step.sequence == sequence; });
    const index_t expected = sequence < num_sequences ? 1 : 0;
    if (uses == expected) continue;
    node.fail("must use each of its texts once and no other",
              {{"text", sequence == 0 ? "A" : "B"}, {"uses", static_cast<index_t>(uses)}, {"expected", expected}});
  }
  return steps;
}

PostProcessor read_bert(const JsonNode& node, const Vocabularies& known) {
  const auto read_pair = [&](const std::string& field) -> std::vector<SpecialToken> {
    const auto parts = node.at(field).elements();  // ["[SEP]", 102]
    if (parts.size() != 2) node.at(field).fail("must be a token and its id", {{"elements", parts.size()}});
    return {checked(parts[0], {parts[1].count(), parts[0].text()}, known)};
  };
  const auto cls = read_pair("cls");
  const auto sep = read_pair("sep");
  const TemplateStep text = {.sequence = 0};
  const TemplateStep pair = {.sequence = 1, .type_id = 1};
  return {.single = {{.tokens = cls}, text, {.tokens = sep}},
          .pair = {{.tokens = cls}, text, {.tokens = sep}, pair, {.tokens = sep, .type_id = 1}}};
}

}  // namespace

index_t num_added_tokens(const Template& steps) {
  std::size_t num_tokens = 0;
  for (const TemplateStep& step : steps) num_tokens += step.tokens.size();
  return static_cast<index_t>(num_tokens);
}

PostProcessor read_post_processor(const JsonNode& node, const Vocabulary& model, const Vocabulary& added) {
  const Vocabularies known = {model, added};
  const JsonNode type = node.at("type");
  if (type.text() == "BertProcessing") return read_bert(node, known);
  if (type.text() == "TemplateProcessing") {
    const JsonNode special = node.at("special_tokens");
    return {.single = read_template(node.at("single"), special, known, 1),
            .pair = read_template(node.at("pair"), special, known, 2)};
  }
  node.unsupported(type.text(), "BertProcessing, TemplateProcessing");
}

}  // namespace multihead
