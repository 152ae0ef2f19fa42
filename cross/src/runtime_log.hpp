// ExecuTorch's own log: collected line by line for whoever answers next, instead of going to the error stream.
#pragma once

#include <string>
#include <vector>

namespace reflexd::runtime_log {

/// A line of the runtime; `level` is its letter: D, I, E or F.
struct Line {
  char level;
  std::string text;

  friend bool operator==(const Line&, const Line&) = default;
};

/// Routes the runtime's log here, from now on and from every thread. With `echo` each line also goes to the error
/// stream at once, for a process that may die of what it is doing.
/// @throws std::runtime_error the runtime did not take the hook.
void capture(bool echo);

/// The lines since the last call, each once, in order; without those the runtime writes whatever happens.
std::vector<Line> take();

/// The texts of `take()`.
std::vector<std::string> take_texts();

}  // namespace reflexd::runtime_log
