// Random Attention nodes, every option with every other, against the standard's text in plain loops.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <sstream>

#include "onnx/definition.hpp"
#include "reference/rounding.hpp"
#include "support/random.hpp"

namespace multihead {
namespace {

using test::OnnxDefinition;
using test::Random;

constexpr std::array kFloats = {OnnxType::f32, OnnxType::f16, OnnxType::bf16, OnnxType::f64};
constexpr std::array kMasks = {OnnxType::boolean, OnnxType::f32, OnnxType::f16, OnnxType::bf16, OnnxType::f64,
                               OnnxType::i8,      OnnxType::i64, OnnxType::u16, OnnxType::i32};

// value(n) in every element, rounded to the tensor's type.
template <class Value>
OnnxTensor filled(OnnxType type, std::vector<index_t> shape, Value value) {
  OnnxTensor tensor(type, std::move(shape));
  visit_onnx_type(type, [&](auto element) {
    using T = decltype(element);
    for (index_t n = 0; n < tensor.size(); ++n) {
      tensor.data<T>()[n] = output_value<T>(static_cast<double>(value()));
    }
  });
  return tensor;
}

// A node with its tensors, drawn from a seed.
struct Node {
  OnnxTensor q, k, v, mask, past_key, past_value, nonpad;
  OnnxAttentionOptions options;

  explicit Node(std::uint64_t seed) : random(seed) {
    static constexpr std::array<index_t, 7> kWidths = {1, 2, 3, 8, 17, 33, 64};
    const index_t batch = random.chance(0.05) ? 0 : random.integer(1, 3), hkv = random.integer(1, 3);
    const index_t hq = hkv * random.integer(1, 3),
                  sq = random.chance(0.1) ? random.integer(17, 40) : random.integer(0, 6);
    const index_t now = random.chance(0.1) ? random.integer(17, 70) : random.integer(0, 7);
    const index_t d = random.pick(kWidths), dv = random.chance(0.5) ? d : random.pick(kWidths);
    const OnnxType t1 = random.pick(kFloats), t2 = random.chance(0.5) ? t1 : random.pick(kFloats);
    options.opset = random.integer(23, 26);
    const bool rank4 = random.chance(0.5);
    if (!rank4 || (options.opset < 25 && random.chance(0.5))) {
      options.q_num_heads = hq;
      options.kv_num_heads = hkv;
    }
    const bool with_past = random.chance(0.4), with_nonpad = !with_past && options.opset >= 24 && random.chance(0.5);
    const index_t past = with_past ? random.integer(0, 5) : 0, total = past + now;
    const double centre = random.chance(0.3) ? 3 : 0;
    const auto tensor = [&](OnnxType type, index_t heads, index_t seqlen, index_t width, bool heads_first) {
      return filled(type,
                    heads_first ? std::vector<index_t>{batch, heads, seqlen, width}
                                : std::vector<index_t>{batch, seqlen, heads * width},
                    [&] { return centre + random.uniform(); });
    };
    q = tensor(t1, hq, sq, d, rank4);
    k = tensor(t1, hkv, now, d, rank4);
    v = tensor(t2, hkv, now, dv, rank4);
    if (with_past) past_key = tensor(t1, hkv, past, d, true);
    if (with_past) past_value = tensor(t2, hkv, past, dv, true);
    options.present_key = options.present_value = !with_nonpad && random.chance(0.5);
    index_t longest = 0;
    if (with_nonpad) {
      nonpad = filled(OnnxType::i64, {batch}, [&] { return random.integer(0, total); });
      for (index_t b = 0; b < batch; ++b) longest = std::max(longest, nonpad.data<index_t>()[b]);
    }
    if (random.chance(0.7)) draw_mask({batch, hq, sq, total}, longest);
    draw_options();
  }

  void draw_mask(std::array<index_t, 4> full, index_t longest) {
    const OnnxType type = random.pick(kMasks);
    const index_t rank = random.integer(0, 4);
    std::vector<index_t> shape;
    for (index_t axis = 4 - rank; axis < 4; ++axis) shape.push_back(random.chance(0.3) ? 1 : full[axis]);
    if (rank > 0 && options.opset >= 24) {  // the last axis may be short
      shape.back() = random.chance(0.5) ? full[3] : random.integer(longest, full[3]);
    }
    const bool infinite = type == OnnxType::f32 || type == OnnxType::f64 || type == OnnxType::f16;
    const double low = type == OnnxType::u16 || type == OnnxType::boolean ? 0 : -3;
    const double visible = random.uniform(0.2, 1);
    mask = filled(type, shape, [&] {
      if (type == OnnxType::boolean) return random.chance(visible) ? 1.0 : 0.0;
      return infinite && random.chance(0.3) ? -INFINITY : random.uniform(low, 3);
    });
  }

  void draw_options() {
    options.is_causal = random.chance(0.4);
    if (options.opset >= 25 && random.chance(0.5)) {
      options.left_window_size = random.chance(0.1) ? std::numeric_limits<index_t>::max() : random.integer(-1, 6);
      options.right_window_size = random.chance(0.1) ? std::numeric_limits<index_t>::max() : random.integer(-1, 6);
    }
    if (random.chance(0.4)) options.scale = random.chance(0.2) ? 0.0 : random.uniform(0, 1.5);
    if (random.chance(0.4)) options.softcap = random.uniform(0.5, 5);
    if (random.chance(0.4)) options.softmax_precision = random.pick(kFloats);
    options.qk_matmul_output = random.chance(0.7);
    options.qk_matmul_output_mode = random.integer(0, 3);
  }

  OnnxAttentionInput input() const { return {q, k, v, mask, past_key, past_value, nonpad}; }

  std::string text() const {
    std::ostringstream out;
    const auto add = [&](const char* name, const OnnxTensor& t) {
      if (t) out << name << "=" << onnx_type_name(t.type());
      for (const index_t extent : t.shape()) out << " " << extent;
      out << "; ";
    };
    add("q", q), add("k", k), add("v", v), add("mask", mask), add("past", past_key), add("nonpad", nonpad);
    out << "opset=" << options.opset << " causal=" << options.is_causal << " left=" << options.left_window_size
        << " right=" << options.right_window_size << " scale=" << options.scale.value_or(-1)
        << " softcap=" << options.softcap << " mode=" << options.qk_matmul_output_mode;
    return out.str();
  }

  Random random;
};

double unit_of(OnnxType type) {
  switch (type) {
    case OnnxType::f16: return 0x1p-11;
    case OnnxType::bf16: return 0x1p-8;
    case OnnxType::f64: return 0x1p-53;
    default: return 0x1p-24;
  }
}

// The rule of tests/support/error_rule.hpp: twice the largest error of the plain computation in the same type, four
// standard deviations of its rounding, and the rounding to the tensor's type. Where the definition is infinite, so is
// `got`.
template <class Plain, class Exact>
void expect_close(const OnnxTensor& got, const std::vector<Plain>& plain, const std::vector<Exact>& exact,
                  const std::vector<reference::Rounding<Plain>>& rounding) {
  const auto values = test::onnx_values<double>(got);
  ASSERT_EQ(values.size(), exact.size());
  double plain_error = 0;
  for (std::size_t n = 0; n < exact.size(); ++n) {
    if (std::isinf(exact[n])) continue;
    plain_error = std::max(plain_error, static_cast<double>(std::abs(static_cast<Exact>(plain[n]) - exact[n])));
  }
  const double smallest = got.type() == OnnxType::f16 ? 0x1p-25 : 0;  // half of the last place below the normal ones
  for (std::size_t n = 0; n < exact.size(); ++n) {
    const auto want = static_cast<double>(exact[n]), deviation = static_cast<double>(rounding[n]);
    const double allowed = 2 * plain_error + 4 * deviation + std::max(unit_of(got.type()) * std::abs(want), smallest);
    if (std::isinf(want) ? values[n] != want : !(std::abs(values[n] - want) <= allowed)) {
      FAIL() << "element " << n << ": got " << values[n] << ", expected " << want << ", allowed error " << allowed
             << ", largest plain error " << plain_error << ", deviation " << deviation;
    }
  }
}

template <class Plain, class Exact>
void expect_defined(const Node& node, const OnnxAttentionOutput& got) {
  const OnnxDefinition<Plain> plain(node.input(), node.options);
  const OnnxDefinition<Exact> exact(node.input(), node.options);
  const OnnxDefinition<reference::Rounding<Plain>> rounding(node.input(), node.options);
  expect_close(got.y, plain.y, exact.y, rounding.y);
  if (!node.options.qk_matmul_output) return;
  switch (node.options.qk_matmul_output_mode) {
    case 0: return expect_close(got.qk_matmul_output, plain.raw, exact.raw, rounding.raw);
    case 1: return expect_close(got.qk_matmul_output, plain.capped, exact.capped, rounding.capped);
    case 2: return expect_close(got.qk_matmul_output, plain.biased, exact.biased, rounding.biased);
    default: return expect_close(got.qk_matmul_output, plain.probs, exact.probs, rounding.probs);
  }
}

bool same_bytes(const OnnxTensor& a, const OnnxTensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape()) return false;
  return !a || std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size() * onnx_type_bytes(a.type()))) == 0;
}

TEST(OnnxSweep, AgreesWithTheTextOfTheStandard) {
  Random seeds(test::run_seed());
  Threads threads(3);
  for (int n = 0; n < 1500 && !HasFailure(); ++n) {
    Node node(seeds.bits());
    SCOPED_TRACE(node.text());
    const OnnxAttentionOutput got = onnx_attention(node.input(), node.options);
    EXPECT_EQ(got.y.type(), node.q.type());
    EXPECT_EQ(bool(got.present_key), node.options.present_key);
    EXPECT_EQ(bool(got.qk_matmul_output), node.options.qk_matmul_output);
    const bool f64 = node.q.type() == OnnxType::f64 || node.v.type() == OnnxType::f64 ||
                     node.options.softmax_precision == OnnxType::f64;
    f64 ? expect_defined<double, long double>(node, got) : expect_defined<float, double>(node, got);

    node.options.threads = &threads;
    const OnnxAttentionOutput again = onnx_attention(node.input(), node.options);
    EXPECT_TRUE(same_bytes(got.y, again.y) && same_bytes(got.qk_matmul_output, again.qk_matmul_output))
        << "three threads give other bits";
  }
}

TEST(OnnxSweep, PresentIsPastAndThenNew) {
  Random seeds(test::run_seed());
  int seen = 0;
  for (int n = 0; n < 200; ++n) {
    const Node node(seeds.bits());
    if (!node.options.present_key) continue;
    SCOPED_TRACE(node.text());
    const OnnxAttentionOutput got = onnx_attention(node.input(), node.options);
    const bool rank4 = node.q.shape().size() == 4;
    const auto& shape = got.present_key.shape();
    const index_t heads = shape[1], total = shape[2], width = shape[3];
    const index_t past = node.past_key ? node.past_key.shape()[2] : 0, now = total - past;
    const auto present = test::onnx_values<double>(got.present_key), old = test::onnx_values<double>(node.past_key),
               fresh = test::onnx_values<double>(node.k);
    index_t at = 0;
    for (index_t b = 0; b < shape[0]; ++b)
      for (index_t h = 0; h < heads; ++h)
        for (index_t s = 0; s < total; ++s)
          for (index_t d = 0; d < width; ++d, ++at) {
            const index_t j = s - past;
            const double want = s < past ? old[static_cast<std::size_t>(((b * heads + h) * past + s) * width + d)]
                                : rank4  ? fresh[static_cast<std::size_t>(((b * heads + h) * now + j) * width + d)]
                                         : fresh[static_cast<std::size_t>(((b * now + j) * heads + h) * width + d)];
            ASSERT_EQ(present[static_cast<std::size_t>(at)], want);
          }
    ++seen;
  }
  EXPECT_GT(seen, 20);
}

}  // namespace
}  // namespace multihead
