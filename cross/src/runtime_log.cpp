#include "runtime_log.hpp"

#include <executorch/runtime/platform/platform.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace reflexd::runtime_log {
namespace {

constexpr std::size_t kMaxLines = 32;
constexpr std::size_t kMaxLineBytes = 400;

/// Where lines come from that are written at every start, and the layouts of every kernel compared with a missing one.
constexpr std::array<std::string_view, 3> kNoise = {"cpuinfo_utils.cpp", "threadpool.cpp", "operator_registry.cpp"};

// The hook is a plain function and threads of the pool call it too: its state is the process's.
struct State {
  std::mutex mutex;
  std::vector<Line> lines;
  bool echo = false;
};

State& state() {
  static State instance;
  return instance;
}

void echo_line(const std::string& text) {
  const std::string line = text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void take_line(et_timestamp_t /*ticks*/, et_pal_log_level_t level, const char* file, const char* /*function*/,
               std::size_t line, const char* message, std::size_t length) {
  const std::string_view name = file;
  const std::string_view said(message, std::min(length, kMaxLineBytes));
  if (said.empty() || std::find(kNoise.begin(), kNoise.end(), name) != kNoise.end()) {
    return;
  }
  Line found{static_cast<char>(level), "[" + std::string(name) + ":" + std::to_string(line) + "] " + std::string(said)};
  State& log = state();
  const std::lock_guard guard(log.mutex);
  if (std::find(log.lines.begin(), log.lines.end(), found) != log.lines.end()) {
    return;
  }
  if (log.echo || level == kFatal) {  // after a fatal line the runtime aborts
    echo_line(found.text);
  }
  if (log.lines.size() < kMaxLines) {
    log.lines.push_back(std::move(found));
  }
}

}  // namespace

void capture(bool echo) {
  state().echo = echo;
  using executorch::runtime::PalImpl;
  if (!executorch::runtime::register_pal(PalImpl::create(take_line, "runtime_log.cpp"))) {
    throw std::runtime_error("the runtime did not take the log hook");
  }
}

std::vector<Line> take() {
  State& log = state();
  const std::lock_guard guard(log.mutex);
  return std::exchange(log.lines, {});
}

std::vector<std::string> take_texts() {
  std::vector<std::string> texts;
  for (Line& line : take()) {
    texts.push_back(std::move(line.text));
  }
  return texts;
}

}  // namespace reflexd::runtime_log
