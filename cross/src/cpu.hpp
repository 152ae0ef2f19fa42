// The processor this runs on.
#pragma once

#include <string>
#include <vector>

namespace reflexd::cpu {

/// Architecture this was built for: "x86_64", "aarch64".
std::string architecture();

/// Instruction set extensions that matter to kernels and that this processor has, in the words of /proc/cpuinfo.
std::vector<std::string> found();

/// What is made of them, in a sentence.
std::string used();

}  // namespace reflexd::cpu
