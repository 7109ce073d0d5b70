#include "attention/problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/ceil_div.hpp"
#include "core/require.hpp"

namespace multihead {
namespace {

// In f32 arithmetic scale and softcap must be normal numbers: smaller ones would lose digits or be flushed to 0.
constexpr float kSmallest = std::numeric_limits<float>::min(), kLargest = std::numeric_limits<float>::max();

template <int R>
GotShape text_of(const InputView<R>& view) {
  return {view.shape().data(), R};
}

bool is_f32_like(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

void check_dtype(std::string_view function, std::string_view name, DType dtype, bool f64) {
  const bool fits = f64 ? dtype == DType::f64 : is_f32_like(dtype);
  require<UnsupportedError>(fits, function, "q, k, v and out must be f32, bf16 or f16, or all f64",
                            {{"q", f64 ? "f64" : "f32-like"}, {name, dtype}});
}

void check_float_dtype(std::string_view function, std::string_view name, DType dtype, bool f64) {
  const DType wanted = f64 ? DType::f64 : DType::f32;
  require<UnsupportedError>(dtype == wanted, function,
                            Rule(name, " must be ", dtype_name(wanted), f64 ? " beside f64 q" : ""), {{name, dtype}},
                            dtype == DType::boolean ? "a boolean mask goes into options.mask.visible" : "");
}

struct Checker {
  std::string_view function;
  const AttentionInput& in;
  const AttentionOptions& opt;
  Problem p;

  void need(bool condition, const Rule& rule, std::initializer_list<Got> got, std::string_view hint = {}) const {
    require(condition, function, rule, got, hint);
  }

  void inputs() {
    need(in.q && in.k && in.v, "q, k and v must be given",
         {{"q", in.q ? "given" : "absent"}, {"k", in.k ? "given" : "absent"}, {"v", in.v ? "given" : "absent"}});
    p.f64 = in.q.dtype() == DType::f64;
    p.lanes = p.f64 ? kernels::table<double>().lanes : kernels::table<float>().lanes;
    for (const auto& [name, view] : {std::pair{"q", &in.q}, {"k", &in.k}, {"v", &in.v}}) {
      check_dtype(function, name, view->dtype(), p.f64);
      for (index_t extent : view->shape()) {
        need(extent >= 0, "extents must not be negative", {{name, text_of(*view)}});
      }
    }
    for (const auto& [name, view] : {std::pair{"q", &in.q}, {"k", &in.k}, {"v", &in.v}}) {
      check_data(function, name, *view);
    }
    p.num_heads = in.q.shape(2);
    p.num_kv_heads = in.k.shape(2);
    p.head_dim = in.q.shape(3);
    p.head_dim_v = in.v.shape(3);
    p.tokens_q = in.q.shape(1);
    p.tokens_kv = in.k.shape(1);
    need(in.k.shape(3) == p.head_dim, "q and k must have the same head_dim",
         {{"q", text_of(in.q)}, {"k", text_of(in.k)}});
    need(in.k.shape(0) == in.v.shape(0) && in.k.shape(1) == in.v.shape(1) && in.k.shape(2) == in.v.shape(2),
         "k and v must agree in batch, seqlen_kv and num_kv_heads", {{"k", text_of(in.k)}, {"v", text_of(in.v)}});
    need(opt.page_table || in.q.shape(0) == in.k.shape(0), "q and k must have the same batch",
         {{"q", text_of(in.q)}, {"k", text_of(in.k)}});
    need(p.num_heads >= 1, "num_heads must be at least 1", {{"num_heads", p.num_heads}});
    need(p.num_kv_heads >= 1, "num_kv_heads must be at least 1",
         {{"num_heads", p.num_heads}, {"num_kv_heads", p.num_kv_heads}});
    need(p.head_dim >= 1, "head_dim must be at least 1", {{"head_dim", p.head_dim}});
    need(p.head_dim_v >= 1, "head_dim_v must be at least 1", {{"head_dim_v", p.head_dim_v}});
    for (const auto& [name, view] : {std::pair{"q", &in.q}, {"k", &in.k}, {"v", &in.v}}) {
      need(view->shape(3) == 1 || view->stride(3) == 1, "the last axis must be contiguous",
           {{"tensor", name}, {"stride", view->stride(3)}}, "copy it, or view it with the feature axis last");
    }
  }

  void heads() const {
    if (!opt.kv_head_of) {
      need(p.num_heads % p.num_kv_heads == 0, "num_heads must be a multiple of num_kv_heads",
           {{"num_heads", p.num_heads}, {"num_kv_heads", p.num_kv_heads}},
           "options.kv_head_of gives any other grouping");
      return;
    }
    need(opt.kv_head_of.shape(0) == p.num_heads, "kv_head_of must have one entry per query head",
         {{"kv_head_of", opt.kv_head_of.shape(0)}, {"num_heads", p.num_heads}});
    for (index_t h = 0; h < p.num_heads; ++h) {
      const index_t g = opt.kv_head_of(h);
      need(g >= 0 && g < p.num_kv_heads, "kv_head_of must name kv heads in [0, num_kv_heads)",
           {{"h", h}, {"kv_head_of", g}, {"num_kv_heads", p.num_kv_heads}});
    }
  }

  void offsets(std::string_view name, const TensorView<const index_t, 1>& cu, index_t tokens, index_t& longest) const {
    need(cu.shape(0) >= 1 && cu(0) == 0, "cu_seqlens must start with 0",
         {{"offsets", name}, {"size", cu.shape(0)}, {"first", cu.shape(0) >= 1 ? cu(0) : index_t{-1}}});
    longest = 0;
    for (index_t b = 0; b + 1 < cu.shape(0); ++b) {
      need(cu(b + 1) >= cu(b), "cu_seqlens must not decrease",
           {{"offsets", name}, {"b", b}, {"begin", cu(b)}, {"end", cu(b + 1)}});
      longest = std::max(longest, cu(b + 1) - cu(b));
    }
    const index_t last = cu(cu.shape(0) - 1);
    need(last == tokens, "the last offset must equal the number of tokens",
         {{"offsets", name}, {"last", last}, {"tokens", tokens}});
  }

  void batch() {
    const Packed& packed = opt.packed;
    need(bool(packed.cu_seqlens_q) == bool(packed.cu_seqlens_kv), "cu_seqlens_q and cu_seqlens_kv go together",
         {{"cu_seqlens_q", packed.cu_seqlens_q ? "given" : "absent"},
          {"cu_seqlens_kv", packed.cu_seqlens_kv ? "given" : "absent"}});
    p.packed = bool(packed.cu_seqlens_q);
    if (!p.packed) {
      p.batch = in.q.shape(0);
      p.seqlen_q = p.tokens_q;
      p.seqlen_kv = p.tokens_kv;
      if (opt.page_table) pages();
      lengths("seqlen_q", opt.mask.seqlen_q, p.seqlen_q);
      lengths("seqlen_kv", opt.mask.seqlen_kv, p.seqlen_kv);
      return;
    }
    need(
        !opt.mask.seqlen_q && !opt.mask.seqlen_kv, "packed sequences and seqlen_q or seqlen_kv exclude each other",
        {{"seqlen_q", opt.mask.seqlen_q ? "given" : "absent"}, {"seqlen_kv", opt.mask.seqlen_kv ? "given" : "absent"}});
    need(!opt.page_table, "packed sequences and page_table exclude each other", {{"page_table", "given"}});
    need(in.q.shape(0) == 1, "packed q, k and v must have batch 1", {{"q", text_of(in.q)}, {"k", text_of(in.k)}});
    offsets("cu_seqlens_q", packed.cu_seqlens_q, p.tokens_q, p.seqlen_q);
    offsets("cu_seqlens_kv", packed.cu_seqlens_kv, p.tokens_kv, p.seqlen_kv);
    need(packed.cu_seqlens_q.shape(0) == packed.cu_seqlens_kv.shape(0),
         "cu_seqlens_q and cu_seqlens_kv must have the same size",
         {{"cu_seqlens_q", packed.cu_seqlens_q.shape(0)}, {"cu_seqlens_kv", packed.cu_seqlens_kv.shape(0)}});
    p.batch = packed.cu_seqlens_q.shape(0) - 1;
  }

  void lengths(std::string_view name, const TensorView<const index_t, 1>& view, index_t most) const {
    if (!view) return;
    need(view.shape(0) == p.batch, Rule(name, " must have one entry per sequence"),
         {{name, view.shape(0)}, {"batch", p.batch}});
    for (index_t b = 0; b < p.batch; ++b) {
      need(view(b) >= 0 && view(b) <= most, Rule(name, " must lie in [0, extent]"),
           {{"b", b}, {name, view(b)}, {"extent", most}});
    }
  }

  void pages() {
    const auto& table = opt.page_table;
    const index_t page_size = in.k.shape(1), num_pages = in.k.shape(0);
    need(table.shape(0) == p.batch, "page_table must have one row per sequence",
         {{"page_table", table.shape(0)}, {"batch", p.batch}});
    need(page_size >= 1, "pages must have at least one row", {{"k", text_of(in.k)}});
    need(bool(opt.mask.seqlen_kv), "page_table needs mask.seqlen_kv", {{"seqlen_kv", "absent"}});
    p.seqlen_kv = checked_size(std::array{table.shape(1), page_size}.data(), 2, 1);
    lengths("seqlen_kv", opt.mask.seqlen_kv, p.seqlen_kv);
    for (index_t b = 0; b < p.batch; ++b) {
      const index_t used = ceil_div(opt.mask.seqlen_kv(b), page_size);
      for (index_t n = 0; n < used; ++n) {
        need(table(b, n) >= 0 && table(b, n) < num_pages, "page_table must name pages in [0, num_pages)",
             {{"b", b}, {"entry", n}, {"page", table(b, n)}, {"num_pages", num_pages}});
      }
    }
  }

  void mask() const {
    const Mask& m = opt.mask;
    for (const auto& [name, side] : {std::pair{"window_left", m.window_left}, {"window_right", m.window_right}}) {
      if (side) need(*side >= 0, Rule(name, " must not be negative"), {{name, *side}}, "leave it unset to see all");
    }
    const bool explicit_corner = m.causal == Causal::top_left || m.causal == Causal::bottom_right;
    need(!(explicit_corner && m.diagonal_offset), "diagonal_offset goes with Causal::at_offset or Causal::off",
         {{"causal", m.causal == Causal::top_left ? "top_left" : "bottom_right"}});
    need(m.causal != Causal::at_offset || m.diagonal_offset, "Causal::at_offset needs diagonal_offset",
         {{"diagonal_offset", "absent"}});
    if (m.diagonal_offset) {
      need(m.diagonal_offset.shape(0) == p.batch, "diagonal_offset must have one entry per sequence",
           {{"diagonal_offset", m.diagonal_offset.shape(0)}, {"batch", p.batch}});
    }
    if (m.visible) {
      require<UnsupportedError>(m.visible.dtype() == DType::boolean, function, "mask.visible must be bool",
                                {{"visible", m.visible.dtype()}}, "a float mask is a bias: options.bias");
      broadcasts("visible", m.visible);
    }
    if (opt.bias) {
      const DType dtype = opt.bias.dtype();
      require<UnsupportedError>(p.f64 ? dtype == DType::f64 : is_f32_like(dtype), function,
                                p.f64 ? "bias must be f64 beside f64 q" : "bias must be f32, bf16 or f16",
                                {{"bias", dtype}},
                                dtype == DType::boolean ? "a boolean mask goes into options.mask.visible" : "");
      broadcasts("bias", opt.bias);
    }
  }

  void broadcasts(std::string_view name, const InputView<4>& view) const {
    check_data(function, name, view);
    const index_t full[4] = {p.batch, p.num_heads, p.seqlen_q, p.seqlen_kv};
    for (int axis = 0; axis < 4; ++axis) {
      need(view.shape(axis) == full[axis] || view.shape(axis) == 1, Rule(name, " must broadcast to [B, H, Sq, Skv]"),
           {{name, text_of(view)}, {"[B, H, Sq, Skv]", GotShape(full, 4)}});
    }
  }

  void per_head(std::string_view name, const InputView<1>& view) const {
    if (!view) return;
    check_float_dtype(function, name, view.dtype(), p.f64);
    check_data(function, name, view);
    need(view.shape(0) == p.num_heads, Rule(name, " must have one entry per query head"),
         {{name, view.shape(0)}, {"num_heads", p.num_heads}});
  }

  /// Whether a positive option is a normal number in the arithmetic type.
  bool held(double x) const { return p.f64 || (x >= double{kSmallest} && x <= double{kLargest}); }

  /// Distances from the diagonal must be exact in the arithmetic type, and their products with slopes finite.
  void alibi() const {
    if (!opt.alibi_slopes) return;
    const index_t most = index_t{1} << (p.f64 ? 53 : 24);
    double largest = 0;
    for (index_t b = 0; b < p.batch; ++b) {
      const Sequence s = sequence_of(p, b);
      if (s.seqlen_q == 0 || s.seqlen_kv == 0) continue;
      const bool near = s.diagonal >= -most && s.diagonal <= most && s.diagonal + s.seqlen_q - 1 <= most &&
                        s.seqlen_kv - 1 - s.diagonal <= most;
      need(near, "alibi_slopes need distances |i + offset - j| that the arithmetic counts exactly",
           {{"b", b},
            {"offset", s.diagonal},
            {"seqlen_q", s.seqlen_q},
            {"seqlen_kv", s.seqlen_kv},
            {"largest distance", most}});
      largest = std::max({largest, static_cast<double>(s.diagonal + s.seqlen_q - 1),
                          static_cast<double>(s.seqlen_kv - 1 - s.diagonal)});
    }
    for (index_t h = 0; h < p.num_heads; ++h) {
      const double slope = p.f64 ? opt.alibi_slopes.as<double>()(h) : double{opt.alibi_slopes.as<float>()(h)};
      const double bound = (p.f64 ? std::numeric_limits<double>::max() : double{kLargest}) / std::max(largest, 1.0);
      need(!std::isfinite(slope) || std::abs(slope) <= bound, "alibi_slopes must have finite products with distances",
           {{"h", h}, {"slope", slope}, {"distance", largest}});
    }
  }

  void scalars() {
    p.scale = opt.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.head_dim)));
    need(std::isfinite(p.scale), "scale must be finite", {{"scale", p.scale}});
    need(p.scale == 0 || held(std::abs(p.scale)), "a scale other than 0 must have a size that f32 arithmetic holds",
         {{"scale", p.scale}, {"smallest", double{kSmallest}}, {"largest", double{kLargest}}}, "f64 q takes any");
    if (opt.softcap) {
      need(std::isfinite(*opt.softcap) && *opt.softcap > 0, "softcap must be positive and finite",
           {{"softcap", *opt.softcap}}, "leave it unset to turn it off");
      need(held(*opt.softcap), "softcap must have a size that f32 arithmetic holds",
           {{"softcap", *opt.softcap}, {"smallest", double{kSmallest}}, {"largest", double{kLargest}}},
           "f64 q takes any");
    }
    const Dropout& dropout = opt.dropout;
    need(dropout.probability >= 0 && dropout.probability <= 1, "dropout probability must lie in [0, 1]",
         {{"probability", dropout.probability}});
    if (dropout.sequence_ids) {
      need(dropout.sequence_ids.shape(0) == p.batch, "sequence_ids must have one entry per sequence",
           {{"sequence_ids", dropout.sequence_ids.shape(0)}, {"batch", p.batch}});
      for (index_t b = 0; b < p.batch; ++b) {
        const index_t id = dropout.sequence_ids(b);
        need(id >= 0 && id >> 32 == 0, "sequence_ids must lie in [0, 2^32)", {{"b", b}, {"sequence_id", id}});
      }
    }
    if (dropout.probability > 0) {
      need(p.seqlen_q >> 32 == 0 && p.seqlen_kv >> 32 == 0 && p.batch >> 32 == 0,
           "dropout counts queries, keys and sequences in 32 bits",
           {{"batch", p.batch}, {"seqlen_q", p.seqlen_q}, {"seqlen_kv", p.seqlen_kv}});
    }
  }
};

}  // namespace

Problem check_problem(std::string_view function, const AttentionInput& input, const AttentionOptions& options) {
  Checker checker{function, input, options, {}};
  checker.p.options = &options;
  checker.inputs();
  checker.heads();
  checker.batch();
  checker.mask();
  checker.per_head("alibi_slopes", options.alibi_slopes);
  checker.per_head("sinks", options.sinks);
  checker.alibi();
  checker.scalars();
  return checker.p;
}

void check_tokens(std::string_view function, std::string_view name, const InputView<4>& view, index_t batch,
                  index_t tokens, index_t heads, index_t width, std::string_view shape_name, bool f64) {
  if (!view) return;
  check_dtype(function, name, view.dtype(), f64);
  const index_t wanted[4] = {batch, tokens, heads, width};
  require(std::equal(wanted, wanted + 4, view.shape().begin()), function, Rule(name, " must be ", shape_name),
          {{name, text_of(view)}, {shape_name, GotShape(wanted, 4)}});
  check_data(function, name, view);
  require(view.shape(3) == 1 || view.stride(3) == 1, function, "the last axis must be contiguous",
          {{"tensor", name}, {"stride", view.stride(3)}}, "copy it, or view it with the feature axis last");
}

void check_row_values(std::string_view function, std::string_view name, const InputView<3>& view,
                      const Problem& problem) {
  if (!view) return;
  check_float_dtype(function, name, view.dtype(), problem.f64);
  const index_t wanted[3] = {problem.packed ? 1 : problem.batch, problem.num_heads, problem.tokens_q};
  const char* form = problem.packed ? "[1, H, total_q]" : "[B, H, Sq]";
  require(std::equal(wanted, wanted + 3, view.shape().begin()), function, Rule(name, " must be ", form),
          {{name, text_of(view)}, {form, GotShape(wanted, 3)}});
  check_data(function, name, view);
}

void check_writable(std::string_view function, std::string_view name, const index_t* shape, const index_t* stride,
                    int rank) {
  if (std::count(shape, shape + rank, 0) > 0) return;  // no elements, so no two share an address
  for (int axis = 0; axis < rank; ++axis) {
    require(shape[axis] <= 1 || stride[axis] != 0, function, "an output must not be expanded",
            {{"tensor", name}, {"shape", GotShape(shape, rank)}, {"stride", GotShape(stride, rank)}});
  }
}

Sequence sequence_of(const Problem& problem, index_t b) {
  const Mask& mask = problem.options->mask;
  Sequence s;
  if (problem.packed) {
    const Packed& packed = problem.options->packed;
    s.q_begin = packed.cu_seqlens_q(b);
    s.kv_begin = packed.cu_seqlens_kv(b);
    s.padded_q = s.seqlen_q = packed.cu_seqlens_q(b + 1) - s.q_begin;
    s.padded_kv = s.seqlen_kv = packed.cu_seqlens_kv(b + 1) - s.kv_begin;
  } else {
    s.batch_index = b;
    s.padded_q = problem.seqlen_q;
    s.padded_kv = problem.seqlen_kv;
    s.seqlen_q = mask.seqlen_q ? mask.seqlen_q(b) : problem.seqlen_q;
    s.seqlen_kv = mask.seqlen_kv ? mask.seqlen_kv(b) : problem.seqlen_kv;
  }
  if (mask.diagonal_offset) {
    s.diagonal = mask.diagonal_offset(b);
  } else if (mask.causal != Causal::top_left) {
    s.diagonal = s.seqlen_kv - s.seqlen_q;
  }
  return s;
}

HeadGroups::HeadGroups(const Problem& problem) : heads({problem.num_heads}), begin({problem.num_kv_heads + 1}) {
  const auto& map = problem.options->kv_head_of;
  const index_t heads_per_kv = std::max<index_t>(problem.num_heads / problem.num_kv_heads, 1);
  const auto kv_head = [&](index_t h) { return map ? map(h) : h / heads_per_kv; };
  for (index_t h = 0; h < problem.num_heads; ++h) ++begin(kv_head(h) + 1);
  for (index_t g = 0; g < problem.num_kv_heads; ++g) begin(g + 1) += begin(g);
  Tensor<index_t, 1> next = begin.clone();
  for (index_t h = 0; h < problem.num_heads; ++h) heads(next(kv_head(h))++) = h;
}

}  // namespace multihead
