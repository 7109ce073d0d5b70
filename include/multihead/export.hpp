// Symbols that the shared library exports: the functions and classes marked MULTIHEAD_API in these headers, no others.
#pragma once

#define MULTIHEAD_API __attribute__((visibility("default")))
#define MULTIHEAD_LOCAL __attribute__((visibility("hidden")))  // for a class nested in an exported one
