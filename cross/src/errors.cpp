#include "errors.hpp"

#include <string_view>

#include "format.hpp"

namespace reflexd {
namespace {

using executorch::runtime::Error;

std::string_view meaning(Error error) {
  switch (error) {
    case Error::Internal:
      return "internal error, often a backend that could not start";
    case Error::InvalidState:
      return "invalid state";
    case Error::NotSupported:
      return "not supported, often an input of another rank or size than exported";
    case Error::NotImplemented:
      return "not implemented";
    case Error::InvalidArgument:
      return "invalid argument, often an input of another dtype or number than exported";
    case Error::InvalidType:
      return "invalid type";
    case Error::OperatorMissing:
      return "operator missing in this runtime";
    case Error::NotFound:
      return "not found";
    case Error::MemoryAllocationFailed:
      return "out of memory";
    case Error::AccessFailed:
      return "file could not be read";
    case Error::InvalidProgram:
      return "invalid program: damaged, of an old format, or not a program at all";
    case Error::InvalidExternalData:
      return "invalid external data";
    case Error::OutOfResources:
      return "out of resources";
    case Error::DelegateInvalidCompatibility:
      return "backend refuses the program: made for another version of it";
    case Error::DelegateMemoryAllocationFailed:
      return "backend out of memory";
    case Error::DelegateInvalidHandle:
      return "invalid backend handle";
    default:
      return "";
  }
}

}  // namespace

std::string in_words(Error error) {
  const std::string number = "error 0x" + hexadecimal(static_cast<unsigned>(error));
  const std::string_view words = meaning(error);
  return words.empty() ? number : number + " (" + std::string(words) + ")";
}

}  // namespace reflexd
