#include "attention/backward_checks.hpp"

#include <algorithm>
#include <string>

#include "core/require.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "attention_backward";

void check_per_head(const Problem& p, const char* name, const OutputView<1>& view, const char* primal, bool given) {
  if (!view) return;
  require(given, kName, Rule(name, " needs options.", primal), {{primal, "absent"}});
  const DType wanted = p.dtype();
  require<UnsupportedError>(view.dtype() == wanted, kName, Rule(name, " must be ", dtype_name(wanted)),
                            {{name, view.dtype()}});
  require(view.shape(0) == p.num_heads, kName, Rule(name, " must have one entry per query head"),
          {{name, view.shape(0)}, {"num_heads", p.num_heads}});
  check_data(kName, name, view);
  check_writable(kName, name, view.shape().data(), view.stride().data(), 1);
}

void check_bias_gradient(const Problem& p, const AttentionGradients& gradients) {
  const BroadcastOutput& dbias = gradients.dbias;
  if (!dbias) return;
  const BroadcastView& bias = p.options->bias;
  require(bool(bias), kName, "dbias needs options.bias", {{"bias", "absent"}});
  const DType wanted = p.dtype();
  require<UnsupportedError>(dbias.dtype() == wanted, kName, Rule("dbias must be ", dtype_name(wanted)),
                            {{"dbias", dbias.dtype()}});
  require(dbias.shape() == bias.shape(), kName, "dbias must have the shape of bias",
          {{"dbias", shape_text(dbias.shape().data(), 4)}, {"bias", shape_text(bias.shape().data(), 4)}});
  check_data(kName, "dbias", dbias);
  check_writable(kName, "dbias", dbias.shape().data(), dbias.stride().data(), 4);
}

/// Gradients must not overlap the inputs: they are written while the inputs are still read.
void check_overlap(const AttentionBackwardInput& input, const char* name, const void* data, bool present) {
  for (const auto& [input_name, view] :
       {std::pair{"q", &input.q}, {"k", &input.k}, {"v", &input.v}, {"out", &input.out}, {"dout", &input.dout}}) {
    const bool same = present && data == view->data() && std::count(view->shape().begin(), view->shape().end(), 0) == 0;
    require(!same, kName, Rule(name, " must not overlap the inputs"),
            {{name, std::string("the buffer of ") + input_name}});
  }
}

}  // namespace

Problem check_backward(const AttentionBackwardInput& input, const AttentionGradients& gradients,
                       const AttentionOptions& options) {
  require<UnsupportedError>(!options.page_table, kName, "paged keys have no gradients", {{"page_table", "given"}},
                            "bring them into one tensor first");
  const Problem p = check_problem(kName, {input.q, input.k, input.v}, options);
  require(input.out && input.dout && input.row_max && input.row_sum, kName,
          "out, dout, row_max and row_sum must be given",
          {{"out", input.out ? "given" : "absent"},
           {"dout", input.dout ? "given" : "absent"},
           {"row_max", input.row_max ? "given" : "absent"},
           {"row_sum", input.row_sum ? "given" : "absent"}});
  const index_t batch = p.packed ? 1 : p.batch;
  const char* q_form = p.packed ? "[1, total_q, H, D]" : "[B, Sq, H, D]";
  const char* k_form = p.packed ? "[1, total_kv, Hkv, D]" : "[B, Skv, Hkv, D]";
  const char* v_form = p.packed ? "[1, total_kv, Hkv, Dv]" : "[B, Skv, Hkv, Dv]";
  const char* out_form = p.packed ? "[1, total_q, H, Dv]" : "[B, Sq, H, Dv]";
  check_tokens(kName, "out", input.out, batch, p.tokens_q, p.num_heads, p.head_dim_v, out_form, p.f64);
  check_tokens(kName, "dout", input.dout, batch, p.tokens_q, p.num_heads, p.head_dim_v, out_form, p.f64);
  check_row_values(kName, "row_max", input.row_max, p);
  check_row_values(kName, "row_sum", input.row_sum, p);
  check_row_values(kName, "dlse", input.dlse, p);
  check_tokens(kName, "dq", gradients.dq, batch, p.tokens_q, p.num_heads, p.head_dim, q_form, p.f64);
  check_tokens(kName, "dk", gradients.dk, batch, p.tokens_kv, p.num_kv_heads, p.head_dim, k_form, p.f64);
  check_tokens(kName, "dv", gradients.dv, batch, p.tokens_kv, p.num_kv_heads, p.head_dim_v, v_form, p.f64);
  for (const auto& [name, view] : {std::pair{"dq", &gradients.dq}, {"dk", &gradients.dk}, {"dv", &gradients.dv}}) {
    check_writable(kName, name, view->shape().data(), view->stride().data(), 4);
    check_overlap(input, name, view->data(), bool(*view));
  }
  check_overlap(input, "dbias", gradients.dbias.data(), bool(gradients.dbias));
  check_per_head(p, "dsinks", gradients.dsinks, "sinks", bool(options.sinks));
  check_per_head(p, "dslopes", gradients.dslopes, "alibi_slopes", bool(options.alibi_slopes));
  check_bias_gradient(p, gradients);
  return p;
}

}  // namespace multihead
