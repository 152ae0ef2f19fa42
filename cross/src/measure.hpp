// Forward times of repeated inferences.
#pragma once

#include <vector>

#include "loaded_model.hpp"

namespace reflexd {

/// Milliseconds.
struct Latency {
  double p50_ms = 0.0;
  double p99_ms = 0.0;
};

/// Warms a model up and measures it: a few short batches, of which the calmest counts. The first real inference is then
/// not the slow one, and what else the machine does while it starts is not held against the model.
Latency warm_up(LoadedModel& model, std::span<const TensorView> inputs);

/// Measures a warm model at length, as a check does.
Latency measure(LoadedModel& model, std::span<const TensorView> inputs);

}  // namespace reflexd
