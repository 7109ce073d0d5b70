// How much the model needs each head, as JSON and in the characters of a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "heads_json.hpp"
#include "multihead/lens/rank_correlation.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr double kTopShare = 0.2;

/// All heads are replaced one by one on as many segments as take about this many operations, within these limits.
constexpr double kAblationFlops = 2.5e12;
constexpr double kFewestSegments = 4, kMostSegments = 16;

const std::vector<lens::AblationLoss>& ablation(const HeadsResult& result, lens::Ablation mode) {
  return result.importance->ablation[static_cast<std::size_t>(mode)];
}

std::vector<double> values(const std::vector<lens::AblationLoss>& losses) {
  std::vector<double> found;
  for (const lens::AblationLoss& loss : losses) found.push_back(loss.value);
  return found;
}

/// One score of all heads; those of the roles are 0 where they could not be judged.
struct Score {
  std::string_view name;
  std::vector<double> values;
};

std::vector<Score> cheap_scores(const HeadsResult& result) {
  const lens::Importance& found = *result.importance;
  std::vector<double> fisher, norm, confidence;
  for (const lens::EncoderHead& head : result.heads) {
    const auto n = static_cast<index_t>(fisher.size());
    fisher.push_back(found.fisher(n, n));
    norm.push_back(head.roles.output_norm.value_or(0));
    confidence.push_back(head.roles.spread ? head.roles.spread->confidence : 0);
  }
  return {{"sensitivity", found.sensitivity},
          {"sensitivity_normalised", found.sensitivity_normalised},
          {"fisher", fisher},
          {"output_norm", norm},
          {"confidence", confidence},
          {"variance", found.variance}};
}

/// What heads are ranked by: the loss without their output or, where that was left out, the sensitivity.
std::vector<double> ranking(const HeadsResult& result) {
  const auto& losses = ablation(result, lens::Ablation::zero);
  return losses.empty() ? result.importance->sensitivity : values(losses);
}

struct Agreement {
  std::string name;
  std::optional<double> spearman, overlap;
};

std::vector<Agreement> agreements(const HeadsResult& result) {
  std::vector<Agreement> found;
  if (ablation(result, lens::Ablation::zero).empty()) return found;
  const std::vector<double> reference = ranking(result);
  const auto add = [&](std::string_view name, const std::vector<double>& score) {
    found.push_back(
        {std::string(name), lens::rank_correlation(score, reference), lens::top_overlap(score, reference, kTopShare)});
  };
  for (const Score& score : cheap_scores(result)) add(score.name, score.values);
  for (const auto mode : {lens::Ablation::mean, lens::Ablation::uniform, lens::Ablation::pattern}) {
    if (!ablation(result, mode).empty()) add(lens::ablation_name(mode), values(ablation(result, mode)));
  }
  return found;
}

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

/// Operations of replacing all heads on one segment.
double flops(const Encoder& encoder, index_t tokens) {
  double total = 0, after = 0;
  const auto& layers = encoder.layers();
  for (std::size_t n = layers.size(); n-- > 0;) {
    const auto& attention = layers[n].attention;
    const double width = static_cast<double>(attention.num_heads() * attention.extents().head_dim_v);
    const auto features = static_cast<double>(encoder.config().d_model);
    after += 2 * features * (4 * width + 2 * static_cast<double>(layers[n].feed_forward.hidden_features()));
    total += static_cast<double>(attention.num_heads()) * after * static_cast<double>(tokens);
  }
  return total;
}

/// Spread evenly over the text.
std::vector<lens::Segment> chosen_segments(const HeadsResult& result, const Encoder& encoder) {
  const std::vector<lens::Segment>& all = result.corpus.segments;
  const double affordable = kAblationFlops / std::max(1.0, flops(encoder, all.front().num_tokens()));
  const auto count =
      std::min(all.size(), static_cast<std::size_t>(std::clamp(affordable, kFewestSegments, kMostSegments)));
  std::vector<lens::Segment> chosen;
  for (std::size_t n = 0; n < count; ++n) chosen.push_back(all[n * all.size() / count]);
  return chosen;
}

/// "0.3 (0.0123), 1.7 (0.0101), ..": the first of an order
std::string heads_text(const HeadsResult& result, const std::vector<double>& score,
                       std::span<const std::size_t> order) {
  std::string text;
  for (const std::size_t n : order) {
    const lens::EncoderHead& head = result.heads[n];
    text += fmt::format("{}{}.{} ({:.3g})", text.empty() ? "" : ", ", head.layer, head.number, score[n]);
  }
  return text;
}

}  // namespace

lens::Importance judge_importance(const HeadsResult& result, const Encoder& encoder, const AblationChoice& choice,
                                  Progress& progress, Executor* threads) {
  const auto begin = std::chrono::steady_clock::now();
  lens::ImportanceOptions options{.pooling = choice.pooling, .ablations = {}, .seed = choice.seed, .threads = threads};
  if (choice.zero) options.ablations = {lens::Ablation::zero};
  if (choice.all) {
    options.ablations = {lens::Ablation::zero, lens::Ablation::mean, lens::Ablation::uniform, lens::Ablation::pattern};
  }
  options.progress = [&](double share) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    progress.say(
        fmt::format("removing each head in turn: {:.0f} %, {:.0f} s left", 100 * share, seconds / share * (1 - share)));
  };
  return lens::head_importance(encoder, chosen_segments(result, encoder), options);
}

json head_importance_json(const HeadsResult& result, const lens::EncoderHead& head) {
  if (!result.importance) return json::object();
  const auto index = static_cast<std::size_t>(&head - result.heads.data());
  json losses = json::object();
  for (int n = 0; n < lens::kNumAblations; ++n) {
    const auto mode = static_cast<lens::Ablation>(n);
    json& place = losses[std::string(lens::ablation_name(mode))];
    if (ablation(result, mode).empty()) continue;
    const lens::AblationLoss& loss = ablation(result, mode)[index];
    place = {{"value", loss.value}, {"interval", nullptr}};
    if (loss.interval) place["interval"] = {loss.interval->low, loss.interval->high};
  }
  json scores = {{"ablation", losses}};
  for (const Score& score : cheap_scores(result)) scores[std::string(score.name)] = score.values[index];
  return {{"importance", ranking(result)[index]}, {"importances", scores}};
}

json agreement_json(const HeadsResult& result) {
  if (!result.importance || ablation(result, lens::Ablation::zero).empty()) return nullptr;
  json found = json::object();
  for (const Agreement& each : agreements(result)) {
    found[each.name] = {{"spearman", or_null(each.spearman)}, {"top20_overlap", or_null(each.overlap)}};
  }
  return found;
}

std::string importance_text(const HeadsResult& result, const Style& style, int width) {
  const int columns = std::min(width, 110);
  const std::vector<double> score = ranking(result);
  const bool ablated = !ablation(result, lens::Ablation::zero).empty();
  std::vector<std::size_t> order(score.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t i, std::size_t j) { return score[i] > score[j]; });
  const std::size_t shown = std::min<std::size_t>(10, order.size());
  std::string text =
      paragraph("Most important heads: " + heads_text(result, score, std::span(order).first(shown)), columns);
  std::ranges::reverse(order);
  text += paragraph("Least important heads: " + heads_text(result, score, std::span(order).first(shown)), columns);
  std::string line;
  for (const Agreement& each : agreements(result)) {
    if (!each.spearman || !each.overlap) continue;
    line += fmt::format("{}{} {:.2f} ({:.0f} %)", line.empty() ? "Agreement with removal: " : ", ", each.name,
                        *each.spearman, 100 * *each.overlap);
  }
  if (!line.empty()) text += paragraph(line, columns);
  const std::string note =
      ablated ? fmt::format(
                    "importance: 1 - cosine of the sentence vectors with and without the head, on {} segments. "
                    "Agreement: rank correlation (in brackets: how much of the top fifth is the same).",
                    result.importance->num_segments)
              : "importance: how fast the sentence vector moves with the head's factor; no head was removed.";
  return text + paragraph(note, columns, 0, style.dim, style.off);
}

}  // namespace multihead::cli
