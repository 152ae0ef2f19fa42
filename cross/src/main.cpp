// reflexd-worker: the native inference worker.
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <iostream>
#include <span>

#include "arguments.hpp"
#include "check.hpp"
#include "serve.hpp"
#include "version.hpp"

namespace {

constexpr const char* kUsage =
    "usage: reflexd-worker --fd N --rings FOLDER                          serve infer's messages on descriptor N\n"
    "       reflexd-worker --check PACKAGE [--threads N] [--unmeasured] [--etdump FILE]\n"
    "                                                                     check a model package, print a JSON verdict\n"
    "       reflexd-worker --version [--json]                             what this is made of\n";

constexpr int kUsageError = 2;

int run(const reflexd::Arguments& arguments) {
  if (arguments.help) {
    std::cout << kUsage;
    return 0;
  }
  if (arguments.version) {
    std::cout << (arguments.json ? reflexd::version_json() : reflexd::version_text()) << std::flush;
    return std::cout ? 0 : 1;
  }
  if (arguments.package) {
    reflexd::CheckOptions options{*arguments.package, arguments.threads.value_or(1), !arguments.unmeasured, {}};
    if (arguments.etdump) {
      options.etdump = *arguments.etdump;
    }
    ::_exit(reflexd::check(options));  // the verdict is out: no tear-down of native libraries may spoil it
  }
  if (arguments.descriptor && arguments.rings) {
    reflexd::serve(*arguments.descriptor, *arguments.rings);
    return 0;
  }
  throw reflexd::UsageError("nothing to do");
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(reflexd::parse_arguments(std::span(words, static_cast<std::size_t>(count)).subspan(count > 0 ? 1 : 0)));
  } catch (const reflexd::UsageError& error) {
    std::cerr << "reflexd-worker: " << error.what() << "\n" << kUsage;
    return kUsageError;
  } catch (const std::exception& failure) {
    std::cerr << "reflexd-worker: " << failure.what() << "\n";
    return 1;
  }
}
