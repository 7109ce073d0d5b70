// Texts without meaning and heads whose role is known: what role scores are calibrated on.
#pragma once

#include <cmath>
#include <functional>

#include "multihead/lens/role_labels.hpp"
#include "multihead/tensor.hpp"
#include "support/random.hpp"

namespace multihead::lens {

/// Gamma(shape, 1) (Marsaglia & Tsang 2000), for shape < 1 by Gamma(shape + 1) u^(1 / shape).
inline double gamma(test::Random& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * std::pow(random.uniform(0x1p-53, 1), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x =
        std::sqrt(-2 * std::log(random.uniform(0x1p-53, 1))) * std::cos(6.283185307179586 * random.uniform(0, 1));
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(random.uniform(0x1p-53, 1)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

/// Ids are ranks: id n is the n-th most frequent of kTypes, the first eight are punctuation; then [CLS] and [SEP].
class SyntheticText {
 public:
  static constexpr index_t kTypes = 2000, kCls = kTypes, kSep = kTypes + 1, kPunctuation = 8;

  SyntheticText(index_t num_segments, index_t num_repeated, index_t tokens, bool causal, test::Random& random) {
    std::vector<index_t> counts;
    for (index_t n = 0; n < kTypes; ++n) counts.push_back(10'000'000 / (n + 1));
    counts.insert(counts.end(), 2, index_t{0});
    frequencies = rank_tokens(counts);
    const index_t inner = causal ? tokens - 1 : tokens - 2;
    for (index_t s = 0; s < num_segments; ++s) {
      std::vector<index_t> ids;
      for (index_t t = 0; t < inner; ++t) ids.push_back(zipf(random));
      text.push_back(segment(ids, causal));
    }
    for (index_t s = 0; s < num_repeated; ++s) {
      std::vector<index_t> ids;
      while (static_cast<index_t>(ids.size()) < inner / 2) {
        const index_t id = random.integer(500, 1499);
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      }
      const std::vector<index_t> once = ids;
      ids.insert(ids.end(), once.begin(), once.end());
      repeated.push_back(segment(ids, causal));
    }
  }

  static Segment segment(const std::vector<index_t>& ids, bool causal) {
    Segment result;
    const auto add = [&](index_t id, bool special) {
      result.ids.push_back(id);
      result.tokens.push_back(id == kCls ? "[CLS]" : id == kSep ? "[SEP]" : id < kPunctuation ? "," : "word");
      result.word_ids.emplace_back();
      result.special.push_back(special ? 1 : 0);
    };
    add(kCls, true);
    for (const index_t id : ids) add(id, false);
    if (!causal) add(kSep, true);
    return result;
  }

  std::vector<Segment> text, repeated;
  TokenFrequencies frequencies;

 private:
  static index_t zipf(test::Random& random) {  // P(n) ~ 1 / (n + 1), by inversion of the integral
    return static_cast<index_t>(std::pow(static_cast<double>(kTypes + 1), random.uniform(0, 1))) - 1;
  }
};

/// Row i of a map: weights of keys 0 .. T - 1, any scale; all 0 = the head has nothing to look at.
using RowRule = std::function<std::vector<double>(const Segment& segment, index_t i, index_t begin, index_t end)>;

/// (1 - noise) rule + noise Dirichlet(0.3), idle queries on token 0.
inline Tensor<float, 2> map_of_rule(const Segment& segment, bool causal, const RowRule& rule, double noise,
                                    test::Random& random) {
  const index_t tokens = segment.num_tokens();
  Tensor<float, 2> map({tokens, tokens});
  for (index_t i = 0; i < tokens; ++i) {
    const index_t end = causal ? i + 1 : tokens;
    std::vector<double> row = rule(segment, i, 0, end), more(static_cast<std::size_t>(end));
    double total = 0, noise_total = 0;
    for (index_t j = 0; j < end; ++j) total += row[static_cast<std::size_t>(j)];
    if (total == 0) row[0] = total = 1;
    for (double& each : more) noise_total += noise > 0 ? each = gamma(random, 0.3) : 1;
    for (index_t j = 0; j < end; ++j) {
      const auto at = static_cast<std::size_t>(j);
      map(i, j) = static_cast<float>((1 - noise) * row[at] / total + noise * more[at] / noise_total);
    }
  }
  return map;
}

/// The roles of a head that makes `map` of each segment.
inline HeadRoles roles_of(const SyntheticText& text, bool causal,
                          const std::function<Tensor<float, 2>(const Segment&)>& map) {
  RoleSums on_text, on_repeated;
  const Visibility visibility{.causal = causal};
  for (const Segment& segment : text.text) {
    const Tensor<float, 2> probs = map(segment);
    on_text.add(RoleTargets(segment, text.frequencies, visibility), {.probs = probs});
  }
  for (const Segment& segment : text.repeated) {
    const Tensor<float, 2> probs = map(segment);
    on_repeated.add(RoleTargets(segment, text.frequencies, visibility), {.probs = probs});
  }
  return judge_roles({.text = &on_text, .repeated = &on_repeated});
}

}  // namespace multihead::lens
