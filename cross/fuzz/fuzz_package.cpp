// A package of any bytes is refused in words, or loads and runs.
//
// REFLEXD_FUZZ_PACKAGE is the folder of a good package. The first byte of an input says which of its files the others
// stand in for: m the manifest, p the program, g the goldens; anything else is not looked at. The hashes, which keep
// damaged files away from all that follows, are pinned anew each time.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "failure.hpp"
#include "loaded_model.hpp"
#include "package.hpp"
#include "runtime_log.hpp"
#include "sha256.hpp"

namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

/// A folder of this process with a file in place of the good package's.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "fuzz-package-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    folder_ = name;
  }
  ~Scratch() { fs::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch(Scratch&&) = delete;
  Scratch& operator=(Scratch&&) = delete;

  fs::path write(std::string_view name, Bytes data) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    return path;
  }
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

const reflexd::Package& good() {
  static const reflexd::Package package = [] {
    const char* folder = std::getenv("REFLEXD_FUZZ_PACKAGE");
    if (folder == nullptr) {
      std::abort();
    }
    reflexd::runtime_log::capture(false);
    return reflexd::checked_package(folder, reflexd::read_manifest(folder).bytes());
  }();
  return package;
}

void run(reflexd::LoadedModel& model, const reflexd::Goldens& goldens) {
  for (std::size_t index = 0; index < goldens.count(); ++index) {
    model.forward(goldens.at(index).inputs);
  }
}

void manifest(const Scratch& scratch, Bytes data) {
  scratch.write(reflexd::protocol::kManifestFile, data);
  reflexd::Package package =
      reflexd::checked_package(scratch.folder(), reflexd::read_manifest(scratch.folder()).bytes());
  package.folder = good().folder;
  reflexd::LoadedModel model(reflexd::read_model(package), package.inputs, package.outputs, 1);
  run(model, reflexd::Goldens(package));
}

void program(const Scratch& scratch, Bytes data) {
  const fs::path path = scratch.write(reflexd::protocol::kModelFile, data);
  reflexd::LoadedModel model(reflexd::FileBytes(path, data.size()), good().inputs, good().outputs, 1);
  run(model, reflexd::Goldens(good()));
}

void goldens(const Scratch& scratch, Bytes data) {
  reflexd::Package package = good();
  package.folder = scratch.folder();
  package.manifest.goldens.bytes = static_cast<std::int64_t>(data.size());
  package.manifest.goldens.sha256 = reflexd::sha256_hex(data);
  scratch.write(reflexd::protocol::kGoldensFile, data);
  static reflexd::LoadedModel model(reflexd::read_model(good()), good().inputs, good().outputs, 1);
  run(model, reflexd::Goldens(package));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Load = void (*)(const Scratch&, Bytes);
  constexpr std::array<std::pair<char, Load>, 3> kKinds{{{'m', manifest}, {'p', program}, {'g', goldens}}};
  static const Scratch scratch;
  for (const auto& [letter, load] : kKinds) {
    if (size == 0 || *data != letter) {
      continue;
    }
    good();
    try {
      load(scratch, std::as_bytes(std::span(data, size)).subspan(1));
    } catch (const reflexd::PackageError&) {
    } catch (const reflexd::RuntimeFailure&) {
    } catch (const std::bad_alloc&) {  // it asked for more than there is
    }
    reflexd::runtime_log::take();
    return 0;
  }
  return -1;
}
