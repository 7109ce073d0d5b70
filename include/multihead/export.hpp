// What a shared library exports: the functions and classes of these headers that say MULTIHEAD_API, and nothing else.
#pragma once

#define MULTIHEAD_API __attribute__((visibility("default")))
#define MULTIHEAD_LOCAL __attribute__((visibility("hidden")))  // a class inside an exported one
