// Declarations that the snippets of headers and documents use without containing them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "multihead/encoder.hpp"
#include "multihead/lens.hpp"
#include "multihead/lens/observe.hpp"
#include "multihead/lens/redundancy.hpp"
#include "multihead/multihead.hpp"
#include "multihead/report.hpp"
#include "multihead/safetensors.hpp"
#include "multihead/sentence_embedding.hpp"
#include "multihead/text_encoder.hpp"
#include "multihead/tokenizer.hpp"

using namespace multihead;
using namespace multihead::nn;
using multihead::lens::HeadComparison, multihead::lens::observe, multihead::lens::ObservedBatch, multihead::lens::Redundancy;

extern const index_t B, H, Hkv, S, Sq, Skv, D, Dv, rows, columns;
extern float *pointer, *qkv, *out_data;
extern const float *q_data, *k_data, *v_data;
extern const void *address;
extern std::vector<float> numbers;
extern std::vector<index_t> shape, stride;
extern const std::filesystem::path folder;
extern Tensor<float, 2> tensor;
extern Tensor<float, 4> q, k, v, out;
extern MultiHeadAttention<float> layer;
extern Tensor<float, 1> designed_slopes;
extern Tensor<float, 4> designed_bias;
extern MultiHeadInput<float> input;
extern MultiHeadOutput<float> output;
extern const Encoder encoder;
extern const lens::Corpus corpus;
extern const lens::Observer roles, products;
extern Threads threads;
