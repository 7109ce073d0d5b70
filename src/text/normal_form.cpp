#include "text/normal_form.hpp"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <optional>

#include "core/require.hpp"
#include "text/unicode.hpp"

namespace multihead {
namespace {

constexpr int kUnicodeVersion = 9;  // of the reference's tables of normal forms

// A code point of the result, and how many of the source it takes: each source code point is taken once, by the first
// of its parts; a part that takes none shares the alignment of the last one taken.
struct Part {
  char32_t code;
  int combining_class;
  int num_taken;
};
using Parts = std::vector<Part>;

const icu::Normalizer2& icu_instance(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const bool compatibility = form == NormalForm::nfkd || form == NormalForm::nfkc;
  const icu::Normalizer2* instance =
      compatibility ? icu::Normalizer2::getNFKDInstance(status) : icu::Normalizer2::getNFCInstance(status);
  require<Error>(U_SUCCESS(status) != 0, "normalize", "ICU must load its normal forms",
                 {{"error", u_errorName(status)}});
  return *instance;
}

int combining_class(char32_t c) {
  return c >= 0x300 && assigned_by(c, kUnicodeVersion) ? u_getCombiningClass(static_cast<UChar32>(c)) : 0;
}

// The first part of a source character takes it, the others take none.
Parts decompose(const AlignedText& text, const icu::Normalizer2& instance) {
  Parts parts;
  parts.reserve(text.size());
  icu::UnicodeString decomposed;
  for (const AlignedChar& c : text) {
    const bool has_parts = c.code >= 0xA0 && assigned_by(c.code, kUnicodeVersion) &&
                           instance.getDecomposition(static_cast<UChar32>(c.code), decomposed) != 0;
    if (!has_parts) {
      parts.push_back({c.code, combining_class(c.code), 1});
      continue;
    }
    for (int32_t i = 0; i < decomposed.length(); i = decomposed.moveIndex32(i, 1)) {
      const auto code = static_cast<char32_t>(decomposed.char32At(i));
      parts.push_back({code, combining_class(code), i == 0 ? 1 : 0});
    }
  }
  return parts;
}

// Sorts every run of marks by combining class, keeping the order of equals (UAX 15, canonical ordering).
void reorder(Parts& parts) {
  const auto is_mark = [](const Part& p) { return p.combining_class != 0; };
  auto run = parts.begin();
  while ((run = std::find_if(run, parts.end(), is_mark)) != parts.end()) {
    const auto end = std::find_if_not(run, parts.end(), is_mark);
    std::stable_sort(run, end, [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
    run = end;
  }
}

std::optional<char32_t> compose_pair(const icu::Normalizer2& instance, char32_t a, char32_t b) {
  const UChar32 composed = instance.composePair(static_cast<UChar32>(a), static_cast<UChar32>(b));
  if (composed < 0 || !assigned_by(static_cast<char32_t>(composed), kUnicodeVersion)) return std::nullopt;
  return static_cast<char32_t>(composed);
}

// Joins each part with the last starter unless a part between them blocks it (UAX 15, D115 to D117).
Parts compose(const Parts& parts, const icu::Normalizer2& instance) {
  Parts result;
  result.reserve(parts.size());
  std::optional<std::size_t> starter;  // index in result
  for (const Part& part : parts) {
    if (starter) {
      const int last_class = result.size() == *starter + 1 ? -1 : result.back().combining_class;
      const auto composed =
          last_class < part.combining_class ? compose_pair(instance, result[*starter].code, part.code) : std::nullopt;
      if (composed) {
        result[*starter].code = *composed;
        result[*starter].num_taken += part.num_taken;
        continue;
      }
    }
    if (part.combining_class == 0) starter = result.size();
    result.push_back(part);
  }
  return result;
}

AlignedText align(const Parts& parts, const AlignedText& source) {
  AlignedText result;
  result.reserve(parts.size());
  std::size_t num_taken = 0;
  for (const Part& part : parts) {
    AlignedChar c = source[part.num_taken > 0 ? num_taken : num_taken - 1];
    c.code = part.code;
    result.push_back(c);
    num_taken += static_cast<std::size_t>(part.num_taken);
  }
  return result;
}

}  // namespace

void normalize(AlignedText& text, NormalForm form) {
  const icu::Normalizer2& instance = icu_instance(form);
  Parts parts = decompose(text, instance);
  reorder(parts);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) parts = compose(parts, instance);
  text = align(parts, text);
}

}  // namespace multihead
