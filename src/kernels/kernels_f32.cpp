// The f32 kernels, compiled once for every target; a table is picked at run time.

#include "kernels/instruction_set.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kernels_f32.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/table-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

const Table<float>* TableF32() { return MakeTable<float>(); }

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(TableF32);

template <>
const Table<float>& table<float>() {
  return *chosen(HWY_DISPATCH_TABLE(TableF32))();
}

}  // namespace multihead::kernels
#endif
