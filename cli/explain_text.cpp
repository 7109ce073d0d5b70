// The explanation for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "explain.hpp"

namespace multihead::cli {
namespace {

/// How matrices and lines are laid out on a terminal of some width.
struct Layout {
  static constexpr int kCell = 9, kMark = 4, kSum = 6;  // a number, "  ..", " 1.000"
  int width, indent, label;
  index_t cells;  // numbers of a row, at most kMostShown
  bool mark, sum;

  explicit Layout(int columns)
      : width(columns),
        indent(columns >= 60 ? 5 : 1),
        label(columns >= 60   ? 12
              : columns >= 40 ? 8
                              : 5),
        cells(std::clamp<index_t>((columns - indent - label - kMark - kSum) / kCell, 1, kMostShown)),
        mark(room_for(kMark)),
        sum(room_for(kMark + kSum)) {}

 private:
  bool room_for(int more) const { return indent + label + static_cast<int>(cells) * kCell + more <= width; }
};

/// A number in a cell; those that are too long, in powers of ten.
std::string cell(double value, const char* format) {
  std::string text = fmt::format(fmt::runtime(format), value);
  if (static_cast<int>(text.size()) >= Layout::kCell) text = fmt::format("{:.1e}", value);
  return fmt::format("{:>{}}", text, Layout::kCell);
}

class Writer {
 public:
  Writer(const Explanation& explanation, const Style& style, int width)
      : e_(explanation), style_(style), layout_(width) {}

  std::string all() const;

 private:
  std::string label(index_t token) const {
    return std::string(static_cast<std::size_t>(layout_.indent), ' ') +
           right(e_.tokens[static_cast<std::size_t>(token)], layout_.label);
  }
  std::string and_more(index_t rows) const {
    const std::string text = fmt::format("{:{}}{:>{}}  and {} more", "", layout_.indent, "..", layout_.label, rows);
    return text + "\n";
  }
  std::string paragraph_of(const std::string& text, int indent = 3, const std::string& before = {},
                           const std::string& after = {}) const {
    return paragraph(text, layout_.width, indent, before, after);
  }
  std::string note(const std::string& text) const { return paragraph_of(text, 3, style_.dim, style_.off); }
  std::string title(int step, const char* name) const {
    return "\n" + paragraph_of(fmt::format("{}  {}", step, name), 0, style_.strong, style_.off);
  }

  std::string rows_text(TensorView<const float, 2> rows) const;
  std::string map_text(TensorView<const float, 2> map, const char* format, bool with_sums) const;
  std::string formula(const std::string& text, const std::string& shapes) const;
  std::string checks_text(int step) const;
  std::string weighted_sum() const;
  std::string cost_text() const;
  std::string first_steps() const;
  std::string last_steps() const;

  const Explanation& e_;
  const Style& style_;
  Layout layout_;
};

/// The first numbers of each token's row and the last: "老白   +0.123 -0.456 .. +0.789".
std::string Writer::rows_text(TensorView<const float, 2> rows) const {
  const index_t num_features = rows.shape(1);
  const index_t first = std::min(num_features, std::max<index_t>(1, layout_.cells - 1));
  const bool last = num_features > first && layout_.cells > first;
  std::string text;
  for (index_t i = 0; i < std::min(rows.shape(0), kMostShown); ++i) {
    text += label(i);
    for (index_t f = 0; f < first; ++f) text += cell(rows(i, f), "{:+.3f}");
    if (num_features > first + (last ? 1 : 0) && layout_.mark) text += "  ..";
    if (last) text += cell(rows(i, num_features - 1), "{:+.3f}");
    text += "\n";
  }
  return text + (rows.shape(0) > kMostShown ? and_more(rows.shape(0) - kMostShown) : "");
}

/// The first rows of a map, [shown, n], with its tokens on both sides; `with_sums` adds what each row sums to.
std::string Writer::map_text(TensorView<const float, 2> map, const char* format, bool with_sums) const {
  const index_t shown = std::min(map.shape(1), layout_.cells);
  const std::string mark = map.shape(1) > shown && layout_.mark ? "  .." : "";
  const bool sums = with_sums && layout_.sum;
  std::string text = std::string(static_cast<std::size_t>(layout_.indent + layout_.label), ' ') + style_.dim;
  for (index_t j = 0; j < shown; ++j) {
    text += " " + right(e_.tokens[static_cast<std::size_t>(j)], Layout::kCell - 1);
  }
  text += fmt::format("{}{}{}\n", mark, sums ? "   sum" : "", style_.off);
  for (index_t i = 0; i < map.shape(0); ++i) {
    double sum = 0;
    for (index_t j = 0; j < map.shape(1); ++j) sum += map(i, j);
    text += label(i);
    for (index_t j = 0; j < shown; ++j) text += cell(map(i, j), format);
    text += mark;
    if (sums) text += fmt::format("{} {:.3f}{}", style_.dim, sum, style_.off);
    text += "\n";
  }
  return text + (map.shape(1) > map.shape(0) ? and_more(map.shape(1) - map.shape(0)) : "");
}

/// A formula and its shapes on one line, or on several where one is too narrow.
std::string Writer::formula(const std::string& text, const std::string& shapes) const {
  constexpr int kFormula = 44;
  if (3 + kFormula + display_width(shapes) <= layout_.width) {
    return fmt::format("   {}{}{}{}\n", style_.bold, left(text, kFormula), style_.off, shapes);
  }
  return paragraph_of(text, 3, style_.bold, style_.off) + paragraph_of(shapes, layout_.width >= 60 ? 7 : 4);
}

std::string Writer::checks_text(int step) const {
  std::string text;
  for (const Check& check : e_.checks) {
    if (check.step != step) continue;
    bool first = true;
    for (const std::string& line : wrapped(check.text, layout_.width - 10)) {
      const std::string mark = first ? (check.holds ? "ok" : "NOT SO") : "";
      text += fmt::format("   {}{:<6}{} {}\n", check.holds ? style_.accent : style_.bold, mark, style_.off, line);
      first = false;
    }
  }
  return text;
}

/// "head_0[老白] = 0.31 v[老白] + 0.27 v[拿起] + ..": what the first token reads.
std::string Writer::weighted_sum() const {
  const index_t shown = std::min<index_t>(e_.num_tokens(), 4);
  std::string text = fmt::format("head_{}[{}] =", e_.original_head(e_.head), fitted(e_.tokens[0], 10));
  for (index_t j = 0; j < shown; ++j) {
    text += fmt::format("{} {:.3f} v[{}]", j == 0 ? "" : " +", e_.probs(0, j),
                        fitted(e_.tokens[static_cast<std::size_t>(j)], 10));
  }
  return text + (shown < e_.num_tokens() ? " + .." : "");
}

/// "| head 0: 0..63 | head 1: 64..127 | ..": where each head's columns lie.
std::string columns_ruler(const Explanation& e) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  std::string text;
  for (index_t h = 0; h < size.num_heads; ++h) {
    const bool skip = size.num_heads > 4 && h >= 3 && h < size.num_heads - 1;
    if (skip && h > 3) continue;
    text += skip ? "| .. "
                 : fmt::format("| head {}: {}..{} ", e.original_head(h), h * size.head_dim_v,
                               (h + 1) * size.head_dim_v - 1);
  }
  return text + "|";
}

std::string with_commas(index_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string Writer::cost_text() const {
  const nn::MultiHeadExtents& size = e_.layer.extents();
  const LayerCost many = layer_cost(e_.num_tokens(), size.d_model, size.num_heads, size.head_dim);
  const LayerCost one = layer_cost(e_.num_tokens(), size.d_model, 1, size.num_heads * size.head_dim);
  const auto row = [&](const char* name, const std::string& a, const std::string& b, const Style& style) {
    if (layout_.width >= 70) return fmt::format("   {}{:<34}{:>16}{:>16}{}\n", style.bold, name, a, b, style.off);
    return paragraph_of(fmt::format("{}:", name)) + paragraph_of(a, 5) + paragraph_of(b, 5);
  };
  const auto numbers = [&](const char* name, index_t a, index_t b) {
    return row(name, with_commas(a), with_commas(b), {});
  };
  const auto shape = [](const LayerCost& cost) { return fmt::format("{} x {}", cost.num_heads, cost.head_dim); };
  return "\n" + paragraph_of("One head of the whole width beside them", 0, style_.strong, style_.off) +
         row("heads x width", shape(many), shape(one), style_) +
         numbers("parameters, without biases", many.parameters, one.parameters) +
         numbers("multiply-adds on this text", many.multiply_adds, one.multiply_adds) +
         numbers("maps, so relations kept apart", many.num_heads, one.num_heads) +
         numbers("exponentials of the softmax", many.map_entries, one.map_entries) + checks_text(0);
}

std::string Writer::first_steps() const {
  const nn::MultiHeadExtents& s = e_.layer.extents();
  const index_t n = e_.num_tokens();
  const bool bias = e_.layer.parameters().b_q.data() != nullptr;
  std::string text = title(1, "Input");
  text += formula("X", fmt::format("[{}, {}]   one row per token, d_model = {} features", n, s.d_model, s.d_model));
  text += rows_text(e_.x.view()[0]) + checks_text(1);

  text += title(2, "Projections");
  text += formula(bias ? "q_h = X W_h^Q + b_h   (k_h, v_h alike)" : "q_h = X W_h^Q   (k_h, v_h alike)",
                  fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   for each of {} heads", n, s.d_model, s.d_model,
                              s.head_dim, n, s.head_dim, s.num_heads));
  text += note(fmt::format("q of head {}:", e_.original_head(e_.head))) + rows_text(of_head(e_.activations.q, e_.head));
  text += checks_text(2);

  text += title(3, "Scaled scores");
  text += formula(
      fmt::format("scores_h = q_h k_h^T / sqrt({})", s.head_dim),
      fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   row: query, column: key", n, s.head_dim, s.head_dim, n, n, n));
  text += map_text(e_.scores.view(), "{:+.3f}", false) + checks_text(3);
  return text;
}

std::string Writer::last_steps() const {
  const nn::MultiHeadExtents& s = e_.layer.extents();
  const index_t n = e_.num_tokens();
  const bool bias = e_.layer.parameters().b_o.data() != nullptr;
  std::string text = title(4, "Softmax and weighted sum");
  text += formula("probs_h = softmax(scores_h) over keys", fmt::format("[{}, {}]   who, how much", n, n));
  text += map_text(e_.probs.view(), "{:.3f}", true);
  text += formula("head_h = probs_h v_h", fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   what was read", n, n, n,
                                                      s.head_dim_v, n, s.head_dim_v));
  text += note(weighted_sum()) + rows_text(of_head(e_.activations.heads, e_.head)) + checks_text(4);

  text += title(5, "Concatenation");
  text += formula(fmt::format("concat(head_{} .. head_{})", e_.original_head(0), e_.original_head(s.num_heads - 1)),
                  fmt::format("{} of [{}, {}] side by side = [{}, {}]", s.num_heads, n, s.head_dim_v, n,
                              s.num_heads * s.head_dim_v));
  text += paragraph_of(columns_ruler(e_)) +
          note("Side by side, so nothing that a head read is mixed with another's or averaged away.");
  text += checks_text(5);

  text += title(6, "Output projection");
  text += formula(bias ? "y = concat W^O + b" : "y = concat W^O",
                  fmt::format("[{}, {}] x [{}, {}] = [{}, {}]   heads mix here", n, s.num_heads * s.head_dim_v,
                              s.num_heads * s.head_dim_v, s.y_width, n, s.y_width));
  return text + rows_text(e_.y.view()[0]) + checks_text(6);
}

std::string Writer::all() const {
  const nn::MultiHeadExtents& s = e_.layer.extents();
  return paragraph_of(fmt::format("Multi-head attention in six steps: {} tokens, d_model {}, {} heads of width {}",
                                  e_.num_tokens(), s.d_model, s.num_heads, s.head_dim),
                      0, style_.bold, style_.off) +
         note(fmt::format("Vaswani et al. 2017, section 3.2. Here {}", e_.origin)) + first_steps() + last_steps() +
         cost_text();
}

}  // namespace

std::string explanation_text(const Explanation& explanation, const Style& style, int width) {
  return Writer(explanation, style, width).all();
}

}  // namespace multihead::cli
