// multihead explain: the six steps of multi-head attention (Vaswani et al. 2017, section 3.2) on a text.
#include "explain.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <sstream>

#include "command.hpp"
#include "files.hpp"
#include "model_run.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

constexpr index_t kMostTokens = 4096;
constexpr index_t kMostFeatures = 8192;

struct Flags {
  TextSource source;
  std::string model;
  std::optional<std::string> json;
  std::optional<index_t> d_model, num_heads, layer, head;
  std::uint64_t seed = 1;

  bool from_checkpoint() const { return !model.empty() || layer; }
};

constexpr auto kExample =
    "Example:\n"
    "  multihead explain \"老白 拿起 他的 锅铲\"\n"
    "  multihead explain \"the cat sat\" --d-model 256 --num-heads 4 --head 2 --json steps.json\n"
    "  multihead explain \"the cat sat\" --layer 3         (layer 3 of the model of scripts/get-model)\n\n"
    "Without a model, tokens are what stands between spaces and the weights are random. FILE \"-\" is standard\n"
    "output; the steps are then left out. Without TEXT, the text is read from standard input.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app("The six steps of multi-head attention on a text, with every shape, real numbers and checks.",
               "multihead explain");
  add_text_source(app, flags.source, "the text, in UTF-8, tokens are split by spaces; \"-\" for standard input");
  add_whole_number(app, "--d-model", flags.d_model, 1, kMostFeatures, "features of a token [512]");
  add_whole_number(app, "--num-heads", flags.num_heads, 1, kMostFeatures, "heads, a divisor of d_model [8]");
  add_whole_number(app, "--seed", flags.seed, 0, std::numeric_limits<std::uint64_t>::max(),
                   "of the random weights and token vectors [1]");
  app.add_option("--model", flags.model, "explain a layer of this Hugging Face folder (BERT family) instead")
      ->type_name("DIR");
  add_whole_number(app, "--layer", flags.layer, 0, kMostIndex, "which layer of the model, from 0");
  add_whole_number(app, "--head", flags.head, 0, kMostIndex, "the head whose numbers are printed, from 0 [0]");
  app.add_option("--json", flags.json, "write all numbers as JSON")->type_name("FILE");
  app.footer(kExample);
  return parse(app, argc, argv);
}

/// "1, 2, 4, 8": the numbers of heads that fit.
std::string divisors(index_t n) {
  std::string text;
  for (index_t d = 1; d <= n; ++d) {
    if (n % d == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
  }
  return text;
}

void check_heads_fit(index_t d_model, index_t num_heads) {
  if (d_model % num_heads == 0) return;
  const index_t width = d_model / num_heads;
  throw UsageError(fmt::format(
      "d_model must be a multiple of num_heads, got d_model={}, num_heads={}; {} / {} = {:.2f} is not a whole number, "
      "so the heads have no common width ({} heads of {} would make {} features, not {}). Take a divisor of {}: {}",
      d_model, num_heads, d_model, num_heads, static_cast<double>(d_model) / static_cast<double>(num_heads), num_heads,
      width, num_heads * width, d_model, d_model, divisors(d_model)));
}

/// The head that the flag names by its original number, counted among those that the layer has; else the first.
index_t find_head(const nn::MultiHeadAttention<float>& layer, std::optional<index_t> number) {
  const std::vector<index_t>& numbers = layer.heads().original_heads;
  if (!number) return 0;
  const auto found = std::ranges::find(numbers, *number);
  if (found != numbers.end()) return found - numbers.begin();
  if (*number > numbers.back()) {
    throw UsageError(fmt::format("--head must be in [0, {}), got {}", numbers.back() + 1, *number));
  }
  throw UsageError(fmt::format("--head must name a head that the layer has, got {}: it was removed", *number));
}

/// Standard normal (Box & Muller 1958). The same numbers with every standard library.
double normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

/// x[i, f] = vector of the token's text [f] + sinusoid of its position (section 3.5), so that order counts.
Tensor<float, 3> made_up_input(const std::vector<std::string>& tokens, index_t d_model, std::uint64_t seed) {
  Tensor<float, 3> x({1, static_cast<index_t>(tokens.size()), d_model});
  std::vector<double> rates;
  for (index_t f = 0; f < d_model; ++f) {
    rates.push_back(std::pow(10000.0, -static_cast<double>(f - f % 2) / static_cast<double>(d_model)));
  }
  for (index_t i = 0; i < x.shape(1); ++i) {
    std::vector<std::uint64_t> key{seed & 0xffffffff, seed >> 32};  // a seed_seq takes 32 bits at a time
    for (const char c : tokens[static_cast<std::size_t>(i)]) key.push_back(static_cast<unsigned char>(c));
    std::seed_seq seeds(key.begin(), key.end());
    std::mt19937_64 random(seeds);
    for (index_t f = 0; f < d_model; ++f) {
      const double angle = static_cast<double>(i) * rates[static_cast<std::size_t>(f)];
      x(0, i, f) = static_cast<float>(normal(random) + (f % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  return x;
}

std::vector<std::string> split_by_spaces(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> tokens;
  for (std::string word; words >> word;) tokens.push_back(word);
  if (tokens.size() > static_cast<std::size_t>(kMostTokens)) {
    throw UsageError(fmt::format("the text must have at most {} tokens, got {}", kMostTokens, tokens.size()));
  }
  return tokens;
}

/// What is made of a text of n tokens and a layer, and how.
struct Task {
  const Flags& flags;
  std::optional<Output> json = {};
  Workers threads{0};

  explicit Task(const Flags& f, const std::string& model_folder) : flags(f) {
    if (flags.json) json.emplace("--json", *flags.json);
    std::vector<const Output*> outputs;
    if (json) outputs.push_back(&*json);
    check_apart(outputs, flags.source.path(), model_folder);
  }

  void check_size(index_t num_tokens, const nn::MultiHeadExtents& size) const {
    const index_t numbers = num_json_numbers(num_tokens, size);
    if (!json || numbers <= kMostJsonNumbers) return;
    throw UsageError(
        fmt::format("--json must hold at most {} numbers, got {} of {} tokens and {} heads; take a shorter text",
                    kMostJsonNumbers, numbers, num_tokens, size.num_heads));
  }
};

bool takes_long(index_t num_tokens, const nn::MultiHeadExtents& size) {
  constexpr index_t kAboutASecond = 5'000'000'000, kExponential = 16;  // in multiply-adds of one core
  const LayerCost cost = layer_cost(num_tokens, size.d_model, size.num_heads, size.head_dim);
  return cost.multiply_adds + kExponential * cost.map_entries > kAboutASecond;
}

int finish(Explanation explanation, Task& task, Progress& progress) {
  progress.say("checking the steps");
  explanation.checks = checks_of(explanation, task.threads.get());
  if (task.json) {
    progress.say("writing the numbers");
    task.json->write([&](OutputFile& file) { write_explanation_json(explanation, file, task.threads.get()); });
  }
  progress.end();
  const bool alone = task.json && task.json->is_standard_output();
  if (!alone) {
    print(explanation_text(explanation, Style::of_stdout(), std::min(terminal_width(), 100)));
    if (task.json) print(fmt::format("\nNumbers: {}\n", printable(task.json->path())));
  }
  for (const Check& check : explanation.checks) {
    if (!check.holds) throw Error("a check does not hold: " + check.text);
  }
  return 0;
}

int explain_checkpoint(const Flags& flags) {
  if (flags.d_model || flags.num_heads)
    throw UsageError("--d-model and --num-heads are the model's own; leave them out");
  const std::string text = text_input(flags.source);
  const std::string folder = model_folder(flags.model);
  Task task(flags, folder);
  ModelRun run = read_text(load_model(folder), text);
  const auto num_layers = static_cast<index_t>(run.encoder().layers().size());
  const index_t number = flags.layer.value_or(0);
  if (number >= num_layers) throw UsageError(fmt::format("--layer must be in [0, {}), got {}", num_layers, number));
  const nn::MultiHeadAttention<float>& layer = run.encoder().layers()[static_cast<std::size_t>(number)].attention;
  if (layer.num_heads() == 0) {
    throw UsageError(fmt::format("--layer must name a layer with heads, got {}: it has none left", number));
  }
  const index_t head = find_head(layer, flags.head);
  task.check_size(run.num_tokens(), layer.extents());
  Progress progress(takes_long(run.num_tokens() * num_layers, layer.extents()));
  progress.say("running the model");
  run_model(run, {.hidden = true}, task.threads.get());
  Explanation explanation =
      explain_layer(layer, std::move(run.output.hidden[static_cast<std::size_t>(number)]), head, task.threads.get());
  explanation.origin = fmt::format("layer {} of {}; the input is what the layers before it made. {}", number,
                                   run.name(), run.cut_note());
  explanation.tokens = run.encoding.tokens;
  return finish(std::move(explanation), task, progress);
}

int explain_made_up(const Flags& flags) {
  const index_t d_model = flags.d_model.value_or(512);
  const index_t num_heads = flags.num_heads.value_or(8);
  check_heads_fit(d_model, num_heads);
  const std::string text = text_input(flags.source);
  check_utf8(text);
  const std::vector<std::string> tokens = split_by_spaces(text);
  Task task(flags, {});
  nn::MultiHeadAttention<float> layer(
      {.d_model = d_model, .num_heads = num_heads, .b_q = false, .b_k = false, .b_v = false, .b_o = false});
  const index_t head = find_head(layer, flags.head);
  task.check_size(static_cast<index_t>(tokens.size()), layer.extents());
  Progress progress(takes_long(static_cast<index_t>(tokens.size()), layer.extents()));
  progress.say("making up weights and token vectors");
  layer.initialize(flags.seed);
  Tensor<float, 3> x = made_up_input(tokens, d_model, flags.seed);
  progress.say("running the layer");
  Explanation explanation = explain_layer(layer, std::move(x), head, task.threads.get());
  explanation.origin =
      fmt::format("token vectors and weights are random (seed {}), plus the sinusoid of each position", flags.seed);
  explanation.tokens = tokens;
  return finish(std::move(explanation), task, progress);
}

}  // namespace

int run_explain(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  return flags.from_checkpoint() ? explain_checkpoint(flags) : explain_made_up(flags);
}

}  // namespace multihead::cli
