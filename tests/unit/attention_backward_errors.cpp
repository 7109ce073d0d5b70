// Every error text of attention_backward, whole; and nothing written by then.
#include "tests/support/spoilt_call.hpp"

namespace multihead::test {
namespace {

TEST_F(AttentionErrors, OfTheInputsOfBackward) {
  refuse_backward([&] { backward.out = {}; },
                  "ShapeError attention_backward: out, dout, row_max and row_sum must be given, got out=absent, "
                  "dout=given, row_max=given, row_sum=given");
  refuse_backward([&] { backward.row_max = {}; },
                  "ShapeError attention_backward: out, dout, row_max and row_sum must be given, got out=given, "
                  "dout=given, row_max=absent, row_sum=given");
  refuse_backward(
      [&] { set_extent(backward.out, 3, 8); },
      "ShapeError attention_backward: out must be [B, Sq, H, Dv], got out=[2, 3, 4, 8], [B, Sq, H, Dv]=[2, 3, 4, 6]");
  refuse_backward([&] { set_dtype(backward.dout, DType::f64); },
                  "UnsupportedError attention_backward: q, k, v and out must be f32, bf16 or f16, or all f64, got "
                  "q=f32-like, dout=f64");
  refuse_backward([&] { set_stride(backward.dout, 3, 2); },
                  "ShapeError attention_backward: the last axis must be contiguous, got tensor=dout, stride=2; copy "
                  "it, or view it with the feature axis last");
  refuse_backward([&] { set_dtype(backward.row_sum, DType::bf16); },
                  "UnsupportedError attention_backward: row_sum must be f32, got row_sum=bf16");
  refuse_backward(
      [&] { set_extent(backward.row_max, 2, 4); },
      "ShapeError attention_backward: row_max must be [B, H, Sq], got row_max=[2, 4, 4], [B, H, Sq]=[2, 4, 3]");
  refuse_backward([&] { set_extent(backward.dlse, 1, 2); },
                  "ShapeError attention_backward: dlse must be [B, H, Sq], got dlse=[2, 2, 3], [B, H, Sq]=[2, 4, 3]");
  refuse_backward(
      [&] {
        options.page_table = {pages.data(), {2, 2}};
      },
      "UnsupportedError attention_backward: paged keys have no gradients, got page_table=given; bring them into one "
      "tensor first");
  refuse_backward([&] { set_extent(backward.k, 1, 4); },
                  "ShapeError attention_backward: k and v must agree in batch, seqlen_kv and num_kv_heads, got k=[2, "
                  "4, 2, 8], v=[2, 5, 2, 6]");
  refuse_backward([&] { options.softcap = 0.0; },
                  "ShapeError attention_backward: softcap must be positive and finite, got softcap=0; leave it unset "
                  "to turn it off");
}

TEST_F(AttentionErrors, OfGradients) {
  refuse_backward(
      [&] { set_extent(gradients.dq, 3, 7); },
      "ShapeError attention_backward: dq must be [B, Sq, H, D], got dq=[2, 3, 4, 7], [B, Sq, H, D]=[2, 3, 4, 8]");
  refuse_backward(
      [&] { set_extent(gradients.dk, 2, 4); },
      "ShapeError attention_backward: dk must be [B, Skv, Hkv, D], got dk=[2, 5, 4, 8], [B, Skv, Hkv, D]=[2, 5, 2, 8]");
  refuse_backward([&] { set_dtype(gradients.dv, DType::f64); },
                  "UnsupportedError attention_backward: q, k, v and out must be f32, bf16 or f16, or all f64, got "
                  "q=f32-like, dv=f64");
  refuse_backward([&] { set_stride(gradients.dk, 3, 0); },
                  "ShapeError attention_backward: the last axis must be contiguous, got tensor=dk, stride=0; copy it, "
                  "or view it with the feature axis last");
  refuse_backward([&] { set_stride(gradients.dk, 1, 0); },
                  "ShapeError attention_backward: an output must not be expanded, got tensor=dk, shape=[2, 5, 2, 8], "
                  "stride=[80, 0, 8, 1]");
  refuse_backward([&] { options.bias = {}; },
                  "ShapeError attention_backward: dbias needs options.bias, got bias=absent");
  refuse_backward(
      [&] { set_extent(gradients.dbias, 0, 1); },
      "ShapeError attention_backward: dbias must have the shape of bias, got dbias=[1, 4, 3, 5], bias=[2, 4, 3, 5]");
  refuse_backward([&] { set_dtype(gradients.dbias, DType::f16); },
                  "UnsupportedError attention_backward: dbias must be f32, got dbias=f16");
  refuse_backward([&] { set_stride(gradients.dbias, 3, 0); },
                  "ShapeError attention_backward: an output must not be expanded, got tensor=dbias, shape=[2, 4, 3, "
                  "5], stride=[60, 15, 5, 0]");
  refuse_backward([&] { options.sinks = {}; },
                  "ShapeError attention_backward: dsinks needs options.sinks, got sinks=absent");
  refuse_backward([&] { options.alibi_slopes = {}; },
                  "ShapeError attention_backward: dslopes needs options.alibi_slopes, got alibi_slopes=absent");
  refuse_backward([&] { set_extent(gradients.dsinks, 0, 2); },
                  "ShapeError attention_backward: dsinks must have one entry per query head, got dsinks=2, num_heads=4");
  refuse_backward([&] { set_dtype(gradients.dslopes, DType::bf16); },
                  "UnsupportedError attention_backward: dslopes must be f32, got dslopes=bf16");
  refuse_backward(
      [&] { set_stride(gradients.dslopes, 0, 0); },
      "ShapeError attention_backward: an output must not be expanded, got tensor=dslopes, shape=[4], stride=[0]");
}

}  // namespace
}  // namespace multihead::test
