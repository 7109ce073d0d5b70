// What all C functions of the bench take as `threads`: a multihead::Threads.
#pragma once

#include "multihead/threads.hpp"

extern "C" {
void* multihead_bench_threads(int num_threads);
}
