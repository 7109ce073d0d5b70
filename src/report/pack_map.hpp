// How one map travels inside a page.
//
//   n[i,j] = round(p[i,j] * 10^digits)                   the nearest multiple of 10^-digits
//   planes: byte 0 of all n, then byte 1, then byte 2 (six digits only), each column by column
//   zlib stream of the planes, in base64
//
// Columns, because the weights of one key are alike in size and pack 3% smaller than rows; planes, because the upper
// bytes are nearly all zero. On all-MiniLM-L6-v2's 72 maps of 512 x 512 this is 0.73 byte a weight in base64.
#pragma once

#include <string>

#include "multihead/tensor_view.hpp"

namespace multihead {

/// Bytes of one packed weight before compression: 2 for four digits, 3 for six.
constexpr int plane_count(int digits) { return digits > 4 ? 3 : 2; }

/// The decimals of one map, at least `digits`: as many as keep its largest weight at 100 steps or more, at most six.
/// Weights of a head that spreads over 512 tokens are near 0.002: four decimals would leave them two figures.
int map_digits(TensorView<const float, 2> probs, int digits);

/// probs [Sq, Skv] with entries in [0, 1].
std::string pack_map(TensorView<const float, 2> probs, int digits);

std::string base64(const std::string& bytes);

}  // namespace multihead
