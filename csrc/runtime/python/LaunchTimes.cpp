#include "runtime/python/LaunchTimes.h"

#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <deque>
#include <optional>
#include <unordered_set>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct Span {
  std::string name;
  std::optional<c10::Event> begin, end;
  Clock::time_point beginTime, endTime;
};

/// What is under way on this thread.
struct Observation {
  std::unordered_set<std::string> names;
  c10::Device device;
  std::deque<Span> spans; // contexts of observers point to them

  void mark(std::optional<c10::Event> &event, Clock::time_point &time) const {
    if (device.is_cuda()) {
      event.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);
      event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    }
    time = Clock::now();
  }
};

thread_local Observation *current = nullptr;

struct SpanContext : at::ObserverContext {
  explicit SpanContext(Span &span) : span(span) {}
  Span &span;
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &function) {
  if (!current || !current->names.contains(function.name()))
    return nullptr;
  Span &span = current->spans.emplace_back();
  span.name = function.name();
  current->mark(span.begin, span.beginTime);
  return std::make_unique<SpanContext>(span);
}

void end(const at::RecordFunction &, at::ObserverContext *context) {
  if (auto *of = static_cast<SpanContext *>(context); of && current)
    current->mark(of->span.end, of->span.endTime);
}

} // namespace

std::vector<std::pair<std::string, double>>
timeLaunches(const py::function &call, const std::vector<std::string> &names, const std::string &device) {
  TORCH_CHECK(!current, "time_launches is under way on this thread");
  Observation observation{{names.begin(), names.end()}, c10::Device(device), {}};
  struct Registered {
    Registered(Observation &observation)
        : handle(
              at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}))) {
      current = &observation;
    }
    ~Registered() {
      current = nullptr;
      at::removeCallback(handle);
    }
    at::CallbackHandle handle;
  };
  {
    Registered registered(observation);
    call();
  }
  std::vector<std::pair<std::string, double>> times;
  for (Span &span : observation.spans) {
    double us = std::chrono::duration<double, std::micro>(span.endTime - span.beginTime).count();
    TORCH_CHECK(!span.begin || span.end, "no event could be recorded behind kernel '", span.name, "'");
    if (span.end) {
      span.end->synchronize();
      us = 1e3 * span.begin->elapsedTime(*span.end);
    }
    times.emplace_back(std::move(span.name), us);
  }
  return times;
}

} // namespace torch_tile::runtime
