// The outcome of a step, without LLVM or torch types: what crosses the border between compiler and runtime.
#pragma once

#include <string>
#include <utility>

namespace torch_tile {

/// OutOfResources: the kernel needs more of something than a device has.
enum class StatusKind { Ok, InvalidInput, Unsupported, Internal, OutOfResources };

struct Status {
  StatusKind kind = StatusKind::Ok;
  std::string stage;
  std::string text;
  int line = 0; // in the graph text; 0 if unknown

  static Status ok() { return {}; }
  static Status invalidInput(std::string stage, std::string text, int line = 0) {
    return {StatusKind::InvalidInput, std::move(stage), std::move(text), line};
  }
  static Status unsupported(std::string stage, std::string text, int line = 0) {
    return {StatusKind::Unsupported, std::move(stage), std::move(text), line};
  }
  static Status internal(std::string stage, std::string text, int line = 0) {
    return {StatusKind::Internal, std::move(stage), std::move(text), line};
  }
  bool isOk() const { return kind == StatusKind::Ok; }
};

} // namespace torch_tile
