#include "profile.hpp"

#include <executorch/devtools/etdump/etdump_flatcc.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>

#include "loaded_model.hpp"

namespace reflexd {
namespace {

constexpr int kRuns = 20;

}  // namespace

void write_profile(const Package& package, std::span<const TensorView> inputs, std::uint32_t threads,
                   const std::filesystem::path& file) {
  executorch::etdump::ETDumpGen tracer;
  LoadedModel model(read_model(package), package.inputs, package.outputs, threads, &tracer);
  for (int run = 0; run < kRuns; ++run) {
    model.forward(inputs);
  }
  const executorch::etdump::ETDumpResult dump = tracer.get_etdump_data();
  const std::unique_ptr<void, decltype(&std::free)> owner(dump.buf, std::free);
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(static_cast<const char*>(dump.buf), static_cast<std::streamsize>(dump.size));
  out.close();
  if (dump.buf == nullptr || !out) {
    throw std::system_error(errno, std::generic_category(), "profile " + file.string());
  }
}

}  // namespace reflexd
