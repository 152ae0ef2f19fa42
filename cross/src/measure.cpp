#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace reflexd {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How many inferences make up a series: at least and at most so many, and beyond the least no longer than `time`.
struct Series {
  std::size_t least;
  std::size_t most;
  Clock::duration time;
};

// Every millisecond here is one before the first action; what admits an agent are the batches in the worker.
constexpr int kWarmBatches = 3;
constexpr Clock::duration kWarmTime = 50ms;  // no further batch after it: a slow model's figures are steady
constexpr Series kWarmBatch{5, 20, 2ms};
constexpr int kCheckWarmUp = 3;
constexpr Series kCheck{10, 300, 100ms};

std::vector<double> sorted_times(LoadedModel& model, std::span<const TensorView> inputs, const Series& series) {
  const Clock::time_point until = Clock::now() + series.time;
  std::vector<double> times;
  while (times.size() < series.least || (times.size() < series.most && Clock::now() < until)) {
    model.forward(inputs);
    times.push_back(static_cast<double>(model.forward_ns()) / 1e6);
  }
  std::sort(times.begin(), times.end());
  return times;
}

Latency latency_of(const std::vector<double>& sorted) {
  return {sorted[sorted.size() / 2], sorted[sorted.size() * 99 / 100]};
}

}  // namespace

Latency warm_up(LoadedModel& model, std::span<const TensorView> inputs) {
  const Clock::time_point until = Clock::now() + kWarmTime;
  Latency calmest = latency_of(sorted_times(model, inputs, kWarmBatch));
  for (int batch = 1; batch < kWarmBatches && Clock::now() < until; ++batch) {
    const Latency found = latency_of(sorted_times(model, inputs, kWarmBatch));
    calmest = found.p99_ms < calmest.p99_ms ? found : calmest;
  }
  return calmest;
}

Latency measure(LoadedModel& model, std::span<const TensorView> inputs) {
  for (int run = 0; run < kCheckWarmUp; ++run) {
    model.forward(inputs);
  }
  return latency_of(sorted_times(model, inputs, kCheck));
}

}  // namespace reflexd
