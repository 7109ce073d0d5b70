// What the heads of a model did on one text.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "inspect.hpp"

namespace multihead::cli {
namespace {

std::vector<HeadStatistics> statistics_of(const ModelRun& run, const ReportTokens& tokens, Executor* threads) {
  std::vector<HeadStatistics> heads;
  for (std::size_t layer = 0; layer < run.encoder().layers().size(); ++layer) {
    const index_t num_heads = run.encoder().layers()[layer].attention.num_heads();
    for (index_t h = 0; h < num_heads; ++h) {
      const auto l = static_cast<index_t>(layer);
      heads.push_back({.layer = l,
                       .head = h,
                       .number = run.original_head(l, h),
                       .summary = {},
                       .offsets = {},
                       .distant_confidence = {}});
    }
  }
  const Tensor<bool, 1> special = special_flags(tokens);
  run_tasks(threads, static_cast<index_t>(heads.size()), [&](index_t n, int) {
    HeadStatistics& each = heads[static_cast<std::size_t>(n)];
    const lens::HeadMap probs = map_of(run, each.layer, each.head);
    each.summary = lens::summarise_head(probs, special, special, kLinks);
    each.offsets = lens::offset_profile(probs, kOffsetReach);
    each.distant_confidence = lens::confidence(probs, special, special, kDistant);
  });
  return heads;
}

/// The head with the largest confidence on tokens beyond its neighbours, among those that are selected; the first
/// of them where the text has no such tokens.
const HeadStatistics& head_to_show(const std::vector<HeadStatistics>& heads, const HeadSelection& selection) {
  const HeadStatistics* best = nullptr;
  for (const HeadStatistics& each : heads) {
    const bool fits =
        each.layer == selection.layer.value_or(each.layer) && each.number == selection.head.value_or(each.number);
    if (fits && (!best || each.distant_confidence.value_or(0) > best->distant_confidence.value_or(0))) best = &each;
  }
  if (!best) throw UsageError("no head fits --layer and --head: it was removed when the model was pruned");
  return *best;
}

}  // namespace

lens::HeadMap map_of(const ModelRun& run, index_t layer, index_t head) {
  return run.output.heads[static_cast<std::size_t>(layer)].probs.view()[0][head];
}

Inspection inspect(const ModelRun& run, const HeadSelection& selection, Executor* threads) {
  Inspection inspection{.run = run, .tokens = report_tokens(run), .heads = {}, .shown = {}};
  inspection.heads = statistics_of(run, inspection.tokens, threads);
  const HeadStatistics& shown = head_to_show(inspection.heads, selection);
  inspection.shown = {shown.layer, shown.head};
  inspection.shown_confidence = shown.distant_confidence;
  inspection.shown_was_asked_for = selection.layer && selection.head;
  return inspection;
}

HeadsResult roles_of(const ModelRun& run, Executor* threads) {
  const Encoding& encoding = run.encoding;
  std::vector<index_t> counts(static_cast<std::size_t>(run.encoder().config().vocab_size));
  for (std::size_t t = 0; t < encoding.ids.size(); ++t) {
    if (encoding.special_tokens_mask[t] == 0) ++counts[static_cast<std::size_t>(encoding.ids[t])];
  }
  HeadsResult result{.folder = run.folder(), .num_layers = static_cast<index_t>(run.encoder().layers().size())};
  result.corpus = {.segments = {{.ids = encoding.ids,
                                 .tokens = encoding.tokens,
                                 .word_ids = encoding.word_ids,
                                 .special = encoding.special_tokens_mask}},
                   .frequencies = lens::rank_tokens(std::move(counts)),
                   .num_pieces = 1};
  result.heads = lens::encoder_roles(run.encoder(), result.corpus, {}, {.threads = threads});
  return result;
}

std::string inspection_page(const Inspection& inspection, Executor* threads) {
  const ModelRun& run = inspection.run;
  AttentionReport report{.title = printable(run.name()),
                         .text = run.text,
                         .model = printable(run.folder()),
                         .queries = inspection.tokens,
                         .layers = {},
                         .first_layer = inspection.shown.layer,
                         .first_head = inspection.shown.head};
  if (!run.cut_note().empty()) report.notes.push_back(run.cut_note());
  for (const CapturedHeads& layer : run.output.heads) report.layers.push_back(layer.probs.view());
  for (const EncoderLayer& layer : run.encoder().layers()) {
    report.head_numbers.push_back(layer.attention.heads().original_heads);
  }
  return attention_page(report, threads);
}

}  // namespace multihead::cli
