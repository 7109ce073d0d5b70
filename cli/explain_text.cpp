// The explanation for a terminal of 100 columns.
#include <fmt/format.h>

#include <algorithm>

#include "explain.hpp"

namespace multihead::cli {
namespace {

constexpr int kWidth = 100;
constexpr index_t kMostShown = 8;  // rows and columns of a matrix
constexpr int kLabel = 12;
constexpr int kCell = 9;

/// The first numbers of each token's row: "老白   +0.123 -0.456 .. +0.789".
std::string rows_text(const Explanation& e, TensorView<const float, 2> rows) {
  const index_t shown = std::min(rows.shape(1), kMostShown - 1);
  std::string text;
  for (index_t i = 0; i < std::min(rows.shape(0), kMostShown); ++i) {
    text += "     " + right(e.tokens[static_cast<std::size_t>(i)], kLabel);
    for (index_t f = 0; f < shown; ++f) text += fmt::format("{:>+{}.3f}", rows(i, f), kCell);
    if (rows.shape(1) > shown + 1) text += "  ..";
    if (rows.shape(1) > shown) text += fmt::format("{:>+{}.3f}", rows(i, rows.shape(1) - 1), kCell);
    text += "\n";
  }
  if (rows.shape(0) > kMostShown)
    text += fmt::format("     {:>{}}  and {} more\n", "..", kLabel, rows.shape(0) - kMostShown);
  return text;
}

/// A map with its tokens on both sides; `with_sums` adds what each row sums to.
std::string map_text(const Explanation& e, TensorView<const float, 2> map, const char* format, bool with_sums,
                     const Style& style) {
  const index_t shown = std::min(map.shape(0), kMostShown);
  const bool cut = map.shape(0) > shown;
  std::string text = "     " + std::string(kLabel, ' ') + style.dim;
  for (index_t j = 0; j < shown; ++j) text += " " + right(e.tokens[static_cast<std::size_t>(j)], kCell - 1);
  text += fmt::format("{}{}{}\n", cut ? "  .." : "", with_sums ? "   sum" : "", style.off);
  for (index_t i = 0; i < shown; ++i) {
    double sum = 0;
    for (index_t j = 0; j < map.shape(1); ++j) sum += map(i, j);
    text += "     " + right(e.tokens[static_cast<std::size_t>(i)], kLabel);
    for (index_t j = 0; j < shown; ++j)
      text += fmt::format("{:>{}}", fmt::format(fmt::runtime(format), map(i, j)), kCell);
    text += cut ? "  .." : "";
    if (with_sums) text += fmt::format("{} {:.3f}{}", style.dim, sum, style.off);
    text += "\n";
  }
  if (cut) text += fmt::format("     {:>{}}  and {} more\n", "..", kLabel, map.shape(0) - shown);
  return text;
}

std::string title(int step, const char* name, const Style& style) {
  return fmt::format("\n{}{}  {}{}\n", style.strong, step, name, style.off);
}

/// A formula and its shapes on one line, or on two where one is too narrow.
std::string formula(const std::string& text, const std::string& shapes, const Style& style) {
  constexpr int kFormula = 44;
  const bool fits = 3 + kFormula + display_width(shapes) <= kWidth;
  return fmt::format("   {}{}{}{}{}\n", style.bold, fits ? left(text, kFormula) : text, style.off,
                     fits ? "" : "\n       ", shapes);
}

std::string checks_text(const Explanation& e, int step, const Style& style) {
  std::string text;
  for (const Check& check : e.checks) {
    if (check.step != step) continue;
    bool first = true;
    for (const std::string& line : wrapped(check.text, kWidth - 10)) {
      const std::string mark = first ? (check.holds ? "ok" : "NOT SO") : "";
      text += fmt::format("   {}{:<6}{} {}\n", check.holds ? style.accent : style.bold, mark, style.off, line);
      first = false;
    }
  }
  return text;
}

std::string note(const std::string& text, const Style& style) {
  std::string lines;
  for (const std::string& line : wrapped(text, kWidth - 3))
    lines += fmt::format("   {}{}{}\n", style.dim, line, style.off);
  return lines;
}

TensorView<const float, 2> of_head(const Tensor<float, 4>& activation, index_t h) {
  return activation.view()[0].permute({1, 0, 2})[h];
}

/// "head_0[老白] = 0.31 v[老白] + 0.27 v[拿起] + ..": what the first token reads.
std::string weighted_sum(const Explanation& e) {
  const index_t shown = std::min<index_t>(e.num_tokens(), 4);
  std::string text = fmt::format("head_{}[{}] =", e.head, fitted(e.tokens[0], 10));
  for (index_t j = 0; j < shown; ++j) {
    text += fmt::format("{} {:.3f} v[{}]", j == 0 ? "" : " +", e.probs(0, e.head, 0, j),
                        fitted(e.tokens[static_cast<std::size_t>(j)], 10));
  }
  return text + (shown < e.num_tokens() ? " + .." : "");
}

/// "| head 0: 0..63 | head 1: 64..127 | ..": where each head's columns lie.
std::string columns_ruler(const nn::MultiHeadExtents& size) {
  std::string text = "  ";
  for (index_t h = 0; h < size.num_heads; ++h) {
    const bool skip = size.num_heads > 4 && h >= 3 && h < size.num_heads - 1;
    if (skip && h > 3) continue;
    text += skip ? " | .." : fmt::format(" | head {}: {}..{}", h, h * size.head_dim_v, (h + 1) * size.head_dim_v - 1);
  }
  return text + " |\n";
}

std::string with_commas(index_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string cost_text(const Explanation& e, const Style& style) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  const LayerCost many = layer_cost(e.num_tokens(), size.d_model, size.num_heads, size.head_dim);
  const LayerCost one = layer_cost(e.num_tokens(), size.d_model, 1, size.num_heads * size.head_dim);
  const auto row = [](const char* name, index_t a, index_t b) {
    return fmt::format("   {:<34}{:>16}{:>16}\n", name, with_commas(a), with_commas(b));
  };
  const auto shape = [](const LayerCost& cost) { return fmt::format("{} x {}", cost.num_heads, cost.head_dim); };
  return fmt::format("\n{}One head of the whole width beside them{}\n   {}{:<34}{:>16}{:>16}{}\n", style.strong,
                     style.off, style.bold, "heads x width", shape(many), shape(one), style.off) +
         row("parameters, without biases", many.parameters, one.parameters) +
         row("multiply-adds on this text", many.multiply_adds, one.multiply_adds) +
         row("maps, so relations kept apart", many.num_heads, one.num_heads) +
         row("exponentials of the softmax", many.map_entries, one.map_entries) + checks_text(e, 0, style);
}

std::string first_steps(const Explanation& e, const Style& style) {
  const nn::MultiHeadExtents& s = e.layer.extents();
  const index_t n = e.num_tokens();
  const bool bias = e.layer.parameters().b_q.data() != nullptr;
  std::string text = title(1, "Input", style);
  text +=
      formula("X", fmt::format("[{}, {}]   one row a token, d_model = {} features", n, s.d_model, s.d_model), style);
  text += rows_text(e, e.x.view()[0]) + checks_text(e, 1, style);

  text += title(2, "Projections", style);
  text += formula(bias ? "q_h = X W_h^Q + b_h   (k_h, v_h alike)" : "q_h = X W_h^Q   (k_h, v_h alike)",
                  fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   for each of {} heads", n, s.d_model, s.d_model,
                              s.head_dim, n, s.head_dim, s.num_heads),
                  style);
  text += note(fmt::format("q of head {}:", e.head), style) + rows_text(e, of_head(e.activations.q, e.head));
  text += checks_text(e, 2, style);

  text += title(3, "Scaled scores", style);
  text += formula(
      fmt::format("scores_h = q_h k_h^T / sqrt({})", s.head_dim),
      fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   row: query, column: key", n, s.head_dim, s.head_dim, n, n, n),
      style);
  text += map_text(e, e.scores.view()[e.head], "{:+.3f}", false, style) + checks_text(e, 3, style);
  return text;
}

std::string last_steps(const Explanation& e, const Style& style) {
  const nn::MultiHeadExtents& s = e.layer.extents();
  const index_t n = e.num_tokens();
  const bool bias = e.layer.parameters().b_o.data() != nullptr;
  std::string text = title(4, "Softmax and weighted sum", style);
  text += formula("probs_h = softmax(scores_h) over keys", fmt::format("[{}, {}]   who, how much", n, n), style);
  text += map_text(e, e.probs.view()[0][e.head], "{:.3f}", true, style);
  text += formula("head_h = probs_h v_h",
                  fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   what was read", n, n, n, s.head_dim_v, n, s.head_dim_v),
                  style);
  text += note(weighted_sum(e), style) + rows_text(e, of_head(e.activations.heads, e.head)) + checks_text(e, 4, style);

  text += title(5, "Concatenation", style);
  text += formula(fmt::format("concat(head_0 .. head_{})", s.num_heads - 1),
                  fmt::format("{} of [{}, {}] side by side = [{}, {}]", s.num_heads, n, s.head_dim_v, n,
                              s.num_heads * s.head_dim_v),
                  style);
  text += columns_ruler(s) +
          note("Side by side, so nothing that a head read is mixed with another's or averaged away.", style);
  text += checks_text(e, 5, style);

  text += title(6, "Output projection", style);
  text += formula(bias ? "y = concat W^O + b" : "y = concat W^O",
                  fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   heads mix here", n, s.num_heads * s.head_dim_v,
                              s.num_heads * s.head_dim_v, s.y_width, n, s.y_width),
                  style);
  return text + rows_text(e, e.y.view()[0]) + checks_text(e, 6, style);
}

}  // namespace

std::string explanation_text(const Explanation& e, const Style& style) {
  const nn::MultiHeadExtents& s = e.layer.extents();
  std::string text = fmt::format("{}Multi-head attention in six steps{}: {} tokens, d_model {}, {} heads of width {}\n",
                                 style.bold, style.off, e.num_tokens(), s.d_model, s.num_heads, s.head_dim);
  text += note(fmt::format("Vaswani et al. 2017, section 3.2. Here {}", e.origin), style);
  return text + first_steps(e, style) + last_steps(e, style) + cost_text(e, style);
}

}  // namespace multihead::cli
