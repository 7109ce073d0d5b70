// MULTIHEAD_API marks what a shared library exports: the functions and classes of these headers, and nothing else.
#pragma once

#define MULTIHEAD_API __attribute__((visibility("default")))
