// The f64 kernels, compiled once for every target; a table is picked at run time.

#include "kernels/instruction_set.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kernels_f64.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/table-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace multihead::kernels::HWY_NAMESPACE {

const Table<double>* TableF64() { return MakeTable<double>(); }

}  // namespace multihead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace multihead::kernels {

HWY_EXPORT(TableF64);

template <>
const Table<double>& table<double>() {
  return *chosen(HWY_DISPATCH_TABLE(TableF64))();
}

}  // namespace multihead::kernels
#endif
