#include "manifest_rules.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <variant>

#include "format.hpp"

namespace reflexd {

using protocol::ContinuousOutput;
using protocol::FrameInput;
using protocol::FrameLayout;
using protocol::HistoryInput;
using protocol::LogitsOutput;
using protocol::Manifest;
using protocol::PixelFormat;

namespace {

using Shape = std::vector<std::int64_t>;
using Complaints = std::vector<std::string>;

template <typename Kind, typename Specs>
std::vector<const Kind*> of_kind(const Specs& specs) {
  std::vector<const Kind*> found;
  for (const auto& spec : specs) {
    if (const Kind* kind = std::get_if<Kind>(&spec)) {
      found.push_back(kind);
    }
  }
  return found;
}

std::string shape_start(const char* list, const std::string& name, const Shape& shape) {
  return std::string(list) + "." + name + ".shape = " + list_text(shape) + ": ";
}

Shape wanted_shape(const FrameInput& frame) {
  const auto stack = static_cast<std::int64_t>(frame.offsets_ms.size());
  switch (frame.layout) {
    case FrameLayout::NSHW:
      return {1, stack, frame.view.height, frame.view.width};
    case FrameLayout::NHWC:
      return {1, frame.view.height, frame.view.width, 3};
    case FrameLayout::NSHWC:
      return {1, stack, frame.view.height, frame.view.width, 3};
  }
  return {};
}

bool newest_first(const std::vector<double>& offsets_ms) {
  return offsets_ms.front() == 0.0 &&
         std::ranges::adjacent_find(offsets_ms, std::ranges::less_equal{}) == offsets_ms.end();
}

void look_at_frame(const FrameInput& frame, Complaints& complaints) {
  const std::string start = "inputs." + frame.name;
  if ((frame.layout == FrameLayout::NSHW) != (frame.view.format == PixelFormat::gray8)) {
    complaints.push_back(start + ".layout = " + std::string(to_string(frame.layout)) + ": does not fit format " +
                         std::string(to_string(frame.view.format)));
  }
  if (frame.layout == FrameLayout::NHWC && frame.offsets_ms.size() != 1) {
    complaints.push_back(start + ".layout = NHWC: takes one frame, offsets_ms has " +
                         std::to_string(frame.offsets_ms.size()));
  }
  if (const Shape wanted = wanted_shape(frame); frame.shape != wanted) {
    complaints.push_back(shape_start("inputs", frame.name, frame.shape) + "view, offsets and layout give " +
                         list_text(wanted));
  }
  if (!newest_first(frame.offsets_ms)) {
    std::vector<std::string> texts;
    for (const double offset : frame.offsets_ms) {
      texts.push_back(short_number(offset, 9));
    }
    complaints.push_back(start + ".offsets_ms = [" + joined(texts, ", ") + "]: expected 0 first, then falling");
  }
}

void look_at_history(const HistoryInput& history, const Manifest& manifest, Complaints& complaints) {
  if (history.shape.size() != 2 || history.shape[0] != 1 || history.shape[1] > protocol::kMaxHistory) {
    complaints.push_back(shape_start("inputs", history.name, history.shape) +
                         "expected [1, length], length <= " + std::to_string(protocol::kMaxHistory));
  }
  if (history.padding_token < static_cast<std::int64_t>(manifest.actions.size())) {
    complaints.push_back("inputs." + history.name + ".padding_token = " + std::to_string(history.padding_token) +
                         ": it is the token of an action");
  }
  if (!std::holds_alternative<LogitsOutput>(manifest.outputs.front())) {
    complaints.push_back("inputs." + history.name +
                         ": role history needs role action_logits: continuous actions have no tokens");
  }
}

void look_at_output(const Manifest& manifest, Complaints& complaints) {
  if (const auto* logits = std::get_if<LogitsOutput>(&manifest.outputs.front())) {
    const auto actions = static_cast<std::int64_t>(manifest.actions.size());
    if (logits->shape != Shape{1, actions}) {
      complaints.push_back(shape_start("outputs", logits->name, logits->shape) + "expected [1, " +
                           std::to_string(actions) + "], one per action");
    }
    if (std::set(manifest.actions.begin(), manifest.actions.end()).size() != manifest.actions.size()) {
      complaints.emplace_back("actions: a name stands twice");
    }
    return;
  }
  const auto& output = std::get<ContinuousOutput>(manifest.outputs.front());
  const auto units = static_cast<std::int64_t>(output.units.size());
  if (output.shape != Shape{1, units}) {
    complaints.push_back(shape_start("outputs", output.name, output.shape) + "expected [1, " + std::to_string(units) +
                         "], one per unit");
  }
}

}  // namespace

std::vector<std::string> complaints_about(const Manifest& manifest) {
  const auto frames = of_kind<FrameInput>(manifest.inputs);
  if (frames.size() != 1) {
    return {"inputs: expected exactly one of role frame, found " + std::to_string(frames.size())};
  }
  Complaints complaints;
  const auto histories = of_kind<HistoryInput>(manifest.inputs);
  if (histories.size() > 1) {
    complaints.emplace_back("inputs: expected one of role history at most");
  }
  look_at_frame(*frames.front(), complaints);
  if (!histories.empty()) {
    look_at_history(*histories.front(), manifest, complaints);
  }
  look_at_output(manifest, complaints);
  return complaints;
}

}  // namespace reflexd
