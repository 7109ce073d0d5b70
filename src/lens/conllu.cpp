#include "multihead/lens/conllu.hpp"

#include <algorithm>
#include <charconv>

#include "core/file_error.hpp"
#include "text/utf8.hpp"

namespace multihead::lens {
namespace {

constexpr auto kFunction = "read_conllu";
constexpr index_t kColumns = 10;

std::vector<std::string_view> split(std::string_view line, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = line.find(at);
    parts.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return parts;
    line.remove_prefix(end + 1);
  }
}

std::optional<index_t> number(std::string_view text) {
  index_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  std::vector<GoldSentence> read(std::string_view content) {
    const index_t invalid = first_invalid_utf8(content);
    check(invalid == static_cast<index_t>(content.size()), "the file must be UTF-8", {{"error_at_byte", invalid}});
    if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
    for (std::string_view line : split(content, '\n')) {
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) {
        end_sentence();
      } else if (line.front() != '#') {
        add_line(split(line, '\t'));
      }
    }
    end_sentence();
    check(!sentences_.empty(), "the file must hold a sentence", {{"lines", line_}});
    return std::move(sentences_);
  }

 private:
  void check(bool condition, const char* rule, std::initializer_list<Got> got) const {
    require_file(condition, name_, kFunction, rule, got);
  }

  void add_line(const std::vector<std::string_view>& columns) {
    check(static_cast<index_t>(columns.size()) == kColumns, "a word must have 10 columns, separated by tabs",
          {{"columns", columns.size()}, {"line", line_}});
    const std::string_view id = columns[0];
    if (id.find('.') != std::string_view::npos) return;  // an empty node
    const std::size_t dash = id.find('-');
    if (dash == std::string_view::npos) return add_word(columns);
    const std::optional<index_t> first = number(id.substr(0, dash)), last = number(id.substr(dash + 1));
    check(first && last && *first == next_id() && *last > *first && in_range_ == 0,
          "a range must begin at the next word and hold several",
          {{"id", quote(id)}, {"next", next_id()}, {"line", line_}});
    add_text(columns);
    range_words_ = in_range_ = *last - *first + 1;
  }

  void add_word(const std::vector<std::string_view>& columns) {
    const std::optional<index_t> id = number(columns[0]), head = number(columns[6]);
    check(id == next_id(), "words must be numbered 1, 2, ..",
          {{"id", quote(columns[0])}, {"next", next_id()}, {"line", line_}});
    check(head && *head != *id, "HEAD must be the number of another word, or 0",
          {{"HEAD", quote(columns[6])}, {"id", quote(columns[0])}, {"line", line_}});
    const std::string_view relation = columns[7].substr(0, columns[7].find(':'));
    check(!relation.empty() && relation != "_", "DEPREL must be given",
          {{"DEPREL", quote(columns[7])}, {"line", line_}});
    if (sentence_.words.empty()) sentence_.line = line_;
    sentence_.words.push_back({.form = std::string(columns[1]),
                               .head = *head == 0 ? std::nullopt : std::optional(*head - 1),
                               .relation = std::string(relation),
                               .span = {}});
    head_lines_.push_back(line_);
    if (in_range_ == 0) {
      sentence_.words.back().span = add_text(columns);
    } else if (--in_range_ == 0) {
      spread_range();
    }
  }

  TextSpan add_text(const std::vector<std::string_view>& columns) {
    if (space_ && !sentence_.text.empty()) sentence_.text += ' ';
    const auto begin = static_cast<index_t>(sentence_.text.size());
    sentence_.text += columns[1];
    const std::vector<std::string_view> misc = split(columns[9], '|');
    space_ = std::ranges::find(misc, "SpaceAfter=No") == misc.end();
    last_ = {begin, static_cast<index_t>(sentence_.text.size())};
    return last_;
  }

  /// "don't" is "do" and "n't", but "du" is neither "de" nor "le".
  void spread_range() {
    const auto words = std::span(sentence_.words).last(static_cast<std::size_t>(range_words_));
    std::string joined;
    for (const GoldWord& word : words) joined += word.form;
    if (std::string_view(sentence_.text).substr(static_cast<std::size_t>(last_.begin)) != joined) return;
    index_t begin = last_.begin;
    for (GoldWord& word : words) {
      const index_t end = begin + static_cast<index_t>(word.form.size());
      word.span = TextSpan{begin, end};
      begin = end;
    }
  }

  void end_sentence() {
    check(in_range_ == 0, "a range must be followed by its words", {{"missing", in_range_}, {"line", line_}});
    const auto count = static_cast<index_t>(sentence_.words.size());
    for (std::size_t n = 0; n < sentence_.words.size(); ++n) {
      const std::optional<index_t> head = sentence_.words[n].head;
      check(!head || *head < count, "HEAD must be the number of a word of the sentence",
            {{"HEAD", head.value_or(0) + 1}, {"words", count}, {"line", head_lines_[n]}});
    }
    if (count > 0) sentences_.push_back(std::move(sentence_));
    sentence_ = {}, head_lines_.clear(), space_ = true;
  }

  index_t next_id() const { return static_cast<index_t>(sentence_.words.size()) + 1; }

  std::string_view name_;
  index_t line_ = 0, in_range_ = 0, range_words_ = 0;
  bool space_ = true;
  TextSpan last_;
  GoldSentence sentence_;
  std::vector<index_t> head_lines_;
  std::vector<GoldSentence> sentences_;
};

}  // namespace

std::vector<GoldSentence> read_conllu(std::string_view content, std::string_view name) {
  return Reader(name).read(content);
}

Segment gold_segment(const Tokenizer& tokenizer, const GoldSentence& sentence, index_t max_tokens) {
  const Encoding encoding = tokenizer.encode(sentence.text, {.max_length = max_tokens});
  Segment segment{
      .ids = encoding.ids, .tokens = encoding.tokens, .word_ids = {}, .special = encoding.special_tokens_mask};
  std::size_t word = 0;  // tokens and words follow each other in the text
  for (std::size_t t = 0; t < encoding.ids.size(); ++t) {
    segment.word_ids.emplace_back();
    if (encoding.special_tokens_mask[t] != 0) continue;
    const index_t begin = encoding.offsets[t].begin;
    const auto is_before = [&](const GoldWord& each) { return !each.span || each.span->end <= begin; };
    while (word < sentence.words.size() && is_before(sentence.words[word])) ++word;
    if (word < sentence.words.size() && sentence.words[word].span->begin <= begin) {
      segment.word_ids.back() = static_cast<index_t>(word);
    }
  }
  return segment;
}

}  // namespace multihead::lens
