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

std::string text_input(const std::string& text, const std::string& file) {
  if (!file.empty() && !text.empty()) throw UsageError("give the text or --file, not both");
  std::string given = file.empty() ? text : read_file(file);
  if (given.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw UsageError(file.empty() ? "the text must not be empty; give it as TEXT or with --file"
                                  : fmt::format("the text in \"{}\" must not be empty", file));
  }
  return given;
}

ModelInput model_input(const std::string& model, const std::string& text, const std::string& file) {
  ModelInput input{.folder = model, .text = text_input(text, file)};
  if (input.folder.empty()) {
    input.folder = cached_model("minilm").string();
    if (!fs::is_directory(input.folder)) {
      throw Error(
          fmt::format("no model at \"{}\"; scripts/get-model minilm fetches it, or give --model DIR", input.folder));
    }
  }
  if (!fs::exists(input.folder)) {
    throw Error(fmt::format("no model at \"{}\"; give a folder with config.json, model.safetensors and tokenizer.json",
                            input.folder));
  }
  while (input.folder.size() > 1 && input.folder.back() == '/') input.folder.pop_back();
  return input;
}

ModelRun load_model(const ModelInput& input) {
  TextEncoder model = load_text_encoder(input.folder, {.sentence_vectors = false});
  Encoding encoding = model.encode(input.text);
  const auto& added = encoding.special_tokens_mask;
  if (std::all_of(added.begin(), added.end(), [](std::uint8_t flag) { return flag != 0; })) {
    throw UsageError("the text must hold a token of its own, got only what the tokenizer drops");
  }
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
