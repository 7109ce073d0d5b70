// The four normal forms of Unicode (UAX 15) over aligned text.
//
// A decomposed character's parts all stand for its bytes; a composed one stands for the bytes of its first part. Marks
// that change places keep the alignment of the places, as in the reference: in "é" + dot below, decomposed and
// reordered to e, dot, accent, the dot stands for its own bytes and so does the accent that follows it.
#pragma once

#include "text/aligned_text.hpp"

namespace multihead {

enum class NormalForm : std::uint8_t { nfd, nfkd, nfc, nfkc };

void normalize(AlignedText& text, NormalForm form);

}  // namespace multihead
