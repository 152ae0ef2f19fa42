#include "program_loader.hpp"

#include <algorithm>
#include <cstring>

namespace reflexd {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

bool ProgramLoader::covers(std::size_t offset, std::size_t size) const noexcept {
  const std::size_t whole = file_.bytes().size();
  return !finished_ && offset <= whole && size <= whole - offset;
}

Result<FreeableBuffer> ProgramLoader::load(std::size_t offset, std::size_t size, const SegmentInfo& /*info*/) const {
  if (!covers(offset, size)) {
    return finished_ ? Error::AccessFailed : Error::InvalidProgram;
  }
  held_.emplace(offset, size);
  auto* context = const_cast<ProgramLoader*>(this);  // the interface's load() is const, what it hands out is not
  return FreeableBuffer(file_.bytes().data() + offset, size, forget, context);
}

Error ProgramLoader::load_into(std::size_t offset, std::size_t size, const SegmentInfo& /*info*/, void* buffer) const {
  if (!covers(offset, size)) {
    return finished_ ? Error::AccessFailed : Error::InvalidProgram;
  }
  std::memcpy(buffer, file_.bytes().data() + offset, size);
  return Error::Ok;
}

void ProgramLoader::forget(void* loader, void* data, std::size_t size) {
  auto& self = *static_cast<ProgramLoader*>(loader);
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - self.file_.bytes().data());
  const auto [first, last] = self.held_.equal_range(offset);
  const auto found = std::find_if(first, last, [&](const auto& part) { return part.second == size; });
  if (found != last) {
    self.held_.erase(found);
  }
}

void ProgramLoader::finish() {
  finished_ = true;
  std::size_t free_from = 0;
  for (const auto& [offset, size] : held_) {  // by offset
    if (offset > free_from) {
      file_.release(free_from, offset - free_from);
    }
    free_from = std::max(free_from, offset + size);
  }
  file_.release(free_from, file_.bytes().size() - free_from);
}

}  // namespace reflexd
