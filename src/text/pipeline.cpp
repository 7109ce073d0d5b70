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

// Tokens that the files beside the vocabulary add to it.
void add_stated(AddedTokens& added, const std::vector<StatedToken>& tokens, const Vocabulary& vocabulary) {
  for (const StatedToken& stated : tokens) {
    const std::string& content = stated.token.content;
    if (content.empty()) continue;
    const bool is_there = added.contains(content);
    const index_t id =
        is_there && !stated.replaces ? *added.vocabulary().id_of(content) : added.add(stated.token, vocabulary);
    if (stated.id && stated.stated_id != id) {
      stated.id->fail("must have the id that the vocabulary gives it",
                      {{"content", quote(content)}, {"id", stated.stated_id}, {"expected", id}});
    }
  }
}

// tokenizer_config.json may repeat what tokenizer.json says. Where both differ, readers differ in which they follow.
class Agreement {
 public:
  Agreement(const JsonNode& root, const TokenizerSettings& settings) : root_(root), settings_(settings) {}

  void check(const PostProcessor& post_processor) const {
    if (settings_.config == nullptr) return;
    check_normalizer();
    if (!settings_.is_bert) return;
    const Template& steps = post_processor.single;
    check_special("unk_token", root_.at("model").at("unk_token").text());
    check_special("cls_token", steps.front().tokens.empty() ? "" : steps.front().tokens.front().token);
    check_special("sep_token", steps.back().tokens.empty() ? "" : steps.back().tokens.back().token);
  }

 private:
  void require_equal(const char* key, const std::string& stated, const std::string& used) const {
    if (stated == used) return;
    throw CheckpointError(error_text("Tokenizer::load", "tokenizer_config.json and tokenizer.json must say the same",
                                     {{key, stated}, {"tokenizer.json", used}}) +
                          " (\"" + settings_.config->path.string() + "\")");
  }

  void check_special(const char* key, const std::string& used) const {
    if (const auto found = settings_.special.find(key); found != settings_.special.end()) {
      require_equal(key, quote(found->second), quote(used));
    }
  }

  void check_normalizer() const {
    const auto text = [](bool flag) { return std::string(flag ? "true" : "false"); };
    const bool states = settings_.lowercase || settings_.isolate_ideographs || settings_.strip_accents;
    const auto node = root_.find("normalizer");
    const std::string type = node ? node->at("type").text() : "none";
    if (type != "BertNormalizer") {
      if (states && settings_.is_bert) require_equal("normalizer", "BertNormalizer", type);
      return;
    }
    const auto strip = node->find("strip_accents");
    const bool lowercase = node->at("lowercase").boolean(), strips = strip ? strip->boolean() : lowercase;
    if (settings_.lowercase) require_equal("do_lower_case", text(*settings_.lowercase), text(lowercase));
    if (settings_.isolate_ideographs) {
      require_equal("tokenize_chinese_chars", text(*settings_.isolate_ideographs),
                    text(node->at("handle_chinese_chars").boolean()));
    }
    if (settings_.strip_accents) {
      require_equal("strip_accents", text(settings_.strip_accents->value_or(lowercase)), text(strips));
    }
  }

  const JsonNode& root_;
  const TokenizerSettings& settings_;
};

}  // namespace

Tokenizer::Pipeline read_pipeline(const nlohmann::json& document, const std::filesystem::path& file,
                                  const TokenizerSettings& settings) {
  const JsonNode root(document, "", file);
  Tokenizer::Pipeline pipeline;
  pipeline.model = make_model(root);
  const Vocabulary& vocabulary = pipeline.model->vocabulary();
  if (const auto node = root.find("version")) {
    if (!node->is_text() || node->text() != "1.0") node->fail("must be \"1.0\"");
  }
  if (const auto node = root.find("normalizer")) pipeline.normalizer = make_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) pipeline.pre_tokenizer = make_pre_tokenizer(*node);
  if (const auto node = root.find("added_tokens")) pipeline.added.add_all(*node, vocabulary);
  add_stated(pipeline.added, settings.tokens, vocabulary);
  for (const JsonNode& word : settings.never_split) {
    if (!pipeline.added.contains(word.text())) word.unsupported(word.text(), "added tokens");
  }
  pipeline.added.finish(pipeline.normalizer.get());
  if (const auto node = root.find("post_processor")) {
    pipeline.post_processor = read_post_processor(*node, vocabulary, pipeline.added.vocabulary());
  }
  pipeline.decoder = make_decoder(root.find("decoder"));
  if (const auto node = root.find("truncation")) pipeline.truncation = read_truncation(*node);
  if (const auto node = root.find("padding")) pipeline.padding = read_padding(*node);
  const Side proposed = pipeline.truncation ? pipeline.truncation->side : Side::right;
  pipeline.truncation_side = settings.truncation_side.value_or(proposed);
  pipeline.uses_token_types = settings.uses_token_types;
  Agreement(root, settings).check(pipeline.post_processor);
  return pipeline;
}

Tokenizer::Pipeline read_pipeline(const ModelFolder& folder) {
  const JsonFile* const file = folder.json("tokenizer.json", "Tokenizer::load");
  if (file != nullptr) {
    require_handled_model(JsonNode(file->content, "", file->path));  // its error says more than that of the class
    return read_pipeline(file->content, file->path, read_tokenizer_settings(folder, false));
  }
  require_vocab_file(folder);
  const std::filesystem::path vocab_file = folder.file("vocab.txt");
  const TokenizerSettings settings = read_tokenizer_settings(folder, true);
  return read_pipeline(document_from_vocab(vocab_file, settings), vocab_file, settings);
}

}  // namespace multihead
