#include "package.hpp"

#include <system_error>
#include <variant>

#include "failure.hpp"
#include "manifest.hpp"
#include "manifest_rules.hpp"
#include "sha256.hpp"

namespace reflexd {
namespace {

template <typename Specs>
std::vector<TensorSpec> tensor_specs(const Specs& declared) {
  std::vector<TensorSpec> specs;
  for (const auto& variant : declared) {
    std::visit(
        [&](const auto& one) {
          // The rules above bound every shape, so there is a size.
          specs.push_back({one.name, one.dtype, one.shape, tensor_bytes(one.dtype, one.shape).value()});
        },
        variant);
  }
  return specs;
}

FileBytes read_pinned(const std::filesystem::path& path, std::int64_t bytes, const std::string& sha256) {
  std::error_code error;
  const std::uint64_t found = std::filesystem::file_size(path, error);
  if (error) {
    throw PackageError(path.string() + ": " + error.message());
  }
  if (found != static_cast<std::uint64_t>(bytes)) {
    throw PackageError(path.string() + ": expected " + std::to_string(bytes) + " bytes, found " +
                       std::to_string(found) + ": a truncated or foreign file");
  }
  try {
    FileBytes file(path, found);
    if (const std::string hash = sha256_hex(file.bytes()); hash != sha256) {
      throw PackageError(path.string() + ": sha256 is " + hash.substr(0, 16) + "…, the manifest pins " +
                         sha256.substr(0, 16) + "…");
    }
    return file;
  } catch (const std::system_error& failure) {
    throw PackageError(path.string() + ": " + failure.code().message());
  }
}

}  // namespace

const protocol::FrameInput& Package::frame() const {
  for (const auto& input : manifest.inputs) {
    if (const auto* frame = std::get_if<protocol::FrameInput>(&input)) {
      return *frame;
    }
  }
  throw std::logic_error("a checked manifest has an input of role frame");
}

FileBytes read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / protocol::kManifestFile;
  try {
    return {path, protocol::kMaxManifestBytes};
  } catch (const std::system_error& failure) {
    if (failure.code() == std::errc::file_too_large) {
      throw PackageError(path.string() + ": a manifest has " + std::to_string(protocol::kMaxManifestBytes) +
                         " bytes at most");
    }
    throw PackageError(path.string() + ": expected a package manifest: " + failure.code().message());
  }
}

Package checked_package(const std::filesystem::path& folder, std::span<const std::byte> manifest) {
  const std::string start = (folder / protocol::kManifestFile).string() + ": ";
  Package package{folder, {}, {}, {}};
  try {
    package.manifest = protocol::parse_manifest({reinterpret_cast<const char*>(manifest.data()), manifest.size()});
  } catch (const protocol::Refused& refused) {
    throw PackageError(start + refused.what());
  }
  if (const auto complaints = complaints_about(package.manifest); !complaints.empty()) {
    throw PackageError(start + complaints.front());
  }
  package.inputs = tensor_specs(package.manifest.inputs);
  package.outputs = tensor_specs(package.manifest.outputs);
  return package;
}

FileBytes read_model(const Package& package) {
  const auto& entry = package.manifest.model;
  return read_pinned(package.folder / protocol::kModelFile, entry.bytes, entry.sha256);
}

Goldens::Goldens(const Package& package)
    : package_(package),
      file_(read_pinned(package.folder / protocol::kGoldensFile, package.manifest.goldens.bytes,
                        package.manifest.goldens.sha256)),
      count_(static_cast<std::size_t>(package.manifest.goldens.count)) {
  bool fits = true;
  for (const auto* specs : {&package.inputs, &package.outputs}) {
    for (const TensorSpec& spec : *specs) {
      fits = fits && !__builtin_add_overflow(case_bytes_, spec.bytes, &case_bytes_);
    }
  }
  std::size_t needed = 0;
  if (!fits || __builtin_mul_overflow(case_bytes_, count_, &needed) || needed != file_.bytes().size()) {
    throw PackageError((package.folder / protocol::kGoldensFile).string() + ": " +
                       std::to_string(file_.bytes().size()) + " bytes; " + std::to_string(count_) + " goldens need " +
                       std::to_string(case_bytes_) + " each");
  }
}

Goldens::Case Goldens::at(std::size_t index) const {
  const std::byte* data = file_.bytes().data() + index * case_bytes_;
  Case found{{}, {}};
  for (const TensorSpec& spec : package_.inputs) {
    found.inputs.push_back({spec.dtype, spec.shape, data});
    data += spec.bytes;
  }
  const TensorSpec& output = package_.outputs.front();
  found.output = {output.dtype, output.shape, data};
  return found;
}

}  // namespace reflexd
