#include "text/normalizer.hpp"

#include <algorithm>

#include "text/normal_form.hpp"
#include "text/unicode.hpp"

namespace multihead {
namespace {

template <class Predicate>
void remove_chars(AlignedText& text, Predicate is_removed) {
  std::erase_if(text, [&](const AlignedChar& c) { return is_removed(c.code); });
}

void lower(AlignedText& text) {
  AlignedText result;
  result.reserve(text.size());
  for (AlignedChar c : text) {
    const LowerCase lower = lower_case(c.code);
    c.code = lower.first;
    result.push_back(c);
    if (lower.second == 0) continue;
    c.code = lower.second;
    result.push_back(c);
  }
  text = std::move(result);
}

void clean(AlignedText& text) {
  remove_chars(text, [](char32_t c) { return c == 0 || c == 0xFFFD || is_control(c); });
  for (AlignedChar& c : text) {
    if (is_whitespace(c.code)) c.code = ' ';
  }
}

// A space on each side, so that every ideograph becomes a word.
void isolate_ideographs(AlignedText& text) {
  AlignedText result;
  result.reserve(text.size());
  for (const AlignedChar& c : text) {
    AlignedChar space = c;
    space.code = ' ';
    const bool ideograph = is_cjk_ideograph(c.code);
    if (ideograph) result.push_back(space);
    result.push_back(c);
    if (ideograph) result.push_back(space);
  }
  text = std::move(result);
}

// Devlin et al. 2018, BasicTokenizer, in the order of the reference.
class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const JsonNode& node)
      : clean_text_(node.at("clean_text").boolean()),
        isolate_ideographs_(node.at("handle_chinese_chars").boolean()),
        lowercase_(node.at("lowercase").boolean()) {
    const auto strip = node.find("strip_accents");
    strip_accents_ = strip ? strip->boolean() : lowercase_;
  }

  void apply(AlignedText& text) const override {
    if (clean_text_) clean(text);
    if (isolate_ideographs_) isolate_ideographs(text);
    if (strip_accents_) {
      normalize(text, NormalForm::nfd);
      remove_chars(text, is_nonspacing_mark);
    }
    if (lowercase_) lower(text);
  }

 private:
  bool clean_text_;
  bool isolate_ideographs_;
  bool lowercase_;
  bool strip_accents_;
};

class NormalFormNormalizer final : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}
  void apply(AlignedText& text) const override { normalize(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(AlignedText& text) const override { lower(text); }
};

class StripAccents final : public Normalizer {
 public:
  void apply(AlignedText& text) const override { remove_chars(text, is_combining_mark); }
};

class Strip final : public Normalizer {
 public:
  explicit Strip(const JsonNode& node)
      : left_(node.at("strip_left").boolean()), right_(node.at("strip_right").boolean()) {}

  void apply(AlignedText& text) const override {
    const auto is_kept = [](const AlignedChar& c) { return !is_whitespace(c.code); };
    if (right_) text.erase(std::find_if(text.rbegin(), text.rend(), is_kept).base(), text.end());
    if (left_) text.erase(text.begin(), std::find_if(text.begin(), text.end(), is_kept));
  }

 private:
  bool left_;
  bool right_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const JsonNode& node) {
    for (const JsonNode& element : node.at("normalizers").elements()) steps_.push_back(make_normalizer(element));
  }

  void apply(AlignedText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(node);
  if (type == "NFD") return std::make_unique<NormalFormNormalizer>(NormalForm::nfd);
  if (type == "NFKD") return std::make_unique<NormalFormNormalizer>(NormalForm::nfkd);
  if (type == "NFC") return std::make_unique<NormalFormNormalizer>(NormalForm::nfc);
  if (type == "NFKC") return std::make_unique<NormalFormNormalizer>(NormalForm::nfkc);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") return std::make_unique<Strip>(node);
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(node);
  node.unsupported(type, "BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Sequence, Strip, StripAccents");
}

}  // namespace multihead
