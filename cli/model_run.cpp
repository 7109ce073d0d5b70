#include "model_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "command.hpp"
#include "files.hpp"
#include "multihead/error.hpp"

namespace multihead::cli {

namespace fs = std::filesystem;

std::string Model::name() const { return fs::path(folder).lexically_normal().filename().string(); }

index_t ModelRun::original_head(index_t layer, index_t head) const {
  const auto& heads = encoder().layers()[static_cast<std::size_t>(layer)].attention.heads().original_heads;
  return heads[static_cast<std::size_t>(head)];
}

std::string ModelRun::cut_note() const {
  if (!encoding.truncated()) return {};
  return fmt::format("The text has {} tokens; the model reads {}, so the {} {} are left out.",
                     encoding.num_tokens_uncut, num_tokens(),
                     model->text_encoder.cut.truncation_side == Side::left ? "first" : "last",
                     encoding.num_tokens_uncut - num_tokens());
}

std::string model_folder(const std::string& model) {
  std::string folder = model;
  if (folder.empty()) {
    folder = cached_model("minilm").string();
    if (!fs::is_directory(folder)) {
      throw Error(fmt::format("no model at \"{}\"; scripts/get-model minilm fetches it, or give --model DIR", folder));
    }
  }
  if (!fs::exists(folder)) {
    throw Error(fmt::format("no model at \"{}\"; give a folder with config.json, model.safetensors and tokenizer.json",
                            folder));
  }
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

namespace {

/// The tokens that the tokenizer adds to any text.
index_t num_added(const Encoding& encoding) {
  return std::count_if(encoding.special_tokens_mask.begin(), encoding.special_tokens_mask.end(),
                       [](std::uint8_t flag) { return flag != 0; });
}

void check_room(const TextEncoder& model, const std::string& folder) {
  const index_t room = model.cut.max_length.value_or(model.encoder.config().max_text_tokens);
  const index_t added = num_added(model.tokenizer.encode(""));
  if (room <= added) {
    throw Error(
        fmt::format("the model must read a token of the text, got room for {} tokens, {} added by the "
                    "tokenizer (\"{}\")",
                    room, added, folder));
  }
}

}  // namespace

void check_has_heads(const Encoder& encoder, const std::string& folder) {
  index_t num_heads = 0;
  for (const EncoderLayer& layer : encoder.layers()) num_heads += layer.attention.num_heads();
  if (num_heads == 0) {
    throw Error(fmt::format("the model must have a head, got {} in its {} layers (\"{}\")", num_heads,
                            encoder.layers().size(), folder));
  }
}

std::shared_ptr<const Model> load_model(const std::string& folder, std::optional<index_t> most_tokens) {
  auto model = std::make_shared<Model>(Model{folder, load_text_encoder(folder, {.sentence_vectors = false})});
  EncodeOptions& cut = model->text_encoder.cut;
  const index_t room = cut.max_length.value_or(model->encoder().config().max_text_tokens);
  cut.max_length = std::min(most_tokens.value_or(room), room);
  check_room(model->text_encoder, folder);
  check_has_heads(model->encoder(), folder);
  return model;
}

ModelRun read_text(std::shared_ptr<const Model> model, const std::string& text) {
  Encoding encoding = model->text_encoder.encode(text);
  if (num_added(encoding) == encoding.num_tokens()) {
    throw UsageError("the text must hold a token of its own, got only what the tokenizer drops");
  }
  return {.model = std::move(model), .text = text, .encoding = std::move(encoding)};
}

void run_model(ModelRun& run, const Capture& capture, Executor* threads) {
  const TensorView<const index_t, 2> ids(run.encoding.ids.data(), {1, run.num_tokens()});
  const TensorView<const index_t, 2> types(run.encoding.type_ids.data(), {1, run.num_tokens()});
  EncoderInput input{.token_ids = ids};
  if (run.encoder().config().num_token_types > 0) input.token_types = types;
  run.output = run.encoder().forward(input, {.capture = capture, .threads = threads});
  const Tensor<float, 3>& last = run.output.last_hidden;
  if (!std::all_of(last.data(), last.data() + last.size(), [](float x) { return std::isfinite(x); })) {
    throw Error(fmt::format("the model at \"{}\" gives numbers that are not finite for this text", run.folder()));
  }
}

ReportTokens report_tokens(const ModelRun& run) {
  const Encoding& encoding = run.encoding;
  ReportTokens side;
  std::map<index_t, index_t> word_of;  // the tokenizer's number -> ours
  std::vector<TextSpan> spans;
  for (std::size_t t = 0; t < encoding.tokens.size(); ++t) {
    ReportToken token{.text = encoding.tokens[t], .special = encoding.special_tokens_mask[t] != 0};
    if (encoding.word_ids[t]) {
      const auto [found, is_new] = word_of.try_emplace(*encoding.word_ids[t], static_cast<index_t>(spans.size()));
      if (is_new) spans.push_back(encoding.offsets[t]);
      TextSpan& span = spans[static_cast<std::size_t>(found->second)];
      span = {std::min(span.begin, encoding.offsets[t].begin), std::max(span.end, encoding.offsets[t].end)};
      token.word = found->second;
    }
    side.tokens.push_back(std::move(token));
  }
  for (const TextSpan& span : spans) {
    side.words.push_back(
        run.text.substr(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)));
  }
  return side;
}

}  // namespace multihead::cli
