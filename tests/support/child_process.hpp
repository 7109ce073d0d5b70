// Work in a process of its own, so that one that hangs or crashes is a failure and not the end of the tests.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

namespace multihead::test {

/// Runs `work` in a child made by fork(), for at most 30 seconds. How the child ended: "exit 0" when work returned,
/// "exit 99" when it threw, "signal 14" when it hung.
template <class Work>
std::string end_of_child(Work&& work) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return "no fork";
  if (child == 0) {
    alarm(30);
    int code = 0;
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
      code = 99;
    }
    _exit(code);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "no child";
  return WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace multihead::test
