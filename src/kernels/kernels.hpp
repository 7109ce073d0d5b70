// The contract between the SIMD kernels and the rest: plain argument structs and one table of functions per type.
//
// Kernels check nothing, allocate nothing, start no threads and throw nothing. T is the arithmetic type: float for
// f32, bf16 and f16 storage, double for f64.
#pragma once

#include <cstdint>

#include "multihead/types.hpp"

namespace multihead::kernels {

/// Keys are processed in tiles that start at multiples of this, whatever the mask: sums have one fixed order.
/// 64 measured alike within 2 % (docs/ladder.md); 128 keeps the P tile of 24 queries at 12 KB.
inline constexpr index_t kKeysPerTile = 128;

/// Upper bound of queries in a tile on any target (three AVX-512 vectors of f32).
inline constexpr index_t kMaxLanes = 48;

/// Key tiles that are held as copies while all groups of a block's query tiles pass over them.
inline constexpr index_t kTilesPerSegment = 16;

/// Keys whose sums for dq are added up before they go to dq_outer, which shorter ranges do not need.
inline constexpr index_t kKeysPerDqFold = 64 * kKeysPerTile;

/// Rows of one sequence: row i of head h is at data + i*token_stride + h*head_stride, in elements.
struct ConstRows {
  const void* data = nullptr;
  DType dtype = DType::f32;
  index_t token_stride = 0;
  index_t head_stride = 0;
};
struct Rows {
  void* data = nullptr;
  DType dtype = DType::f32;
  index_t token_stride = 0;
  index_t head_stride = 0;
};

/// Pages of keys and values: row j is row j % page_size of page table[j / page_size]. Absent: table == nullptr.
struct Pages {
  const index_t* table = nullptr;
  index_t table_stride = 1;
  index_t page_size = 0;
  index_t k_page_stride = 0, v_page_stride = 0;  // elements between pages
};

/// A [head, query, key] plane of one sequence, any strides; data == nullptr means absent.
template <class T>
struct Plane {
  T* data = nullptr;
  index_t head_stride = 0, query_stride = 0, key_stride = 0;
};

/// A [head, query] plane of one sequence (row_max, row_sum, lse, their gradients).
template <class T>
struct RowPlane {
  T* data = nullptr;
  index_t head_stride = 0, query_stride = 0;
};

/// Everything about scores that forward and backward share, for one sequence and one kv head.
template <class T>
struct HeadProblem {
  const index_t* heads = nullptr;  // [heads_per_kv] query heads that read this kv head
  index_t heads_per_kv = 0;
  index_t seqlen_q = 0;   // rows of this sequence
  index_t seqlen_kv = 0;  // keys of this sequence
  index_t head_dim = 0, head_dim_v = 0;

  ConstRows q;     // head_stride steps query heads
  ConstRows k, v;  // already at this kv head
  Pages pages;

  T scale = 1;
  T softcap = 0;  // 0 = off
  // Causal and window: key j is visible to query i when i + band_begin <= j < i + band_end. Both bounds lie in
  // [-seqlen_q, seqlen_kv], whatever the diagonal is, so sums with them do not overflow.
  bool banded = false;  // false: no such rule, and every key is inside
  index_t band_begin = 0, band_end = 0;
  index_t diagonal = 0;  // query i stands at key position i + diagonal; read with ALiBi alone
  Plane<const void> bias;
  DType bias_dtype = DType::f32;
  Plane<const bool> visible;
  const T* alibi_slopes = nullptr;  // [all query heads], stride below
  index_t alibi_stride = 1;
  const T* sinks = nullptr;  // [all query heads], stride below
  index_t sinks_stride = 1;

  std::uint64_t dropout_seed = 0;
  std::uint32_t sequence_id = 0;
  std::uint64_t dropout_threshold = 0;  // kept when the 32-bit word >= threshold; 0 = no dropout
  T keep_scale = 1;                     // 1 / (1 - p); 0 for p = 1

  bool copy_keys = false;  // copy K tiles into contiguous rows first (a measured choice that changes no bit)
  bool copy_values = false;
};

/// One block of query rows against keys [key_begin, key_end). Rows are (head of the group, query) pairs, flattened:
/// row r is query r % seqlen_q of head heads[r / seqlen_q].
template <class T>
struct ForwardArgs {
  HeadProblem<T> problem;
  index_t first_row = 0, num_rows = 0;
  index_t key_begin = 0, key_end = 0;  // key_begin is a multiple of kKeysPerTile
  index_t tiles_per_group = 1;         // query tiles that pass over the keys of a segment together

  Rows out;
  Plane<T> probs;                        // head_stride and query_stride in output slots
  const index_t* probs_head = nullptr;   // [all query heads] output slot or -1; nullptr = the head itself
  const index_t* probs_query = nullptr;  // [seqlen_q] output slot or -1; nullptr = the query itself
  index_t probs_keys = 0;                // extent of the key axis of probs; zero-filled where hidden
  RowPlane<T> row_max, row_sum, lse;

  // Set for a split over keys: the unnormalised accumulators [num_rows, head_dim_v] and [num_rows] statistics, to be
  // joined by combine_chunks. out, row_max, row_sum and lse are then not written.
  T* partial_acc = nullptr;
  T* partial_stats = nullptr;  // [num_rows, kStats]

  // The block that this worker will probably run next: its first rows are prefetched while the last keys of
  // this one are computed.
  const ForwardArgs* upcoming = nullptr;

  T* workspace = nullptr;  // forward_workspace() elements, 64-byte aligned
};

/// Heads that one decode task takes at most.
inline constexpr index_t kMaxDecodeHeads = 16;

/// Kv heads of one sequence against the same range of keys; a block holds all rows of its head, at most decode_rows.
template <class T>
struct DecodeArgs {
  const ForwardArgs<T>* kv_heads = nullptr;
  index_t num_kv_heads = 0;  // at most kMaxDecodeHeads
  T* workspace = nullptr;    // decode_workspace() elements, 64-byte aligned
};

/// Row statistics: largest score, sum of exponentials, whether a key was visible.
inline constexpr index_t kStats = 3;

/// Joins `num_chunks` partial results of one block of rows in chunk order and writes them out as forward_block would.
template <class T>
struct CombineArgs {
  ForwardArgs<T> block;              // outputs, rows
  const T* partial_acc = nullptr;    // [num_chunks, num_rows, head_dim_v]
  const T* partial_stats = nullptr;  // [num_chunks, num_rows, kStats]
  index_t num_chunks = 0, keys_per_chunk = 0;
};

/// One kv head: dk, dv of keys [key_begin, key_end) and their share of dq. key_begin is a multiple of kKeysPerTile.
template <class T>
struct BackwardArgs {
  HeadProblem<T> problem;
  index_t key_begin = 0, key_end = 0;

  ConstRows dout;
  RowPlane<const T> row_max, row_sum;
  RowPlane<const T> delta;  // sum_d dout*out - dlse

  Rows dk, dv;                // at this kv head; data == nullptr: not wanted
  T* dq = nullptr;            // [tiles of the group's rows][head_dim][lanes], summed in key order; nullptr: not wanted
  T* dq_outer = nullptr;      // as large: the second level of sums over more than kKeysPerDqFold keys
  double* dslopes = nullptr;  // [heads_per_kv], added to; nullptr: not wanted
  T* workspace = nullptr;     // backward_workspace() elements, 64-byte aligned
};

/// Writes dq rows from the sums of `num_parts` key ranges, added in order.
template <class T>
struct QueryGradientArgs {
  HeadProblem<T> problem;
  const T* parts = nullptr;  // [num_parts][tiles][head_dim][lanes]
  index_t num_parts = 0, part_size = 0;
  Rows dq;
  T* workspace = nullptr;  // query_gradient_workspace() elements, 64-byte aligned
};

/// Adds d(loss)/d(bias) of rows [first_row, first_row + num_rows) and keys of one tile to acc[key][lane].
template <class T>
struct BiasGradientArgs {
  BackwardArgs<T> backward;
  index_t first_row = 0, num_rows = 0;
  index_t origin = 0;  // first key of the tile
  T* acc = nullptr;    // [kKeysPerTile][lanes]
};

/// panel[k][lane] = rows[lane*row_stride + k*k_stride] for lane < num_rows; further lanes 0.
template <class T>
struct PackArgs {
  const T* rows = nullptr;
  index_t row_stride = 0, k_stride = 0;
  index_t num_rows = 0, num_k = 0;
  index_t lanes = 0;   // whole vectors, at most those of a full tile
  T* panel = nullptr;  // [num_k][lanes]
};

/// c[row, lane] = bias + sum_k a[row, k] * panel[k][lane] for one packed panel, each sum in order of k; if it is
/// accumulated, the sum is added to what c holds.
template <class T>
struct MatmulArgs {
  const T* a = nullptr;
  index_t a_row = 0, a_k = 0;  // strides
  const T* panel = nullptr;    // [num_k][lanes]
  index_t lanes = 0;
  const T* next = nullptr;  // a panel that will be read after this one: prefetched meanwhile; nullptr: rows of a are
  const T* bias = nullptr;  // nullptr = 0
  index_t bias_row = 0, bias_lane = 0;
  T* c = nullptr;
  index_t c_row = 0, c_lane = 0;  // one of them is 1
  bool accumulate = false;
  index_t num_rows = 0, num_lanes = 0, num_k = 0;  // num_lanes <= lanes are written
};

/// out[n] = sum_d a[n][d] * b[n][d], nothing where b is 0. Rows are token_stride apart.
template <class T>
struct RowDotsArgs {
  ConstRows a, b;
  index_t num_rows = 0, width = 0;
  T* out = nullptr;
  index_t out_stride = 0;
};

template <class T>
struct Table {
  const char* target = "";  // "AVX2", ...
  index_t lanes = 0;        // queries of a full tile; most lanes of a matmul panel
  index_t vector_lanes = 0;
  index_t (*forward_workspace)(const ForwardArgs<T>&) = nullptr;
  void (*forward_block)(const ForwardArgs<T>&) = nullptr;
  index_t decode_rows = 0;  // most rows of a kv head that decode takes
  index_t (*decode_workspace)(const DecodeArgs<T>&) = nullptr;
  void (*decode)(const DecodeArgs<T>&) = nullptr;
  void (*combine_chunks)(const CombineArgs<T>&) = nullptr;
  index_t (*backward_workspace)(const BackwardArgs<T>&) = nullptr;
  void (*backward_block)(const BackwardArgs<T>&) = nullptr;
  index_t (*query_gradient_workspace)(const HeadProblem<T>&) = nullptr;
  void (*query_gradient)(const QueryGradientArgs<T>&) = nullptr;
  void (*bias_gradient)(const BiasGradientArgs<T>&) = nullptr;
  void (*matmul_panel)(const MatmulArgs<T>&) = nullptr;
  void (*pack_panel)(const PackArgs<T>&) = nullptr;
  void (*row_dots)(const RowDotsArgs<T>&) = nullptr;
};

/// The best table of this CPU among the targets that are enabled.
template <class T>
const Table<T>& table();
template <>
const Table<float>& table<float>();
template <>
const Table<double>& table<double>();

}  // namespace multihead::kernels
