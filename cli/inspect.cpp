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
  index_t most = 0;  // by original numbers
  for (index_t l = flags.layer.value_or(0); l <= flags.layer.value_or(num_layers - 1); ++l) {
    for (index_t number : encoder.layers()[static_cast<std::size_t>(l)].attention.heads().original_heads) {
      most = std::max(most, number + 1);
    }
  }
  if (most == 0)
    throw UsageError(fmt::format("--layer must name a layer with heads, got {}: it has none left", *flags.layer));
  check_range("--head", flags.head, most, flags.layer ? fmt::format(" in layer {}", *flags.layer) : "");
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
  std::string text = paragraph(fmt::format("{}: {} layers, {} heads, {} tokens", name, run.encoder().layers().size(),
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
  if (outputs.page) outputs.page->write(inspection_page(inspection, threads));
}

void print_paths(const Outputs& outputs) {
  if (outputs.json) print(fmt::format("\nNumbers: {}\n", printable(outputs.json->path())));
  if (outputs.probs) print(fmt::format("\nMaps: {}\n", printable(outputs.probs->path())));
  if (outputs.page) print(fmt::format("\nPage: {} (open it in a browser)\n", printable(outputs.page->path())));
}

}  // namespace

int run_inspect(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  const std::string text = text_input(flags.source);
  const std::string folder = model_folder(flags.model);
  Outputs outputs;
  open_outputs(outputs, flags, folder);
  ModelRun run = read_text(load_model(folder), text);
  check_head_exists(run.encoder(), flags);

  Workers threads(flags.threads);
  run_model(run, {.probs = true}, threads.get());
  Inspection inspection = inspect(run, {.layer = flags.layer, .head = flags.head}, threads.get());
  if (flags.roles) inspection.roles = roles_of(run, threads.get());

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
