// What this process tells the kernel about itself.
#pragma once

#include <cstdint>

namespace reflexd {

/// The kernel kills this process when its parent dies. A stopped one would outlive it: an end-of-file reaches only who
/// runs.
void end_with_parent();

/// The most memory this process has had at once, MiB; 0 if the kernel does not tell.
double peak_rss_mb();

/// Address space in use, bytes; 0 if the kernel does not tell.
std::uint64_t mapped_bytes();

}  // namespace reflexd
