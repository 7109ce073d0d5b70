#include "attention/forward_checks.hpp"

#include <algorithm>
#include <vector>

#include "core/require.hpp"

namespace multihead {
namespace {

constexpr const char* kName = "attention_forward";

void check_selection(const char* name, const TensorView<const index_t, 1>& chosen, index_t count) {
  if (!chosen) return;
  std::vector<bool> seen(static_cast<std::size_t>(count));
  for (index_t n = 0; n < chosen.shape(0); ++n) {
    const index_t index = chosen(n);
    require(index >= 0 && index < count, kName, Rule("probs.", name, " must lie in [0, extent)"),
            {{"entry", n}, {"value", index}, {"extent", count}});
    require(!seen[static_cast<std::size_t>(index)], kName, Rule("probs.", name, " must be distinct"),
            {{"entry", n}, {"value", index}});
    seen[static_cast<std::size_t>(index)] = true;
  }
}

void check_outputs(const Problem& p, const AttentionInput& input, const AttentionOutput& output) {
  require(bool(output.out), kName, "out must be given", {{"out", "absent"}});
  const index_t batch = p.packed ? 1 : p.batch;
  check_tokens(kName, "out", output.out, batch, p.tokens_q, p.num_heads, p.head_dim_v,
               p.packed ? "[1, total_q, H, Dv]" : "[B, Sq, H, Dv]", p.f64);
  check_writable(kName, "out", output.out.shape().data(), output.out.stride().data(), 4);
  check_row_values(kName, "row_max", output.row_max, p);
  check_row_values(kName, "row_sum", output.row_sum, p);
  check_row_values(kName, "lse", output.lse, p);
  for (const auto& [name, view] :
       {std::pair{"row_max", &output.row_max}, {"row_sum", &output.row_sum}, {"lse", &output.lse}}) {
    check_writable(kName, name, view->shape().data(), view->stride().data(), 3);
  }
  for (const InputView<4>* in : {&input.q, &input.k, &input.v}) {
    const bool same = output.out.data() == in->data() && p.batch > 0 && p.tokens_q > 0 && p.tokens_kv > 0;
    require(!same, kName, "out must not overlap the input", {{"out", "the buffer of q, k or v"}});
  }
  const ProbsSelection& selection = p.options->probs;
  check_selection("heads", selection.heads, p.num_heads);
  check_selection("rows", selection.rows, p.seqlen_q);
  if (!output.probs) return;
  const DType wanted = p.dtype();
  require<UnsupportedError>(output.probs.dtype() == wanted, kName, Rule("probs must be ", dtype_name(wanted)),
                            {{"probs", output.probs.dtype()}});
  const index_t shape[4] = {p.batch, selection.heads ? selection.heads.shape(0) : p.num_heads,
                            selection.rows ? selection.rows.shape(0) : p.seqlen_q, p.seqlen_kv};
  require(std::equal(shape, shape + 4, output.probs.shape().begin()), kName,
          "probs must be [B, heads, rows, Skv] of the selection",
          {{"probs", GotShape(output.probs.shape().data(), 4)}, {"wanted", GotShape(shape, 4)}});
  check_data(kName, "probs", output.probs);
  require(output.probs.shape(3) == 1 || output.probs.stride(3) == 1, kName, "the last axis must be contiguous",
          {{"tensor", "probs"}, {"stride", output.probs.stride(3)}});
  check_writable(kName, "probs", output.probs.shape().data(), output.probs.stride().data(), 4);
}

}  // namespace

Problem check_forward(const AttentionInput& input, const AttentionOutput& output, const AttentionOptions& options) {
  const Problem problem = check_problem(kName, input, options);
  check_outputs(problem, input, output);
  return problem;
}

}  // namespace multihead
