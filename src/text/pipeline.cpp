#include "text/pipeline.hpp"

namespace multihead {
namespace {

Side read_side(const JsonNode& node) {
  const std::string side = node.text();
  if (side != "Left" && side != "Right") node.fail("must be Left or Right", {{"value", quote(side)}});
  return side == "Left" ? Side::left : Side::right;
}

TruncationProposal read_truncation(const JsonNode& node) {
  const auto direction = node.find("direction");  // files of before 2022 have none
  return {.max_length = node.at("max_length").count(), .side = direction ? read_side(*direction) : Side::right};
}

PaddingProposal read_padding(const JsonNode& node) {
  PaddingProposal padding = {.id = node.at("pad_id").count(),
                             .type_id = node.at("pad_type_id").count(),
                             .token = node.at("pad_token").text(),
                             .side = read_side(node.at("direction"))};
  const JsonNode strategy = node.at("strategy");  // "BatchLongest" or {"Fixed": 128}
  if (!strategy.is_text()) padding.length = strategy.at("Fixed").count();
  return padding;
}

}  // namespace

Tokenizer::Pipeline read_pipeline(const nlohmann::json& document, const std::filesystem::path& file) {
  const JsonNode root(document, "", file);
  Tokenizer::Pipeline pipeline;
  pipeline.model = make_model(root.at("model"));
  if (const auto node = root.find("normalizer")) pipeline.normalizer = make_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) pipeline.pre_tokenizer = make_pre_tokenizer(*node);
  if (const auto node = root.find("added_tokens")) {
    pipeline.added = AddedTokens(*node, pipeline.model->vocabulary(), pipeline.normalizer.get());
  }
  if (const auto node = root.find("post_processor")) {
    pipeline.post_processor = read_post_processor(*node, pipeline.model->vocabulary(), pipeline.added.vocabulary());
  }
  pipeline.decoder = make_decoder(root.find("decoder"));
  if (const auto node = root.find("truncation")) pipeline.truncation = read_truncation(*node);
  if (const auto node = root.find("padding")) pipeline.padding = read_padding(*node);
  return pipeline;
}

}  // namespace multihead
