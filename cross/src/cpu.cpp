#include "cpu.hpp"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace reflexd::cpu {
namespace {

#if defined(__aarch64__)
constexpr const char* kBaseline = "armv8-a";
#else
constexpr const char* kBaseline = "x86-64";
#endif

void add(std::vector<std::string>& names, bool present, const char* name) {
  if (present) {
    names.emplace_back(name);
  }
}

}  // namespace

std::string architecture() {
#if defined(__aarch64__)
  return "aarch64";
#else
  return "x86_64";
#endif
}

std::vector<std::string> found() {
  std::vector<std::string> names;
#if defined(__aarch64__)
  const unsigned long first = ::getauxval(AT_HWCAP);
  const unsigned long second = ::getauxval(AT_HWCAP2);
  add(names, (first & HWCAP_ASIMD) != 0, "asimd");
  add(names, (first & HWCAP_CRC32) != 0, "crc32");
  add(names, (first & HWCAP_ATOMICS) != 0, "atomics");
  add(names, (first & HWCAP_FPHP) != 0, "fphp");
  add(names, (first & HWCAP_ASIMDHP) != 0, "asimdhp");
  add(names, (first & HWCAP_ASIMDDP) != 0, "asimddp");
  add(names, (first & HWCAP_SVE) != 0, "sve");
  add(names, (second & HWCAP2_I8MM) != 0, "i8mm");
  add(names, (second & HWCAP2_BF16) != 0, "bf16");
  add(names, (second & HWCAP2_SVE2) != 0, "sve2");
#else
  add(names, static_cast<bool>(__builtin_cpu_supports("sse4.1")), "sse4_1");
  add(names, static_cast<bool>(__builtin_cpu_supports("sse4.2")), "sse4_2");
  add(names, static_cast<bool>(__builtin_cpu_supports("avx")), "avx");
  add(names, static_cast<bool>(__builtin_cpu_supports("fma")), "fma");
  add(names, static_cast<bool>(__builtin_cpu_supports("avx2")), "avx2");
  add(names, static_cast<bool>(__builtin_cpu_supports("avx512f")), "avx512f");
  add(names, static_cast<bool>(__builtin_cpu_supports("avx512bw")), "avx512bw");
  add(names, static_cast<bool>(__builtin_cpu_supports("avx512vl")), "avx512vl");
  add(names, static_cast<bool>(__builtin_cpu_supports("avx512vnni")), "avx512_vnni");
#endif
  return names;
}

std::string used() {
  return std::string("this program: ") + kBaseline + " only; XNNPACK's kernels: chosen at start from what was found";
}

}  // namespace reflexd::cpu
