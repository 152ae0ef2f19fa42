// A model package on disk: its manifest, and its files with the hashes the manifest pins.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "file_bytes.hpp"
#include "protocol.hpp"
#include "tensor.hpp"

namespace reflexd {

/// A package whose manifest has been read and checked.
struct Package {
  std::filesystem::path folder;
  protocol::Manifest manifest;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;

  /// The input that is a stack of frames.
  [[nodiscard]] const protocol::FrameInput& frame() const;
};

/// Reads the bytes of a package's manifest.
/// @throws PackageError missing or too large.
FileBytes read_manifest(const std::filesystem::path& folder);

/// Checks the bytes of a manifest, not yet the package's other files.
/// @throws PackageError not JSON, another version, an unknown role, or parts that disagree.
Package checked_package(const std::filesystem::path& folder, std::span<const std::byte> manifest);

/// Reads `model.pte` and compares it with the manifest.
/// @throws PackageError missing, of another size or with another hash.
FileBytes read_model(const Package& package);

/// Recorded inputs and the outputs they gave.
class Goldens {
 public:
  /// Reads `goldens.bin` and compares it with the manifest.
  /// @throws PackageError missing, of another size or with another hash, or it does not fit the shapes.
  explicit Goldens(const Package& package);

  /// The inputs and the output of one case, in the manifest's order; good as long as this and the package are.
  struct Case {
    std::vector<TensorView> inputs;
    TensorView output;
  };

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] Case at(std::size_t index) const;

 private:
  const Package& package_;
  FileBytes file_;
  std::size_t count_;
  std::size_t case_bytes_ = 0;
};

}  // namespace reflexd
