// The arrays of a task in its workspace, one after the other.

#if defined(MULTIHEAD_KERNELS_TILE_ARENA_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MULTIHEAD_KERNELS_TILE_ARENA_INL
#undef MULTIHEAD_KERNELS_TILE_ARENA_INL
#else
#define MULTIHEAD_KERNELS_TILE_ARENA_INL
#endif

#include "core/ceil_div.hpp"
#include "hwy/highway.h"
#include "kernels/simd/basics-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

/// Takes arrays of whole cache lines. On a null workspace it gives null pointers, and `size` tells what is needed.
template <class T>
struct Arena {
  T* workspace;
  index_t size = 0;  // elements taken

  HWY_INLINE T* Take(index_t count) {
    T* const at = workspace == nullptr ? nullptr : workspace + size;
    size += PaddedWidth<T>(count);
    return at;
  }
  template <class Object>
  HWY_INLINE Object* TakeObjects(index_t count) {
    return reinterpret_cast<Object*>(Take(count * static_cast<index_t>(ceil_div(sizeof(Object), sizeof(T)))));
  }
};

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
