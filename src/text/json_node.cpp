#include "text/json_node.hpp"

#include <limits>

namespace multihead {
namespace {

constexpr std::string_view kFunction = "Tokenizer::load";

std::string in_file(const std::string& text, const std::filesystem::path& file) {
  return text + " (\"" + file.string() + "\")";
}

}  // namespace

void JsonNode::fail(std::string_view rule, std::initializer_list<Got> got) const {
  throw CheckpointError(
      in_file(error_text(kFunction, (where_.empty() ? "the file" : where_) + " " + std::string(rule), got), *file_));
}

void JsonNode::unsupported(std::string_view value, std::string_view handled) const {
  throw UnsupportedError(in_file(error_text(kFunction, where_ + " is of a kind that is not handled",
                                            {{"kind", quote(value)}}, "handled: " + std::string(handled)),
                                 *file_));
}

std::optional<JsonNode> JsonNode::find(const std::string& field) const {
  if (!value_->is_object()) fail("must be an object", {{"type", value_->type_name()}});
  const auto it = value_->find(field);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return JsonNode(*it, where_.empty() ? field : where_ + "." + field, *file_);
}

JsonNode JsonNode::at(const std::string& field) const {
  auto node = find(field);
  if (!node) JsonNode(*value_, where_.empty() ? field : where_ + "." + field, *file_).fail("must be there");
  return *std::move(node);
}

std::string JsonNode::text() const {
  if (!value_->is_string()) fail("must be a string", {{"type", value_->type_name()}});
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false", {{"type", value_->type_name()}});
  return value_->get<bool>();
}

index_t JsonNode::count() const {
  constexpr index_t kLargest = std::numeric_limits<std::int32_t>::max();
  const bool in_range =
      value_->is_number_integer() && value_->get<index_t>() >= 0 && value_->get<index_t>() <= kLargest;
  if (!in_range) fail("must be an integer from 0 to 2147483647", {{"value", value_->dump().substr(0, 40)}});
  return value_->get<index_t>();
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) fail("must be an array", {{"type", value_->type_name()}});
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const nlohmann::json& element : *value_) {
    nodes.emplace_back(element, where_ + "[" + std::to_string(nodes.size()) + "]", *file_);
  }
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!value_->is_object()) fail("must be an object", {{"type", value_->type_name()}});
  std::vector<std::pair<std::string, JsonNode>> nodes;
  nodes.reserve(value_->size());
  for (const auto& [name, member] : value_->items()) {
    nodes.emplace_back(name, JsonNode(member, where_ + "." + name, *file_));
  }
  return nodes;
}

}  // namespace multihead
