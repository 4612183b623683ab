#include "compiler/driver/Options.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

using namespace torch_tile;
using llvm::StringRef;

Status torch_tile::parseOptions(std::string_view text, CompileOptions &options) {
  options = CompileOptions();
  auto bad = [](StringRef key, StringRef expected, StringRef value) {
    return Status::invalidInput(
        "options", (llvm::Twine("option '") + key + "' expected " + expected + ", got '" + value + "'").str());
  };
  auto parseBool = [](StringRef value, bool &result) {
    result = value == "true";
    return value == "true" || value == "false";
  };
  auto parseNumbers = [](StringRef value, std::vector<int64_t> &result) {
    llvm::SmallVector<StringRef> numbers;
    value.split(numbers, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    return llvm::all_of(numbers, [&](StringRef number) {
      return !number.getAsInteger(10, result.emplace_back()) && result.back() >= 0;
    });
  };
  std::string target = "host";
  std::optional<std::string> features;
  bool hasSleef = true;
  llvm::SmallVector<StringRef> lines;
  StringRef(text.data(), text.size()).split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    if (line.trim().empty())
      continue;
    auto [key, value] = line.split('=');
    key = key.trim();
    value = value.trim();
    if (key == "target") {
      if (value.empty())
        return bad(key, "host or the name of a processor", value);
      target = value.str();
    } else if (key == "features") {
      features = value.str();
    } else if (key == "sleef") {
      if (!parseBool(value, hasSleef))
        return bad(key, "true or false", value);
    } else if (key == "fusion") {
      if (!parseBool(value, options.fusion))
        return bad(key, "true or false", value);
    } else if (key == "distinct_arguments") {
      if (!parseBool(value, options.distinctArguments))
        return bad(key, "true or false", value);
    } else if (key == "argument_multiples") {
      if (!parseNumbers(value, options.argumentMultiples))
        return bad(key, "numbers and commas", value);
    } else if (key == "schedules") {
      if (!parseNumbers(value, options.schedules))
        return bad(key, "numbers and commas", value);
    } else if (key == "emulate_precision_casts") {
      if (!parseBool(value, options.emulatePrecisionCasts))
        return bad(key, "true or false", value);
    } else if (key == "deterministic") {
      if (!parseBool(value, options.deterministic))
        return bad(key, "true or false", value);
    } else if (key == "program_threads") {
      if (value.getAsInteger(10, options.programThreads) || options.programThreads < 0)
        return bad(key, "a number of threads", value);
    } else if (key == "fast_arithmetic") {
      if (!parseBool(value, options.fastArithmetic))
        return bad(key, "true or false", value);
    } else if (key == "num_stages") {
      if (value.getAsInteger(10, options.numStages) || options.numStages < 1)
        return bad(key, "a number of at least 1", value);
    } else if (key == "max_registers") {
      if (value.getAsInteger(10, options.maxRegisters) || options.maxRegisters < 0 || options.maxRegisters > 255)
        return bad(key, "a number of registers up to 255", value);
    } else if (key == "body_budget") {
      if (value.getAsInteger(10, options.budget.bodyWork) || options.budget.bodyWork <= 0)
        return bad(key, "a number of operations", value);
      options.budget.groupWork = 2 * options.budget.bodyWork;
    } else if (key == "index_budget") {
      if (value.getAsInteger(10, options.budget.indexNodes) || options.budget.indexNodes == 0)
        return bad(key, "a number of operations", value);
    } else if (key == "kernel_budget_ms") {
      int64_t &ms = options.timeBudget.ms;
      if (value.getAsInteger(10, ms) || ms < 0 || ms > INT32_MAX)
        return bad(key, "milliseconds", value);
    } else if (key == "threads") {
      if (value.getAsInteger(10, options.numThreads) || options.numThreads < 0)
        return bad(key, "a number of threads", value);
    } else {
      return Status::invalidInput(
          "options",
          (llvm::Twine("unknown option '") + key +
           "'; known are target, features, sleef, threads, program_threads, max_registers, fusion, body_budget, "
           "index_budget, kernel_budget_ms, distinct_arguments, argument_multiples, emulate_precision_casts, "
           "deterministic, schedules")
              .str());
    }
  }
  if (StringRef(target).starts_with("sm_")) {
    options.gpu = codegen::GpuOptions::named(target);
    if (!options.gpu)
      return bad("target", "one of " + codegen::GpuOptions::knownNames(), target);
    if (features)
      options.gpu->features = *features;
    return Status::ok();
  }
  if (target == "host") {
    // Asking the processor takes some time, and the answer does not change.
    static const codegen::CpuOptions host = codegen::CpuOptions::host();
    options.cpu = host;
  } else {
    options.cpu = codegen::CpuOptions::named(target);
  }
  if (features)
    options.cpu.features = *features;
  options.cpu.hasSleef = hasSleef;
  return Status::ok();
}
