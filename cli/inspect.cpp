// multihead inspect: run a checkpoint on a text; say what each head does, draw one, write a page.
#include "inspect.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "command.hpp"
#include "files.hpp"

namespace multihead::cli {
namespace {

struct Flags {
  std::string text, file, model, json, page = "heads.html";
  std::optional<index_t> layer, head;
  bool with_probs = false, no_page = false;
  int threads = 0;
};

constexpr auto kExample =
    "Example:\n"
    "  multihead inspect \"The animal didn't cross the street because it was too tired.\"\n"
    "  multihead inspect --file letter.txt --layer 2 --head 5 --json heads.json\n\n"
    "Layers and heads count from 0. Exit code: 0 done, 2 wrong usage, 1 anything else.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app("Runs a model on a text. Prints what each of its heads does, draws one, and writes an interactive page.",
               "multihead inspect");
  app.add_option("TEXT", flags.text, "the text, in UTF-8")->type_name("");
  app.add_option("--file", flags.file, "read the text from a file, \"-\" for standard input")->type_name("FILE");
  app.add_option("--model", flags.model, "a Hugging Face folder (BERT family); default: the one of scripts/get-model")
      ->type_name("DIR");
  app.add_option("--layer", flags.layer, "draw and open a head of this layer")->type_name("N");
  app.add_option("--head", flags.head, "draw and open this head")->type_name("N");
  app.add_option("--html,--output,-o", flags.page, "where the page goes")->type_name("FILE")->capture_default_str();
  app.add_flag("--no-html", flags.no_page, "write no page");
  app.add_option("--json", flags.json, "write the table as JSON")->type_name("FILE");
  app.add_flag("--probs", flags.with_probs, "put all maps into the JSON as well");
  app.add_option("--threads", flags.threads, "0 = one for each CPU")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""))
      ->capture_default_str();
  app.footer(kExample);
  return parse(app, argc, argv);
}

void check_range(const char* flag, std::optional<index_t> value, index_t count) {
  if (value && (*value < 0 || *value >= count)) {
    throw UsageError(fmt::format("{} must be in [0, {}), got {}", flag, count, *value));
  }
}

Tensor<bool, 1> special_flags(const ReportTokens& side) {
  Tensor<bool, 1> flags({static_cast<index_t>(side.tokens.size())});
  for (index_t i = 0; i < flags.size(); ++i) flags(i) = side.tokens[static_cast<std::size_t>(i)].special;
  return flags;
}

std::vector<HeadStatistics> statistics_of(const ModelRun& run, const ReportTokens& tokens, Executor* threads) {
  std::vector<HeadStatistics> heads;
  for (std::size_t layer = 0; layer < run.encoder.layers().size(); ++layer) {
    const index_t num_heads = run.encoder.layers()[layer].attention.num_heads();
    for (index_t h = 0; h < num_heads; ++h) {
      heads.push_back(
          {.layer = static_cast<index_t>(layer), .head = h, .summary = {}, .offsets = {}, .distant_confidence = {}});
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

/// The head that looks most surely at tokens beyond its neighbours, among those that the flags leave.
LayerHead head_to_show(const std::vector<HeadStatistics>& heads, const Flags& flags) {
  const HeadStatistics* best = nullptr;
  for (const HeadStatistics& each : heads) {
    const bool fits = each.layer == flags.layer.value_or(each.layer) && each.head == flags.head.value_or(each.head);
    if (fits && (!best || each.distant_confidence.value_or(0) > best->distant_confidence.value_or(0))) best = &each;
  }
  if (!best) throw UsageError("the model has no such head: its layers differ in heads, and this one has fewer");
  return {best->layer, best->head};
}

std::string page_of(const Inspection& inspection, Executor* threads) {
  const ModelRun& run = inspection.run;
  AttentionReport report{.title = run.name(),
                         .text = run.text,
                         .model = run.folder,
                         .queries = inspection.tokens,
                         .layers = {},
                         .first_layer = inspection.shown.layer,
                         .first_head = inspection.shown.head};
  if (!run.cut_note().empty()) report.notes.push_back(run.cut_note());
  for (const CapturedHeads& layer : run.output.heads) report.layers.push_back(layer.probs.view());
  return attention_page(report, threads);
}

void print_all(const Inspection& inspection) {
  const Style style = Style::of_stdout();
  const int width = std::min(terminal_width(), 160);
  const ModelRun& run = inspection.run;
  fmt::print("{}{}{}: {} layers, {} heads, {} tokens\n", style.bold, printable(run.name()), style.off,
             run.encoder.layers().size(), inspection.heads.size(), run.num_tokens());
  if (!run.cut_note().empty()) fmt::print("{}\n", run.cut_note());
  fmt::print("\n{}\n{}", heads_table(inspection, style, width), map_drawing(inspection, style, width));
}

}  // namespace

lens::HeadMap map_of(const ModelRun& run, index_t layer, index_t head) {
  return run.output.heads[static_cast<std::size_t>(layer)].probs.view()[0][head];
}

int run_inspect(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  if (flags.with_probs && flags.json.empty()) throw UsageError("--probs needs --json FILE");
  const ModelInput input = model_input(flags.model, flags.text, flags.file);
  if (!flags.no_page) check_writable(flags.page);
  if (!flags.json.empty()) check_writable(flags.json);
  ModelRun run = load_model(input);
  index_t most_heads = 0;
  for (const EncoderLayer& layer : run.encoder.layers()) most_heads = std::max(most_heads, layer.attention.num_heads());
  check_range("--layer", flags.layer, static_cast<index_t>(run.encoder.layers().size()));
  check_range("--head", flags.head, most_heads);

  Threads threads(flags.threads);
  run_model(run, {.probs = true}, &threads);
  Inspection inspection{.run = run, .tokens = report_tokens(run), .heads = {}, .shown = {}};
  inspection.heads = statistics_of(run, inspection.tokens, &threads);
  inspection.shown = head_to_show(inspection.heads, flags);
  inspection.shown_was_asked_for = flags.layer && flags.head;

  // Files first: a reader of the table may hang up early.
  if (!flags.json.empty()) write_file(flags.json, inspection_json(inspection, flags.with_probs));
  if (!flags.no_page) write_file(flags.page, page_of(inspection, &threads));
  print_all(inspection);
  if (!flags.json.empty()) fmt::print("\nNumbers: {}\n", flags.json);
  if (!flags.no_page) fmt::print("\nPage: {} (open it in a browser)\n", flags.page);
  return 0;
}

}  // namespace multihead::cli
