// Loads, runs and unloads a plug-in: plugin_host PLUGIN
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

/// Bytes of this process that are in memory.
long resident_bytes() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int fail(const char* what, int round) {
  std::fprintf(stderr, "plugin_host: round %d: %s\n", round, what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (kSanitized) return 77;  // a sanitizer keeps memory of its own
  constexpr int kWarm = 10, kRounds = 40;
  long before = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kWarm) before = resident_bytes();
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) return fail(dlerror(), round);
    const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "run_plugin"));
    if (run == nullptr) return fail("no run_plugin", round);
    if (const int code = run(); code != 0) return fail(code == 1 ? "wrong values" : "no error", round);
    if (dlclose(plugin) != 0) return fail(dlerror(), round);
    if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != nullptr) return fail("the plug-in is still loaded", round);
  }
  const long grown = resident_bytes() - before;
  std::printf("%ld bytes more after %d rounds\n", grown, kRounds - kWarm);
  return grown < 2'000'000 ? 0 : fail("memory grows", kRounds);
}
