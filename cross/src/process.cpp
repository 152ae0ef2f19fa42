#include "process.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

namespace reflexd {

void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

double peak_rss_mb() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "VmHWM:") {
      double kilobytes = 0;
      status >> kilobytes;
      return kilobytes / 1024;
    }
  }
  return 0;
}

std::uint64_t mapped_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace reflexd
