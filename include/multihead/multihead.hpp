// The whole engine: attention forward and backward, the layers around it, the KV cache, matrix products, threads.
//
// It is the library multihead::multihead. Models, text and files are read by multihead::models; include its headers by
// name: encoder.hpp, tokenizer.hpp, sentence_embedding.hpp, safetensors.hpp, lens.hpp, report.hpp and others.
#pragma once

#include "multihead/attention.hpp"
#include "multihead/error.hpp"
#include "multihead/instruction_set.hpp"
#include "multihead/kv_cache.hpp"
#include "multihead/layout.hpp"
#include "multihead/matmul.hpp"
#include "multihead/memory.hpp"
#include "multihead/nn/activation.hpp"
#include "multihead/nn/attention_layouts.hpp"
#include "multihead/nn/embedding.hpp"
#include "multihead/nn/feed_forward.hpp"
#include "multihead/nn/heads.hpp"
#include "multihead/nn/layer_norm.hpp"
#include "multihead/nn/linear.hpp"
#include "multihead/nn/multi_head_attention.hpp"
#include "multihead/nn/rope.hpp"
#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"
#include "multihead/version.hpp"
