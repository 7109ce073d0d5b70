// Every error text of attention_forward, whole; and nothing written by then.
#include <cmath>
#include <limits>

#include "tests/support/spoilt_call.hpp"

namespace multihead::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_F(AttentionErrors, AValidCallIsNotRefused) {
  attention_forward(input, output, options);
  attention_backward(backward, gradients, options);
}

TEST_F(AttentionErrors, Inputs) {
  refuse([&] { input.q = {}; },
         "ShapeError attention_forward: q, k and v must be given, got q=absent, k=given, v=given");
  refuse([&] { set_dtype(input.k, DType::f64); },
         "UnsupportedError attention_forward: q, k, v and out must be f32, bf16 or f16, or all f64, got q=f32-like, "
         "k=f64");
  refuse([&] { set_dtype(input.q, DType::f64); },
         "UnsupportedError attention_forward: q, k, v and out must be f32, bf16 or f16, or all f64, got q=f64, k=f32");
  refuse([&] { set_dtype(input.v, DType::boolean); },
         "UnsupportedError attention_forward: q, k, v and out must be f32, bf16 or f16, or all f64, got q=f32-like, "
         "v=bool");
  refuse([&] { set_dtype(input.q, DType::i64); },
         "UnsupportedError attention_forward: q, k, v and out must be f32, bf16 or f16, or all f64, got q=f32-like, "
         "q=i64");
  refuse([&] { set_extent(input.q, 1, -1); },
         "ShapeError attention_forward: extents must not be negative, got q=[2, -1, 4, 8]");
  refuse([&] { set_extent(input.k, 3, 7); },
         "ShapeError attention_forward: q and k must have the same head_dim, got q=[2, 3, 4, 8], k=[2, 5, 2, 7]");
  refuse([&] { set_extent(input.v, 1, 4); },
         "ShapeError attention_forward: k and v must agree in batch, seqlen_kv and num_kv_heads, got k=[2, 5, 2, 8], "
         "v=[2, 4, 2, 6]");
  refuse([&] { set_extent(input.v, 2, 4); },
         "ShapeError attention_forward: k and v must agree in batch, seqlen_kv and num_kv_heads, got k=[2, 5, 2, 8], "
         "v=[2, 5, 4, 6]");
  refuse([&] { set_extent(input.q, 0, 3); },
         "ShapeError attention_forward: q and k must have the same batch, got q=[3, 3, 4, 8], k=[2, 5, 2, 8]");
  refuse([&] { set_extent(input.q, 2, 0); },
         "ShapeError attention_forward: num_heads must be at least 1, got num_heads=0");
  refuse([&] { set_extent(input.k, 2, 0), set_extent(input.v, 2, 0); },
         "ShapeError attention_forward: num_kv_heads must be at least 1, got num_heads=4, num_kv_heads=0");
  refuse([&] { set_extent(input.q, 3, 0), set_extent(input.k, 3, 0); },
         "ShapeError attention_forward: head_dim must be at least 1, got head_dim=0");
  refuse([&] { set_extent(input.v, 3, 0); },
         "ShapeError attention_forward: head_dim_v must be at least 1, got head_dim_v=0");
  refuse([&] { set_stride(input.q, 3, 2); },
         "ShapeError attention_forward: the last axis must be contiguous, got tensor=q, stride=2; copy it, or view it "
         "with the feature axis last");
  refuse([&] { set_stride(input.v, 3, 0); },
         "ShapeError attention_forward: the last axis must be contiguous, got tensor=v, stride=0; copy it, or view it "
         "with the feature axis last");
  refuse([&] { set_extent(input.q, 2, 5); },
         "ShapeError attention_forward: num_heads must be a multiple of num_kv_heads, got num_heads=5, num_kv_heads=2; "
         "options.kv_head_of gives any other grouping");
}

TEST_F(AttentionErrors, NullPointers) {
  const std::string hint = "; an optional view that is not wanted is left unset";
  const auto text = [&](const std::string& name, const std::string& shape) {
    return "ShapeError attention_forward: " + name + " must not be a null pointer, got " + name + "=" + shape + hint;
  };
  refuse([&] { set_data(input.q, nullptr); }, text("q", "[2, 3, 4, 8]"));
  refuse([&] { set_data(input.k, nullptr); }, text("k", "[2, 5, 2, 8]"));
  refuse([&] { set_data(input.v, nullptr); }, text("v", "[2, 5, 2, 6]"));
  refuse([&] { set_data(output.out, nullptr); }, text("out", "[2, 3, 4, 6]"));
  refuse([&] { set_data(output.probs, nullptr); }, text("probs", "[2, 4, 3, 5]"));
  refuse([&] { set_data(output.lse, nullptr); }, text("lse", "[2, 4, 3]"));
  refuse([&] { set_data(output.row_max, nullptr); }, text("row_max", "[2, 4, 3]"));
  refuse([&] { set_data(options.bias, nullptr); }, text("bias", "[2, 4, 3, 5]"));
  refuse([&] { set_data(options.mask.visible, nullptr); }, text("visible", "[2, 4, 3, 5]"));
  refuse([&] { set_data(options.sinks, nullptr); }, text("sinks", "[4]"));
  refuse([&] { set_data(options.alibi_slopes, nullptr); }, text("alibi_slopes", "[4]"));
}

TEST_F(AttentionErrors, HeadMap) {
  refuse([&] { options.kv_head_of = view_of(two); },
         "ShapeError attention_forward: kv_head_of must have one entry per query head, got kv_head_of=2, num_heads=4");
  refuse(
      [&] {
        options.kv_head_of = view_of(extra = {0, 1, 2, 0});
      },
      "ShapeError attention_forward: kv_head_of must name kv heads in [0, num_kv_heads), got h=2, kv_head_of=2, "
      "num_kv_heads=2");
  refuse(
      [&] {
        options.kv_head_of = view_of(extra = {0, -1, 1, 0});
      },
      "ShapeError attention_forward: kv_head_of must name kv heads in [0, num_kv_heads), got h=1, kv_head_of=-1, "
      "num_kv_heads=2");
}

TEST_F(AttentionErrors, Outputs) {
  refuse([&] { output.out = {}; }, "ShapeError attention_forward: out must be given, got out=absent");
  refuse([&] { set_dtype(output.out, DType::f64); },
         "UnsupportedError attention_forward: q, k, v and out must be f32, bf16 or f16, or all f64, got q=f32-like, "
         "out=f64");
  refuse([&] { set_dtype(output.out, DType::boolean); },
         "UnsupportedError attention_forward: q, k, v and out must be f32, bf16 or f16, or all f64, got q=f32-like, "
         "out=bool");
  refuse([&] { set_extent(output.out, 3, 8); },
         "ShapeError attention_forward: out must be [B, Sq, H, Dv], got out=[2, 3, 4, 8], [B, Sq, H, Dv]=[2, 3, 4, 6]");
  refuse([&] { set_stride(output.out, 3, 2); },
         "ShapeError attention_forward: the last axis must be contiguous, got tensor=out, stride=2; copy it, or view "
         "it with the feature axis last");
  refuse([&] { set_stride(output.out, 1, 0); },
         "ShapeError attention_forward: an output must not be expanded, got tensor=out, shape=[2, 3, 4, 6], "
         "stride=[72, 0, 6, 1]");
  refuse([&] { set_data(output.out, const_cast<void*>(input.q.data())); },
         "ShapeError attention_forward: out must not overlap the input, got out=the buffer of q, k or v");
  refuse([&] { set_dtype(output.row_max, DType::f64); },
         "UnsupportedError attention_forward: row_max must be f32, got row_max=f64");
  refuse([&] { set_extent(output.row_sum, 2, 4); },
         "ShapeError attention_forward: row_sum must be [B, H, Sq], got row_sum=[2, 4, 4], [B, H, Sq]=[2, 4, 3]");
  refuse([&] { set_stride(output.lse, 1, 0); },
         "ShapeError attention_forward: an output must not be expanded, got tensor=lse, shape=[2, 4, 3], stride=[12, "
         "0, 1]");
  refuse([&] { set_dtype(output.probs, DType::bf16); },
         "UnsupportedError attention_forward: probs must be f32, got probs=bf16");
  refuse([&] { set_extent(output.probs, 1, 3); },
         "ShapeError attention_forward: probs must be [B, heads, rows, Skv] of the selection, got probs=[2, 3, 3, 5], "
         "wanted=[2, 4, 3, 5]");
  refuse([&] { set_stride(output.probs, 3, 2); },
         "ShapeError attention_forward: the last axis must be contiguous, got tensor=probs, stride=2");
  refuse([&] { set_stride(output.probs, 0, 0); },
         "ShapeError attention_forward: an output must not be expanded, got tensor=probs, shape=[2, 4, 3, 5], "
         "stride=[0, 15, 5, 1]");
  refuse(
      [&] {
        options.probs.heads = view_of(extra = {0, 4});
      },
      "ShapeError attention_forward: probs.heads must lie in [0, extent), got entry=1, value=4, extent=4");
  refuse(
      [&] {
        options.probs.heads = view_of(extra = {1, 1});
      },
      "ShapeError attention_forward: probs.heads must be distinct, got entry=1, value=1");
  refuse(
      [&] {
        options.probs.rows = view_of(extra = {0, -2});
      },
      "ShapeError attention_forward: probs.rows must lie in [0, extent), got entry=1, value=-2, extent=3");
  refuse([&] { options.probs.rows = view_of(two); },
         "ShapeError attention_forward: probs must be [B, heads, rows, Skv] of the selection, got probs=[2, 4, 3, 5], "
         "wanted=[2, 4, 2, 5]");
}

TEST_F(AttentionErrors, Masks) {
  refuse(
      [&] { options.mask.window_left = -1; },
      "ShapeError attention_forward: window_left must not be negative, got window_left=-1; leave it unset to see all");
  refuse([&] { options.mask.window_right = -7; },
         "ShapeError attention_forward: window_right must not be negative, got window_right=-7; leave it unset to see "
         "all");
  refuse(
      [&] {
        options.mask.causal = Causal::top_left;
        options.mask.diagonal_offset = view_of(two);
      },
      "ShapeError attention_forward: diagonal_offset goes with Causal::at_offset or Causal::off, got causal=top_left");
  refuse(
      [&] {
        options.mask.causal = Causal::bottom_right;
        options.mask.diagonal_offset = view_of(two);
      },
      "ShapeError attention_forward: diagonal_offset goes with Causal::at_offset or Causal::off, got "
      "causal=bottom_right");
  refuse([&] { options.mask.causal = Causal::at_offset; },
         "ShapeError attention_forward: Causal::at_offset needs diagonal_offset, got diagonal_offset=absent");
  refuse(
      [&] { options.mask.diagonal_offset = view_of(one); },
      "ShapeError attention_forward: diagonal_offset must have one entry per sequence, got diagonal_offset=1, batch=2");
  refuse([&] { options.mask.seqlen_q = view_of(one); },
         "ShapeError attention_forward: seqlen_q must have one entry per sequence, got seqlen_q=1, batch=2");
  refuse([&] { options.mask.seqlen_kv = view_of(minus); },
         "ShapeError attention_forward: seqlen_kv must lie in [0, extent], got b=1, seqlen_kv=-1, extent=5");
  refuse(
      [&] {
        options.mask.seqlen_q = view_of(extra = {3, 4});
      },
      "ShapeError attention_forward: seqlen_q must lie in [0, extent], got b=1, seqlen_q=4, extent=3");
  refuse([&] { set_dtype(options.mask.visible, DType::f32); },
         "UnsupportedError attention_forward: mask.visible must be bool, got visible=f32; a float mask is a bias: "
         "options.bias");
  refuse([&] { set_extent(options.mask.visible, 3, 4); },
         "ShapeError attention_forward: visible must broadcast to [B, H, Sq, Skv], got visible=[2, 4, 3, 4], [B, H, "
         "Sq, Skv]=[2, 4, 3, 5]");
  refuse([&] { set_dtype(options.bias, DType::boolean); },
         "UnsupportedError attention_forward: bias must be f32, bf16 or f16, got bias=bool; a boolean mask goes into "
         "options.mask.visible");
  refuse([&] { set_dtype(options.bias, DType::f64); },
         "UnsupportedError attention_forward: bias must be f32, bf16 or f16, got bias=f64");
  refuse([&] { set_extent(options.bias, 1, 2); },
         "ShapeError attention_forward: bias must broadcast to [B, H, Sq, Skv], got bias=[2, 2, 3, 5], [B, H, Sq, "
         "Skv]=[2, 4, 3, 5]");
}

TEST_F(AttentionErrors, Scalars) {
  refuse([&] { options.scale = kNan; }, "ShapeError attention_forward: scale must be finite, got scale=nan");
  refuse([&] { options.scale = std::numeric_limits<double>::infinity(); },
         "ShapeError attention_forward: scale must be finite, got scale=inf");
  for (const double scale : {1e39, -1e39, 1e-39}) {
    refuse([&] { options.scale = scale; },
           "ShapeError attention_forward: a scale other than 0 must have a size that f32 arithmetic holds, got scale=" +
               std::string(scale == 1e39    ? "1e+39"
                           : scale == 1e-39 ? "1e-39"
                                            : "-1e+39") +
               ", smallest=1.1754943508222875e-38, largest=3.4028234663852886e+38; f64 q takes any");
  }
  for (const double softcap : {1e39, 1e-300}) {
    refuse([&] { options.softcap = softcap; },
           "ShapeError attention_forward: softcap must have a size that f32 arithmetic holds, got softcap=" +
               std::string(softcap == 1e39 ? "1e+39" : "1e-300") +
               ", smallest=1.1754943508222875e-38, largest=3.4028234663852886e+38; f64 q takes any");
  }
  refuse([&] { options.softcap = 0.0; },
         "ShapeError attention_forward: softcap must be positive and finite, got softcap=0; leave it unset to turn it "
         "off");
  refuse([&] { options.softcap = -1.5; },
         "ShapeError attention_forward: softcap must be positive and finite, got softcap=-1.5; leave it unset to turn "
         "it off");
  refuse([&] { options.softcap = kNan; },
         "ShapeError attention_forward: softcap must be positive and finite, got softcap=nan; leave it unset to turn "
         "it off");
  refuse([&] { options.dropout.probability = 1.25; },
         "ShapeError attention_forward: dropout probability must lie in [0, 1], got probability=1.25");
  refuse([&] { options.dropout.probability = kNan; },
         "ShapeError attention_forward: dropout probability must lie in [0, 1], got probability=nan");
  refuse([&] { options.dropout.sequence_ids = view_of(one); },
         "ShapeError attention_forward: sequence_ids must have one entry per sequence, got sequence_ids=1, batch=2");
  refuse([&] { options.dropout.sequence_ids = view_of(minus); },
         "ShapeError attention_forward: sequence_ids must lie in [0, 2^32), got b=1, sequence_id=-1");
  refuse(
      [&] {
        options.dropout.sequence_ids = view_of(extra = {0, index_t{1} << 32});
      },
      "ShapeError attention_forward: sequence_ids must lie in [0, 2^32), got b=1, sequence_id=4294967296");
  refuse([&] { set_dtype(options.alibi_slopes, DType::f64); },
         "UnsupportedError attention_forward: alibi_slopes must be f32, got alibi_slopes=f64");
  refuse(
      [&] { set_extent(options.alibi_slopes, 0, 3); },
      "ShapeError attention_forward: alibi_slopes must have one entry per query head, got alibi_slopes=3, num_heads=4");
  refuse(
      [&] {
        options.mask.causal = Causal::at_offset;
        options.mask.diagonal_offset = view_of(extra = {0, index_t{1} << 61});
      },
      "ShapeError attention_forward: alibi_slopes need distances |i + offset - j| that the arithmetic counts exactly, "
      "got b=1, offset=2305843009213693952, seqlen_q=3, seqlen_kv=5, largest distance=16777216");
  const std::vector<float> steep{1, -0x1p125f, 0x1p127f, 1};
  refuse([&] { options.alibi_slopes = TensorView<const float, 1>(steep.data(), {4}); },
         "ShapeError attention_forward: alibi_slopes must have finite products with distances, got h=2, "
         "slope=1.7014118346046923e+38, distance=4");
  refuse([&] { set_dtype(options.sinks, DType::f16); },
         "UnsupportedError attention_forward: sinks must be f32, got sinks=f16");
  refuse([&] { set_extent(options.sinks, 0, 2); },
         "ShapeError attention_forward: sinks must have one entry per query head, got sinks=2, num_heads=4");
}

TEST_F(AttentionErrors, Packed) {
  refuse(
      [&] {
        pack();
        options.packed.cu_seqlens_kv = {};
      },
      "ShapeError attention_forward: cu_seqlens_q and cu_seqlens_kv go together, got cu_seqlens_q=given, "
      "cu_seqlens_kv=absent");
  refuse(
      [&] {
        pack();
        options.mask.seqlen_kv = view_of(two);
      },
      "ShapeError attention_forward: packed sequences and seqlen_q or seqlen_kv exclude each other, got "
      "seqlen_q=absent, seqlen_kv=given");
  refuse(
      [&] {
        pack();
        options.page_table = {pages.data(), {2, 2}};
      },
      "ShapeError attention_forward: packed sequences and page_table exclude each other, got page_table=given");
  refuse(
      [&] {
        pack();
        set_extent(input.q, 0, 2), set_extent(input.k, 0, 2), set_extent(input.v, 0, 2);
      },
      "ShapeError attention_forward: packed q, k and v must have batch 1, got q=[2, 3, 4, 8], k=[2, 5, 2, 8]");
  refuse(
      [&] {
        pack();
        cu_q = {1, 2, 3};
      },
      "ShapeError attention_forward: cu_seqlens must start with 0, got offsets=cu_seqlens_q, size=3, first=1");
  refuse(
      [&] {
        pack();
        options.packed.cu_seqlens_q = {cu_q.data(), {0}};
      },
      "ShapeError attention_forward: cu_seqlens must start with 0, got offsets=cu_seqlens_q, size=0, first=-1");
  refuse(
      [&] {
        pack();
        cu_kv = {0, 6, 5};
      },
      "ShapeError attention_forward: cu_seqlens must not decrease, got offsets=cu_seqlens_kv, b=1, begin=6, end=5");
  refuse(
      [&] {
        pack();
        cu_q = {0, 1, 2};
      },
      "ShapeError attention_forward: the last offset must equal the number of tokens, got offsets=cu_seqlens_q, "
      "last=2, tokens=3");
  refuse(
      [&] {
        pack();
        cu_q = {0, 2, 4};
      },
      "ShapeError attention_forward: the last offset must equal the number of tokens, got offsets=cu_seqlens_q, "
      "last=4, tokens=3");
  refuse(
      [&] {
        pack();
        options.packed.cu_seqlens_q = {cu_q.data(), {2}};
        cu_q = {0, 3};
        options.packed.cu_seqlens_q = view_of(cu_q);
      },
      "ShapeError attention_forward: cu_seqlens_q and cu_seqlens_kv must have the same size, got cu_seqlens_q=2, "
      "cu_seqlens_kv=3");
  refuse(
      [&] {
        pack();
        set_extent(output.out, 0, 2);
      },
      "ShapeError attention_forward: out must be [1, total_q, H, Dv], got out=[2, 3, 4, 6], [1, total_q, H, Dv]=[1, 3, "
      "4, 6]");
}

TEST_F(AttentionErrors, Pages) {
  refuse(
      [&] {
        page();
        options.mask.seqlen_kv = {};
      },
      "ShapeError attention_forward: page_table needs mask.seqlen_kv, got seqlen_kv=absent");
  refuse(
      [&] {
        page();
        lengths = {7, 11};
      },
      "ShapeError attention_forward: seqlen_kv must lie in [0, extent], got b=1, seqlen_kv=11, extent=10");
  refuse(
      [&] {
        page();
        pages = {0, 2, 1, 0};
      },
      "ShapeError attention_forward: page_table must name pages in [0, num_pages), got b=0, entry=1, page=2, "
      "num_pages=2");
  refuse(
      [&] {
        page();
        options.page_table = {pages.data(), {1, 4}};
      },
      "ShapeError attention_forward: page_table must have one row per sequence, got page_table=1, batch=2");
  refuse(
      [&] {
        page();
        pages = {-1, 0, 1, 0};
      },
      "ShapeError attention_forward: page_table must name pages in [0, num_pages), got b=0, entry=0, page=-1, "
      "num_pages=2");
}

}  // namespace
}  // namespace multihead::test
