// An encoder back into a model folder: what load_text_encoder opens again, with the heads that are left.
#pragma once

#include <cstdint>
#include <filesystem>

#include "multihead/encoder.hpp"
#include "multihead/output_folder.hpp"

namespace multihead {

/// How a layer that has lost heads is stored. docs/checkpoints.md, "Saving".
enum class HeadStorage : std::uint8_t {
  sliced,  ///< the weights that are left: smaller and faster; `pruned_heads` of config.json tells which heads are gone
  zeroed,  ///< the shapes of the design with zeros for the heads that are gone: any program opens it, nothing is saved
};

/// Writes config.json, model.safetensors and copies of the files of the tokenizer and of sentence-transformers.
/// Tensors keep the names and the type that they have in `source`; one whose numbers are too large for F16 becomes F32.
/// Tensors of `source` that are no parameters of the encoder (a pooler, the head of a task) are copied.
///
/// @param encoder  of the design of `source`; weights and remaining heads may have changed
/// @param source   the folder it was loaded from
/// @param folder   is not finished
/// @throws ShapeError       if a weight is not finite
/// @throws CheckpointError  if `source` cannot be read, or is of another design
/// @throws WriteError       if the folder cannot be written
MULTIHEAD_API void save_encoder(const Encoder& encoder, const std::filesystem::path& source, OutputFolder& folder,
                                HeadStorage storage = HeadStorage::sliced);
/// The same into a folder of this name, complete or not at all.
MULTIHEAD_API void save_encoder(const Encoder& encoder, const std::filesystem::path& source,
                                const std::filesystem::path& folder, HeadStorage storage = HeadStorage::sliced);

}  // namespace multihead
