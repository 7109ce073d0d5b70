#include "models/encoder_source.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/file_error.hpp"

namespace multihead {
namespace {

// Index of the first NaN or infinity, or `size`. Blocks without any need one vectorized comparison per value.
index_t first_not_finite(const float* x, index_t size) {
  constexpr index_t kBlock = 1024;
  constexpr std::uint32_t kExponent = 0x7f800000;
  for (index_t begin = 0; begin < size; begin += kBlock) {
    const index_t end = std::min(size, begin + kBlock);
    std::uint32_t found = 0;
    for (index_t i = begin; i < end; ++i) found |= (std::bit_cast<std::uint32_t>(x[i]) & kExponent) == kExponent;
    for (index_t i = begin; found != 0 && i < end; ++i) {
      if (!std::isfinite(x[i])) return i;
    }
  }
  return size;
}

}  // namespace

EncoderSource::EncoderSource(const std::filesystem::path& folder, const NamingScheme& scheme, std::string_view function)
    : folder_(folder), function_(function), file_(load_safetensors(folder)) {
  const std::string word = std::string(scheme.tensors.word) + ".weight";
  const auto found = std::ranges::find_if(
      scheme.prefixes, [&](std::string_view prefix) { return file_.find(std::string(prefix) + word) != nullptr; });
  std::string tried;
  for (const std::string_view prefix : scheme.prefixes) {
    tried.append(tried.empty() ? "" : " or ").append(quote(std::string(prefix) + word));
  }
  require_file(found != scheme.prefixes.end(), folder_, function_, "the checkpoint must hold the word embedding",
               {{"missing", tried}});
  prefix_ = *found;
  for (const std::string_view prefix : scheme.prefixes) {
    require_file(prefix == prefix_ || file_.find(std::string(prefix) + word) == nullptr, folder_, function_,
                 "the checkpoint must hold one word embedding", {{"names", tried}});
  }
  // Frameworks store the weights of linear layers transposed to each other.
  const auto format = file_.metadata().find("format");
  require<UnsupportedError>(format == file_.metadata().end() || format->second == "pt" || format->second == "np",
                            function_, "weights must be stored as PyTorch lays them out",
                            {{"format", format == file_.metadata().end() ? "" : quote(format->second)}});
}

std::string EncoderSource::stored_name(const std::string& name) const {
  const std::string now_stored = file_.find(prefix_ + name) != nullptr ? prefix_ + name : "";
  for (const auto& [now, before] : {std::pair("LayerNorm.weight", ".gamma"), std::pair("LayerNorm.bias", ".beta")}) {
    if (!name.ends_with(now)) continue;
    const std::string old = prefix_ + name.substr(0, name.rfind('.')) + before;
    if (file_.find(old) == nullptr) continue;
    require_file(now_stored.empty(), folder_, function_, "a parameter must be stored under one name",
                 {{"first", quote(now_stored)}, {"second", quote(old)}});
    return old;
  }
  return now_stored;
}

const std::vector<index_t>& EncoderSource::shape_of(const std::string& name) const {
  const std::string stored = stored_name(name);
  require_file(!stored.empty(), folder_, function_, "every parameter of the family must be in the checkpoint",
               {{"num_missing", 1}, {"missing", quote(prefix_ + name)}});
  return file_.at(stored).shape;
}

void EncoderSource::expect_shape(const std::string& name, std::span<const index_t> expected) const {
  const std::vector<index_t>& shape = shape_of(name);
  require_file(std::ranges::equal(shape, expected), folder_, function_,
               "a tensor must have the shape that the config asks for",
               {{"tensor", quote(stored_name(name))},
                {"shape", shape_text(shape.data(), static_cast<int>(std::min<std::size_t>(shape.size(), 8)))},
                {"expected", shape_text(expected.data(), static_cast<int>(expected.size()))}});
}

template <int R>
void EncoderSource::read_into(const std::string& name, Tensor<float, R>& tensor) const {
  expect_shape(name, tensor.shape());
  const std::string stored = stored_name(name);
  tensor = file_.read<float, R>(stored);
  const index_t size = tensor.size(), at = first_not_finite(tensor.data(), size);
  require_file(at == size, folder_, function_, "weights must be finite as f32",
               {{"tensor", quote(stored)}, {"element", at}, {"value", double{at < size ? tensor.data()[at] : 0.f}}});
}

template void EncoderSource::read_into(const std::string&, Tensor<float, 1>&) const;
template void EncoderSource::read_into(const std::string&, Tensor<float, 2>&) const;

}  // namespace multihead
