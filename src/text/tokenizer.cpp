#include "multihead/tokenizer.hpp"

#include <algorithm>

#include "core/require.hpp"
#include "io/json.hpp"
#include "text/pipeline.hpp"
#include "text/utf8.hpp"

namespace multihead {
namespace {

// A token of a text before anything is added around it.
struct TextToken {
  index_t id = 0;
  std::string token;
  TextSpan offsets;
  index_t word_id = 0;
};
using TextTokens = std::vector<TextToken>;

class TextTokenizer {
 public:
  explicit TextTokenizer(const Tokenizer::Pipeline& pipeline) : pipeline_(pipeline) {}

  TextTokens run(std::string_view text) {
    const AlignedText original = aligned(text, "Tokenizer::encode");
    for (const Stretch& stretch : pipeline_.added.find(original, /*normalized=*/false)) {
      if (stretch.token) {
        add_token(*stretch.token, stretch.chars);
      } else {
        add_between(AlignedText(stretch.chars.begin(), stretch.chars.end()));
      }
    }
    return std::move(tokens_);
  }

 private:
  void add_token(const AddedToken& token, AlignedSlice chars) {
    tokens_.push_back({token.id, to_utf8(chars), original_span(chars), num_words_++});
  }

  void add_between(AlignedText text) {
    if (pipeline_.normalizer) pipeline_.normalizer->apply(text);
    for (const Stretch& stretch : pipeline_.added.find(text, /*normalized=*/true)) {
      if (stretch.token) {
        add_token(*stretch.token, stretch.chars);
      } else if (pipeline_.pre_tokenizer) {
        for (const AlignedSlice word : pipeline_.pre_tokenizer->split(stretch.chars)) add_word(word);
      } else {
        add_word(stretch.chars);
      }
    }
  }

  void add_word(AlignedSlice word) {
    parts_.clear();
    pipeline_.model->split(word, parts_);
    for (const WordPart& part : parts_) {
      tokens_.push_back(
          {part.id, *pipeline_.model->vocabulary().token_of(part.id), original_span(part.chars), num_words_});
    }
    ++num_words_;
  }

  const Tokenizer::Pipeline& pipeline_;
  TextTokens tokens_;
  index_t num_words_ = 0;
  std::vector<WordPart> parts_;  // scratch
};

void keep(TextTokens& tokens, index_t num_kept, Side cut) {
  const auto num_tokens = static_cast<index_t>(tokens.size());
  if (num_kept >= num_tokens) return;
  if (cut == Side::left) tokens.erase(tokens.begin(), tokens.end() - num_kept);
  if (cut == Side::right) tokens.resize(num_kept);
}

// Cuts the longer text first; texts that are both longer than half the room share it, the pair taking the odd token.
void cut_to(std::span<TextTokens> texts, index_t room, Side side) {
  if (texts.size() == 1) return keep(texts[0], room, side);
  const auto num_a = static_cast<index_t>(texts[0].size());
  const auto num_b = static_cast<index_t>(texts[1].size());
  if (num_a + num_b <= room) return;
  index_t shorter = std::min(num_a, num_b);
  index_t longer = room - shorter;
  if (longer < shorter) {
    shorter = room / 2;
    longer = room - shorter;
  }
  keep(texts[0], num_a > num_b ? longer : shorter, side);
  keep(texts[1], num_a > num_b ? shorter : longer, side);
}

void append_text(Encoding& encoding, const TemplateStep& step, TextTokens& tokens) {
  for (TextToken& t : tokens) {
    encoding.ids.push_back(t.id);
    encoding.tokens.push_back(std::move(t.token));
    encoding.offsets.push_back(t.offsets);
    encoding.word_ids.emplace_back(t.word_id);
    encoding.sequence_ids.push_back(step.sequence);
    encoding.special_tokens_mask.push_back(0);
    encoding.type_ids.push_back(step.type_id);
  }
}

void append_special(Encoding& encoding, const TemplateStep& step) {
  for (const SpecialToken& t : step.tokens) {
    encoding.ids.push_back(t.id);
    encoding.tokens.push_back(t.token);
    encoding.offsets.push_back({});
    encoding.word_ids.emplace_back();
    encoding.sequence_ids.emplace_back();
    encoding.special_tokens_mask.push_back(1);
    encoding.type_ids.push_back(step.type_id);
  }
}

Encoding assemble(const Template& steps, std::span<TextTokens> texts, const EncodeOptions& options) {
  const index_t num_added = options.add_special_tokens ? num_added_tokens(steps) : 0;
  Encoding encoding;
  encoding.num_tokens_uncut = num_added;
  for (const TextTokens& tokens : texts) encoding.num_tokens_uncut += static_cast<index_t>(tokens.size());
  if (options.max_length) {
    require(*options.max_length >= num_added, "Tokenizer::encode", "max_length must hold the tokens that are added",
            {{"max_length", *options.max_length}, {"added", num_added}});
    cut_to(texts, *options.max_length - num_added, options.truncation_side);
  }
  for (const TemplateStep& step : steps) {
    if (step.sequence) {
      append_text(encoding, step, texts[*step.sequence]);
    } else if (options.add_special_tokens) {
      append_special(encoding, step);
    }
  }
  return encoding;
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}

Tokenizer load_tokenizer(const ModelFolder& folder) {
  return Tokenizer(std::make_shared<const Tokenizer::Pipeline>(read_pipeline(folder)));
}

Tokenizer Tokenizer::load(const std::filesystem::path& file_or_folder) {
  constexpr std::string_view kFunction = "Tokenizer::load";
  std::error_code unreadable;
  const bool is_file = std::filesystem::is_regular_file(file_or_folder, unreadable);
  if (!is_file || file_or_folder.extension() != ".json") return load_tokenizer(ModelFolder(file_or_folder, kFunction));
  return Tokenizer(
      std::make_shared<const Pipeline>(read_pipeline(read_json(file_or_folder, kFunction), file_or_folder, {})));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  TextTokens texts[] = {TextTokenizer(*pipeline_).run(text)};
  return assemble(pipeline_->post_processor.single, texts, options);
}

Encoding Tokenizer::encode_pair(std::string_view text, std::string_view pair, const EncodeOptions& options) const {
  TextTokens texts[] = {TextTokenizer(*pipeline_).run(text), TextTokenizer(*pipeline_).run(pair)};
  return assemble(pipeline_->post_processor.pair, texts, options);
}

std::string Tokenizer::decode(std::span<const index_t> ids, const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const AddedToken* added = pipeline_->added.by_id(ids[i]);
    if (added && added->special && options.skip_special_tokens) continue;
    auto token = id_to_token(ids[i]);
    require(token.has_value(), "Tokenizer::decode", "id must be in the vocabulary",
            {{"id", ids[i]}, {"position", i}, {"vocab_size", vocab_size()}});
    tokens.push_back(*std::move(token));
  }
  return pipeline_->decoder->decode(tokens);
}

std::optional<index_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto added = pipeline_->added.vocabulary().id_of(token);
  return added ? added : pipeline_->model->vocabulary().id_of(token);
}

std::optional<std::string> Tokenizer::id_to_token(index_t id) const {
  if (const AddedToken* added = pipeline_->added.by_id(id)) return added->normalized_content;
  const std::string* token = pipeline_->model->vocabulary().token_of(id);
  return token ? std::optional(*token) : std::nullopt;
}

index_t Tokenizer::vocab_size() const {
  return std::max(pipeline_->model->vocabulary().largest_id(), pipeline_->added.vocabulary().largest_id()) + 1;
}

const std::optional<TruncationProposal>& Tokenizer::truncation() const { return pipeline_->truncation; }

const std::optional<PaddingProposal>& Tokenizer::padding() const { return pipeline_->padding; }

Side Tokenizer::truncation_side() const { return pipeline_->truncation_side; }

bool Tokenizer::uses_token_types() const { return pipeline_->uses_token_types; }

std::vector<TextSpan> code_point_offsets(std::string_view text, std::span<const TextSpan> offsets) {
  constexpr std::string_view kFunction = "code_point_offsets";
  require_utf8(text, kFunction);
  const auto num_bytes = static_cast<index_t>(text.size());
  std::vector<index_t> index_of(num_bytes + 1, -1);  // of the code point that begins at each byte
  index_t num_code_points = 0;
  for (index_t position = 0; position < num_bytes; position += read_utf8(text, position).num_bytes) {
    index_of[position] = num_code_points++;
  }
  index_of[num_bytes] = num_code_points;

  const auto convert = [&](index_t position) {
    require(position >= 0 && position <= num_bytes && index_of[position] >= 0, kFunction,
            "offset must be where a code point begins or the text ends",
            {{"offset", position}, {"text_bytes", num_bytes}});
    return index_of[position];
  };
  std::vector<TextSpan> converted;
  converted.reserve(offsets.size());
  for (const TextSpan& span : offsets) converted.push_back({convert(span.begin), convert(span.end)});
  return converted;
}

}  // namespace multihead
