#include "registry.hpp"

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <string_view>
#include <unordered_set>

namespace reflexd {
namespace {

namespace runtime = executorch::runtime;

bool usable(const char* name) {
  const runtime::BackendInterface* backend = runtime::get_backend_class(name);
  return backend != nullptr && backend->is_available();
}

}  // namespace

std::vector<std::string> usable_backends() {
  std::vector<std::string> names;
  for (std::size_t index = 0; index < runtime::get_num_registered_backends(); ++index) {
    const auto name = runtime::get_backend_name(index);
    if (name.ok() && usable(*name)) {
      names.emplace_back(*name);
    }
  }
  return names;
}

std::vector<std::string> missing_parts(std::span<const std::string> operators, std::span<const std::string> backends) {
  std::unordered_set<std::string_view> known;
  for (const runtime::Kernel& kernel : runtime::get_registered_kernels()) {
    known.insert(kernel.name_);
  }
  std::vector<std::string> missing;
  for (const std::string& name : operators) {
    if (!known.contains(name)) {
      missing.push_back("operator " + name);
    }
  }
  for (const std::string& name : backends) {
    if (!usable(name.c_str())) {
      missing.push_back("backend " + name);
    }
  }
  return missing;
}

}  // namespace reflexd
