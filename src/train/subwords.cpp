#include "multihead/train/subwords.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "core/require.hpp"
#include "text/utf8.hpp"

namespace multihead::train {
namespace {

constexpr auto kTrain = "Subwords::train";
constexpr std::string_view kReserved = "\xE2\x96\x85";  // U+2585: SentencePiece skips lines with it
constexpr index_t kMostPieces = 1'000'000;

using Settings = std::unordered_map<std::string, std::string>;

/// The lines that can be trained on, one after the other.
class UsableLines final : public sentencepiece::SentenceIterator {
 public:
  explicit UsableLines(const std::vector<std::string_view>& lines) : lines_(lines) { set(); }

  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_, set(); }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void set() {
    if (!done()) value_ = lines_[at_];
  }

  const std::vector<std::string_view>& lines_;
  std::size_t at_ = 0;
  std::string value_;
};

std::vector<std::string_view> usable_lines(std::span<const TextLines> texts, const SubwordOptions& options,
                                           SubwordCounts& counts) {
  std::vector<std::string_view> result;
  for (const TextLines& text : texts) {
    for (const std::string_view line : text.lines()) {
      ++counts.lines;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
        ++counts.empty;
      } else if (static_cast<index_t>(line.size()) > options.max_line_bytes) {
        ++counts.too_long;
      } else if (line.find(kReserved) != std::string_view::npos) {
        ++counts.reserved;
      } else {
        result.push_back(line);
      }
    }
  }
  counts.used = static_cast<index_t>(result.size());
  return result;
}

/// Every setting that changes the result is set here, since defaults differ between versions.
Settings settings_of(const SubwordOptions& options) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(options.vocab_size)},
          {"character_coverage", "1.0"},
          {"pad_id", std::to_string(kPad)},
          {"unk_id", std::to_string(kUnk)},
          {"bos_id", std::to_string(kBos)},
          {"eos_id", std::to_string(kEos)},
          {"normalization_rule_name", options.normalization},
          {"byte_fallback", options.byte_fallback ? "true" : "false"},
          {"max_sentence_length", std::to_string(options.max_line_bytes)},
          {"input_sentence_size", "0"},
          {"hard_vocab_limit", "false"},
          {"num_threads", "1"},
          {"minloglevel", "2"}};
}

sentencepiece::util::Status learn(const std::vector<std::string_view>& lines, const Settings& settings,
                                  std::string& model) {
  UsableLines iterator(lines);
  return sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model);
}

/// Special pieces, bytes and one piece for each character of the lines: without merges, these are all. Unset where
/// even these cannot be had.
std::optional<index_t> fewest_pieces(const std::vector<std::string_view>& lines, const SubwordOptions& options) {
  SubwordOptions roomy = options;
  roomy.vocab_size = kMostPieces;
  Settings settings = settings_of(roomy);
  settings["model_type"] = "char";
  std::string model;
  if (!learn(lines, settings, model).ok()) return std::nullopt;
  return Subwords::from_bytes(std::move(model)).vocab_size();
}

void check_options(const SubwordOptions& options) {
  require(options.vocab_size > kNumSpecialPieces && options.vocab_size <= kMostPieces, kTrain,
          "vocab_size must be in [5, 1000000]", {{"vocab_size", options.vocab_size}});
  require(options.max_line_bytes > 0 && options.max_line_bytes <= (index_t{1} << 30), kTrain,
          "max_line_bytes must be in [1, 1073741824]", {{"max_line_bytes", options.max_line_bytes}});
  constexpr std::array kNames = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};
  require(std::ranges::find(kNames, options.normalization) != kNames.end(), kTrain,
          "normalization must be nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity",
          {{"normalization", options.normalization}});
}

}  // namespace

struct Subwords::Model {
  sentencepiece::SentencePieceProcessor processor;
  std::string bytes;
};

Subwords::Subwords(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

Subwords Subwords::train(std::span<const TextLines> texts, const SubwordOptions& options, SubwordCounts* counts) {
  check_options(options);
  SubwordCounts found;
  const std::vector<std::string_view> lines = usable_lines(texts, options, found);
  if (counts != nullptr) *counts = found;
  require(found.used > 0, kTrain, "the texts must hold a line that can be used",
          {{"lines", found.lines}, {"empty", found.empty}, {"too_long", found.too_long}, {"reserved", found.reserved}});
  std::string model;
  if (const auto status = learn(lines, settings_of(options), model); !status.ok()) {
    const std::optional<index_t> fewest = fewest_pieces(lines, options);
    require(!fewest || options.vocab_size >= *fewest, kTrain,
            "vocab_size must have room for the special pieces and every character of the lines",
            {{"vocab_size", options.vocab_size}, {"needed", fewest.value_or(0)}});
    require(false, kTrain, "SentencePiece must find pieces in the lines",
            {{"lines", found.used}, {"its_message", std::string(status.message())}});
  }
  Subwords result = from_bytes(std::move(model));
  require(result.vocab_size() == options.vocab_size, kTrain, "vocab_size must be at most what the lines carry",
          {{"vocab_size", options.vocab_size}, {"pieces", result.vocab_size()}, {"lines", found.used}},
          "ask for fewer pieces, or give more text");
  return result;
}

Subwords Subwords::from_bytes(std::string bytes) {
  constexpr auto kFunction = "Subwords::from_bytes";
  const auto model = std::make_shared<Model>();
  const auto status = model->processor.LoadFromSerializedProto(bytes);
  require<CheckpointError>(status.ok() && !bytes.empty(), kFunction, "the bytes must be a SentencePiece model",
                           {{"bytes", bytes.size()}});
  const auto& processor = model->processor;
  require<CheckpointError>(processor.pad_id() == kPad && processor.unk_id() == kUnk && processor.bos_id() == kBos &&
                               processor.eos_id() == kEos,
                           kFunction, "the special pieces must be pad_id=0, unk_id=1, bos_id=2, eos_id=3",
                           {{"pad_id", processor.pad_id()},
                            {"unk_id", processor.unk_id()},
                            {"bos_id", processor.bos_id()},
                            {"eos_id", processor.eos_id()}});
  model->bytes = std::move(bytes);
  return Subwords(model);
}

const std::string& Subwords::bytes() const { return model_->bytes; }
index_t Subwords::vocab_size() const { return model_->processor.GetPieceSize(); }

std::vector<index_t> Subwords::encode(std::string_view text) const {
  constexpr auto kFunction = "Subwords::encode";
  require_utf8(text, kFunction);
  std::vector<int> ids;
  const auto status = model_->processor.Encode(text, &ids);
  require<Error>(status.ok(), kFunction, "SentencePiece must encode the text",
                 {{"its_message", std::string(status.message())}});
  for (const int id : ids) {
    require<Error>(id == kUnk || id >= kNumSpecialPieces, kFunction, "a text must not encode to pad, bos or eos",
                   {{"id", id}});
  }
  return {ids.begin(), ids.end()};
}

std::string Subwords::decode(std::span<const index_t> ids) const {
  constexpr auto kFunction = "Subwords::decode";
  std::vector<int> kept;
  for (const index_t id : ids) {
    require(id >= 0 && id < vocab_size(), kFunction, "ids must be in [0, vocab_size)",
            {{"id", id}, {"vocab_size", vocab_size()}});
    if (id == kUnk || id >= kNumSpecialPieces) kept.push_back(static_cast<int>(id));
  }
  std::string text;
  const auto status = model_->processor.Decode(kept, &text);
  require<Error>(status.ok(), kFunction, "SentencePiece must decode the ids",
                 {{"its_message", std::string(status.message())}});
  return text;
}

std::string Subwords::piece(index_t id) const {
  require(id >= 0 && id < vocab_size(), "Subwords::piece", "ids must be in [0, vocab_size)",
          {{"id", id}, {"vocab_size", vocab_size()}});
  return model_->processor.IdToPiece(static_cast<int>(id));
}

}  // namespace multihead::train
