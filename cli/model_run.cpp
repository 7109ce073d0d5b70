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

std::string ModelRun::name() const { return fs::path(folder).lexically_normal().filename().string(); }

index_t ModelRun::designed_head(index_t layer, index_t head) const {
  const auto& heads = encoder.layers()[static_cast<std::size_t>(layer)].attention.heads().original_heads;
  return heads[static_cast<std::size_t>(head)];
}

std::string ModelRun::cut_note() const {
  if (!encoding.truncated()) return {};
  return fmt::format("The text has {} tokens; the model reads {}, so the {} {} are left out.",
                     encoding.num_tokens_uncut, num_tokens(), cut_side == Side::left ? "first" : "last",
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

Encoding encode(const TextEncoder& model, const ModelInput& input) {
  const index_t room = model.cut.max_length.value_or(model.encoder.config().max_text_tokens);
  const index_t added = num_added(model.tokenizer.encode(""));
  if (room <= added) {
    throw Error(
        fmt::format("the model must read a token of the text, got room for {} tokens, {} added by the "
                    "tokenizer (\"{}\")",
                    room, added, input.folder));
  }
  Encoding encoding = model.encode(input.text);
  if (num_added(encoding) == encoding.num_tokens()) {
    throw UsageError("the text must hold a token of its own, got only what the tokenizer drops");
  }
  return encoding;
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

ModelRun load_model(const ModelInput& input) {
  TextEncoder model = load_text_encoder(input.folder, {.sentence_vectors = false});
  Encoding encoding = encode(model, input);
  check_has_heads(model.encoder, input.folder);
  return {.folder = input.folder,
          .text = input.text,
          .encoding = std::move(encoding),
          .encoder = std::move(model.encoder),
          .cut_side = model.cut.truncation_side,
          .output = {}};
}

void run_model(ModelRun& run, const Capture& capture, Executor* threads) {
  const TensorView<const index_t, 2> ids(run.encoding.ids.data(), {1, run.num_tokens()});
  const TensorView<const index_t, 2> types(run.encoding.type_ids.data(), {1, run.num_tokens()});
  EncoderInput input{.token_ids = ids};
  if (run.encoder.config().num_token_types > 0) input.token_types = types;
  run.output = run.encoder.forward(input, {.capture = capture, .threads = threads});
  const Tensor<float, 3>& last = run.output.last_hidden;
  if (!std::all_of(last.data(), last.data() + last.size(), [](float x) { return std::isfinite(x); })) {
    throw Error(fmt::format("the model at \"{}\" gives numbers that are not finite for this text", run.folder));
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
