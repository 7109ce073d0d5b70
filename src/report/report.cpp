// Joins template, styles, script and data. The template's marks are {{title}}, {{style}}, {{data}}, {{maps}},
// {{script}}.
#include "multihead/report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "multihead/lens.hpp"
#include "multihead/tensor.hpp"
#include "report/assets.hpp"
#include "report/check_report.hpp"
#include "report/escape.hpp"
#include "report/fill.hpp"
#include "report/pack_map.hpp"

namespace multihead {
namespace {

using nlohmann::json;

constexpr index_t kMostAtSixDigits = 2'000'000;
constexpr index_t kLinksShown = 5;

struct Head {
  index_t layer = 0;
  index_t head = 0;    ///< its place in the layer
  index_t number = 0;  ///< what it is called
};

/// A head as it is packed.
struct PackedHead {
  int digits = 0;
  std::string map;
  lens::HeadSummary summary;
};

std::vector<Head> all_heads(const AttentionReport& report) {
  std::vector<Head> heads;
  for (std::size_t layer = 0; layer < report.layers.size(); ++layer) {
    const std::vector<index_t>* numbers = numbers_of(report, layer);
    for (index_t h = 0; h < report.layers[layer].shape(1); ++h) {
      heads.push_back({static_cast<index_t>(layer), h, numbers ? (*numbers)[static_cast<std::size_t>(h)] : h});
    }
  }
  return heads;
}

lens::HeadMap map_of(const AttentionReport& report, const Head& at) {
  return report.layers[static_cast<std::size_t>(at.layer)][0][at.head];
}

json side_json(const ReportTokens& side) {
  json tokens = json::array(), special = json::array(), word = json::array();
  for (const ReportToken& token : side.tokens) {
    tokens.push_back(token.text);
    special.push_back(token.special ? 1 : 0);
    word.push_back(token.word);
  }
  return {{"tokens", tokens}, {"special", special}, {"word", word}, {"words", side.words}};
}

json summary_json(const lens::HeadSummary& summary) {
  json links = json::array();
  for (const lens::Link& link : summary.links) links.push_back({link.query, link.key, link.prob});
  const auto number = [](const std::optional<double>& x) { return x ? json(*x) : json(nullptr); };
  return {{"entropy", number(summary.entropy)}, {"special", number(summary.special_share)}, {"links", links}};
}

/// What the script needs beside the maps.
json page_data(const AttentionReport& report, const std::vector<Head>& heads, const std::vector<PackedHead>& packed) {
  json data;
  data["title"] = report.title;
  data["text"] = report.text;
  data["model"] = report.model;
  data["notes"] = report.notes;
  data["self"] = report.keys.tokens.empty();
  data["queries"] = side_json(report.queries);
  data["keys"] = side_json(key_tokens(report));
  data["heads"] = json::array();
  for (std::size_t n = 0; n < heads.size(); ++n) {
    if (heads[n].layer == report.first_layer && heads[n].head == report.first_head) data["first"] = n;
    json head = summary_json(packed[n].summary);
    head["layer"] = heads[n].layer;
    head["head"] = heads[n].number;
    head["digits"] = packed[n].digits;
    data["heads"].push_back(head);
  }
  return data;
}

std::string map_element(const Head& at, const std::string& packed) {
  return "<script type=\"text/plain\" id=\"map-" + std::to_string(at.layer) + "-" + std::to_string(at.number) + "\">" +
         packed + "</script>\n";
}

}  // namespace

Tensor<bool, 1> special_flags(const ReportTokens& tokens) {
  Tensor<bool, 1> flags({static_cast<index_t>(tokens.tokens.size())});
  for (index_t i = 0; i < flags.size(); ++i) flags(i) = tokens.tokens[static_cast<std::size_t>(i)].special;
  return flags;
}

int report_digits(const AttentionReport& report) {
  index_t count = 0;
  for (const auto& layer : report.layers) count += layer.size();
  return count > kMostAtSixDigits ? 4 : 6;
}

std::string attention_page(const AttentionReport& report, Executor* threads) {
  check_report(report);
  const int digits = report_digits(report);
  const std::vector<Head> heads = all_heads(report);
  const Tensor<bool, 1> special_queries = special_flags(report.queries);
  const Tensor<bool, 1> special_keys = special_flags(key_tokens(report));

  std::vector<PackedHead> packed(heads.size());
  run_tasks(threads, static_cast<index_t>(heads.size()), [&](index_t n, int) {
    const auto at = static_cast<std::size_t>(n);
    const lens::HeadMap probs = map_of(report, heads[at]);
    packed[at].digits = map_digits(probs, digits);
    packed[at].map = map_element(heads[at], pack_map(probs, packed[at].digits));
    packed[at].summary = lens::summarise_head(probs, special_queries, special_keys, kLinksShown);
  });

  std::string maps;
  for (PackedHead& head : packed) {
    maps += head.map;
    head.map = {};
  }
  return fill(assets::kTemplate, {{"title", escape_html(report.title)},
                                  {"style", assets::kStyle},
                                  {"data", json_for_script(page_data(report, heads, packed))},
                                  {"maps", maps},
                                  {"script", assets::kScript}});
}

std::string live_page(const std::string& title) {
  return fill(assets::kLiveTemplate,
              {{"title", escape_html(title)}, {"style", assets::kStyle}, {"script", assets::kLiveScript}});
}

}  // namespace multihead
