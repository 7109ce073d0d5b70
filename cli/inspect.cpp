// multihead inspect: run a checkpoint on a text; say what each head does, draw one, write a page.
#include "inspect.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command.hpp"
#include "files.hpp"
#include "multihead/safetensors.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

constexpr auto kDefaultPage = "heads.html";

struct Flags {
  TextSource source;
  std::string model;
  std::optional<std::string> json, page, probs;
  std::optional<index_t> layer, head;
  bool no_page = false, roles = false;
  int threads = 0;
};

constexpr auto kExample =
    "Example:\n"
    "  multihead inspect \"The animal didn't cross the street because it was too tired.\"\n"
    "  multihead inspect --file letter.txt --layer 2 --head 5 --json heads.json\n"
    "  multihead inspect --roles --no-html --file letter.txt\n"
    "  multihead inspect --no-html --json - < letter.txt | python3 -m json.tool\n\n"
    "FILE \"-\" is standard output; the table is then left out. Without TEXT, the text is read from standard input.\n"
    "--probs writes one tensor for each layer that has heads, \"layers.N.probs\" [heads, queries, keys] in f32.\n"
    "Layers and heads count from 0. Exit code: 0 done, 2 wrong usage, 1 anything else.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app("Runs a model on a text. Prints what each of its heads does, draws one, and writes an interactive page.",
               "multihead inspect");
  add_text_source(app, flags.source, "the text, in UTF-8; \"-\" for standard input");
  app.add_option("--model", flags.model, "a Hugging Face folder (BERT family); default: the one of scripts/get-model")
      ->type_name("DIR");
  add_whole_number(app, "--layer", flags.layer, 0, kMostIndex, "draw and open a head of this layer");
  add_whole_number(app, "--head", flags.head, 0, kMostIndex, "draw and open this head");
  app.add_option("--html,--output,-o", flags.page, fmt::format("where the page goes [{}]", kDefaultPage))
      ->type_name("FILE");
  app.add_flag("--no-html", flags.no_page, "write no page");
  app.add_option("--json", flags.json, "write the table as JSON")->type_name("FILE");
  app.add_option("--probs", flags.probs, "write the maps of all heads as safetensors")->type_name("FILE");
  app.add_flag("--roles", flags.roles, "say which role each head has on this text (multihead heads: on many segments)");
  add_whole_number(app, "--threads", flags.threads, 0, 4096, "0 = one for each CPU [0]");
  app.footer(kExample);
  return parse(app, argc, argv);
}

/// The files that the flags ask for. `page_problem`: why the page that nobody named cannot be written.
struct Outputs {
  std::optional<Output> json, probs, page;
  std::string page_problem = {};

  bool use_standard_output() const {
    const auto is_used = [](const std::optional<Output>& output) { return output && output->is_standard_output(); };
    return is_used(json) || is_used(probs) || is_used(page);
  }
};

void open_outputs(Outputs& outputs, const Flags& flags, const std::string& folder) {
  if (flags.json) outputs.json.emplace("--json", *flags.json);
  if (flags.probs) outputs.probs.emplace("--probs", *flags.probs);
  if (flags.page && flags.no_page) throw UsageError("give --html or --no-html, not both");
  try {
    if (!flags.no_page) outputs.page.emplace("--html", flags.page.value_or(kDefaultPage));
  } catch (const WriteError& error) {
    if (flags.page) throw;
    outputs.page_problem = text_of(error) + "; --no-html writes no page, --html FILE writes it elsewhere";
  }
  std::vector<const Output*> all;
  for (const auto* output : {&outputs.json, &outputs.probs, &outputs.page}) {
    if (*output) all.push_back(&**output);
  }
  check_apart(all, flags.source.path(), folder);
  if (outputs.probs && outputs.probs->is_standard_output() && ::isatty(STDOUT_FILENO)) {
    throw UsageError("--probs writes no text: name a file, or redirect standard output");
  }
}

void check_range(const char* flag, std::optional<index_t> value, index_t count, const std::string& of = {}) {
  if (value && *value >= count)
    throw UsageError(fmt::format("{} must be in [0, {}){}, got {}", flag, count, of, *value));
}

void check_head_exists(const Encoder& encoder, const Flags& flags) {
  const auto num_layers = static_cast<index_t>(encoder.layers().size());
  check_range("--layer", flags.layer, num_layers);
  index_t most = 0;  // heads count as designed
  for (index_t l = flags.layer.value_or(0); l <= flags.layer.value_or(num_layers - 1); ++l) {
    for (index_t number : encoder.layers()[static_cast<std::size_t>(l)].attention.heads().original_heads) {
      most = std::max(most, number + 1);
    }
  }
  if (most == 0)
    throw UsageError(fmt::format("--layer must name a layer with heads, got {}: it has none left", *flags.layer));
  check_range("--head", flags.head, most, flags.layer ? fmt::format(" in layer {}", *flags.layer) : "");
}

std::vector<HeadStatistics> statistics_of(const ModelRun& run, const ReportTokens& tokens, Executor* threads) {
  std::vector<HeadStatistics> heads;
  for (std::size_t layer = 0; layer < run.encoder.layers().size(); ++layer) {
    const index_t num_heads = run.encoder.layers()[layer].attention.num_heads();
    for (index_t h = 0; h < num_heads; ++h) {
      const auto l = static_cast<index_t>(layer);
      heads.push_back({.layer = l,
                       .head = h,
                       .number = run.designed_head(l, h),
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

/// The head with the largest confidence on tokens beyond its neighbours, among those that the flags select; the first
/// of them where the text has no such tokens.
const HeadStatistics& head_to_show(const std::vector<HeadStatistics>& heads, const Flags& flags) {
  const HeadStatistics* best = nullptr;
  for (const HeadStatistics& each : heads) {
    const bool fits = each.layer == flags.layer.value_or(each.layer) && each.number == flags.head.value_or(each.number);
    if (fits && (!best || each.distant_confidence.value_or(0) > best->distant_confidence.value_or(0))) best = &each;
  }
  if (!best) throw UsageError("no head fits --layer and --head: it was removed when the model was pruned");
  return *best;
}

/// The roles on this text alone: without repeated tokens and, as it is one segment, without intervals.
HeadsResult roles_of(const ModelRun& run, Executor* threads) {
  const Encoding& encoding = run.encoding;
  std::vector<index_t> counts(static_cast<std::size_t>(run.encoder.config().vocab_size));
  for (std::size_t t = 0; t < encoding.ids.size(); ++t) {
    if (encoding.special_tokens_mask[t] == 0) ++counts[static_cast<std::size_t>(encoding.ids[t])];
  }
  HeadsResult result{.folder = run.folder, .num_layers = static_cast<index_t>(run.encoder.layers().size())};
  result.corpus = {.segments = {{.ids = encoding.ids,
                                 .tokens = encoding.tokens,
                                 .word_ids = encoding.word_ids,
                                 .special = encoding.special_tokens_mask}},
                   .frequencies = lens::rank_tokens(std::move(counts)),
                   .num_pieces = 1};
  result.heads = lens::encoder_roles(run.encoder, result.corpus, {}, {.threads = threads});
  return result;
}

std::string page_of(const Inspection& inspection, Executor* threads) {
  const ModelRun& run = inspection.run;
  AttentionReport report{.title = printable(run.name()),
                         .text = run.text,
                         .model = printable(run.folder),
                         .queries = inspection.tokens,
                         .layers = {},
                         .first_layer = inspection.shown.layer,
                         .first_head = inspection.shown.head};
  if (!run.cut_note().empty()) report.notes.push_back(run.cut_note());
  for (const CapturedHeads& layer : run.output.heads) report.layers.push_back(layer.probs.view());
  for (const EncoderLayer& layer : run.encoder.layers()) {
    report.head_numbers.push_back(layer.attention.heads().original_heads);
  }
  return attention_page(report, threads);
}

void write_probs(const ModelRun& run, OutputFile& file) {
  std::vector<TensorToSave> tensors;
  for (std::size_t layer = 0; layer < run.output.heads.size(); ++layer) {
    const auto& probs = run.output.heads[layer].probs;
    if (probs.size() > 0) tensors.push_back(tensor_to_save(fmt::format("layers.{}.probs", layer), probs.view()[0]));
  }
  save_safetensors(file, tensors);
}

void print_table(const Inspection& inspection) {
  const Style style = Style::of_stdout();
  const int width = std::min(terminal_width(), 160);
  const ModelRun& run = inspection.run;
  const std::string name = printable(run.name());
  std::string text = paragraph(fmt::format("{}: {} layers, {} heads, {} tokens", name, run.encoder.layers().size(),
                                           inspection.heads.size(), run.num_tokens()),
                               width, 0, style.bold, style.off);
  if (!run.cut_note().empty()) text += paragraph(run.cut_note(), width);
  if (inspection.roles) {
    if (run.num_tokens() < kFewestRoleTokens) text += paragraph(few_tokens_note(), width);
    print(text + "\n" + roles_table(*inspection.roles, style, width));
  } else {
    print(text + "\n" + heads_table(inspection, style, width) + "\n" + map_drawing(inspection, style, width));
  }
}

void write_files(Outputs& outputs, const Inspection& inspection, Executor* threads) {
  if (outputs.json) outputs.json->write(inspection_json(inspection));
  if (outputs.probs) outputs.probs->write([&](OutputFile& file) { write_probs(inspection.run, file); });
  if (outputs.page) outputs.page->write(page_of(inspection, threads));
}

void print_paths(const Outputs& outputs) {
  if (outputs.json) print(fmt::format("\nNumbers: {}\n", printable(outputs.json->path())));
  if (outputs.probs) print(fmt::format("\nMaps: {}\n", printable(outputs.probs->path())));
  if (outputs.page) print(fmt::format("\nPage: {} (open it in a browser)\n", printable(outputs.page->path())));
}

}  // namespace

lens::HeadMap map_of(const ModelRun& run, index_t layer, index_t head) {
  return run.output.heads[static_cast<std::size_t>(layer)].probs.view()[0][head];
}

int run_inspect(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  const std::string text = text_input(flags.source);
  const std::string folder = model_folder(flags.model);
  Outputs outputs;
  open_outputs(outputs, flags, folder);
  ModelRun run = load_model({.folder = folder, .text = text});
  check_head_exists(run.encoder, flags);

  Workers threads(flags.threads);
  run_model(run, {.probs = true}, threads.get());
  Inspection inspection{.run = run, .tokens = report_tokens(run), .heads = {}, .shown = {}};
  inspection.heads = statistics_of(run, inspection.tokens, threads.get());
  const HeadStatistics& shown = head_to_show(inspection.heads, flags);
  inspection.shown = {shown.layer, shown.head};
  inspection.shown_confidence = shown.distant_confidence;
  if (flags.roles) inspection.roles = roles_of(run, threads.get());
  inspection.shown_was_asked_for = flags.layer && flags.head;

  // Files first: a reader of the table may hang up early. The table even if they fail: the work is done.
  std::string problem = outputs.page_problem;
  try {
    write_files(outputs, inspection, threads.get());
  } catch (const WriteError& error) {
    problem = text_of(error);
  }
  if (!outputs.use_standard_output()) print_table(inspection);
  if (!problem.empty()) throw Error(problem);
  if (!outputs.use_standard_output()) print_paths(outputs);
  return 0;
}

}  // namespace multihead::cli
