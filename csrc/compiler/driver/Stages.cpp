#include "compiler/driver/Stages.h"

#include "compiler/driver/Guard.h"
#include "support/FaultPoint.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace torch_tile;

void Stages::done(const char *name) {
  auto now = Clock::now();
  stagesMs.emplace_back(name, std::chrono::duration<double, std::milli>(now - last).count());
  last = now;
  noteStage(name);
  FaultPoints::reach(name);
}

void Stages::dump(const char *file, std::string_view text) {
  if (!hasDumps())
    return;
  auto before = Clock::now();
  hooks.dump(file, text);
  last += Clock::now() - before; // dumping is no part of any stage
}

void Stages::dump(const char *file, mlir::Operation *op) {
  if (!hasDumps())
    return;
  auto before = Clock::now();
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  stream << '\n';
  hooks.dump(file, text);
  last += Clock::now() - before;
}

void Stages::addKernel(std::string name, Clock::time_point begin, std::vector<std::pair<std::string, double>> stepsMs) {
  double beginMs = std::chrono::duration<double, std::milli>(begin - start).count();
  kernels.push_back({std::move(name), beginMs, std::move(stepsMs)});
}

std::string Stages::timing() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, 2);
  auto writeSteps = [&](const std::vector<std::pair<std::string, double>> &steps) {
    double total = 0;
    for (const auto &[name, ms] : steps) {
      json.attribute(name, ms);
      total += ms;
    }
    json.attribute("total", total);
  };
  json.object([&] {
    json.attributeObject("stages_ms", [&] { writeSteps(stagesMs); });
    json.attributeArray("kernels", [&] {
      for (const Entry &kernel : kernels)
        json.object([&] {
          json.attribute("name", kernel.name);
          json.attribute("begin_ms", kernel.beginMs);
          json.attributeObject("steps_ms", [&] { writeSteps(kernel.stepsMs); });
        });
    });
  });
  stream << '\n';
  return text;
}
