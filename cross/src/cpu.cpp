#include "cpu.hpp"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace reflexd::cpu {
namespace {

struct Feature {
  const char* name;
  bool present;
  bool has_kernels;  // XNNPACK has kernels for it, chosen at start
};

#if defined(__aarch64__)

constexpr const char* kArchitecture = "aarch64";
constexpr const char* kBaseline = "armv8-a";

std::vector<Feature> features() {
  const unsigned long first = ::getauxval(AT_HWCAP);
  const unsigned long second = ::getauxval(AT_HWCAP2);
  return {{"asimd", (first & HWCAP_ASIMD) != 0, true},      {"crc32", (first & HWCAP_CRC32) != 0, false},
          {"atomics", (first & HWCAP_ATOMICS) != 0, false}, {"fphp", (first & HWCAP_FPHP) != 0, false},
          {"asimdhp", (first & HWCAP_ASIMDHP) != 0, true},  {"asimddp", (first & HWCAP_ASIMDDP) != 0, true},
          {"sve", (first & HWCAP_SVE) != 0, true},          {"i8mm", (second & HWCAP2_I8MM) != 0, true},
          {"bf16", (second & HWCAP2_BF16) != 0, true},      {"sve2", (second & HWCAP2_SVE2) != 0, true}};
}

#else

constexpr const char* kArchitecture = "x86_64";
constexpr const char* kBaseline = "x86-64";

std::vector<Feature> features() {
  return {{"sse4_1", static_cast<bool>(__builtin_cpu_supports("sse4.1")), true},
          {"sse4_2", static_cast<bool>(__builtin_cpu_supports("sse4.2")), false},
          {"avx", static_cast<bool>(__builtin_cpu_supports("avx")), true},
          {"fma", static_cast<bool>(__builtin_cpu_supports("fma")), true},
          {"avx2", static_cast<bool>(__builtin_cpu_supports("avx2")), true},
          {"avx512f", static_cast<bool>(__builtin_cpu_supports("avx512f")), true},
          {"avx512bw", static_cast<bool>(__builtin_cpu_supports("avx512bw")), true},
          {"avx512vl", static_cast<bool>(__builtin_cpu_supports("avx512vl")), true},
          {"avx512_vnni", static_cast<bool>(__builtin_cpu_supports("avx512vnni")), true}};
}

#endif

}  // namespace

std::string architecture() { return kArchitecture; }

std::vector<std::string> found() {
  std::vector<std::string> names;
  for (const Feature& feature : features()) {
    if (feature.present) {
      names.emplace_back(feature.name);
    }
  }
  return names;
}

std::string used() {
  std::string text = std::string(kBaseline) + " by this program; by XNNPACK the best of";
  for (const Feature& feature : features()) {
    if (feature.present && feature.has_kernels) {
      text += std::string(" ") + feature.name;
    }
  }
  return text;
}

}  // namespace reflexd::cpu
