#include "runtime/package/Guards.h"

#include <algorithm>
#include <string>

namespace torch_tile::runtime {

using namespace artifact;

namespace {

Status refuse(const PackageInput &input, const std::string &text) {
  return Status::invalidInput("call", "argument `" + input.name + "`" + text);
}

std::string describe(PackageInput::Range range) {
  if (range.min == range.max)
    return std::to_string(range.min);
  if (range.max == INT64_MAX)
    return "at least " + std::to_string(range.min);
  return std::to_string(range.min) + " to " + std::to_string(range.max);
}

} // namespace

const char *nameOf(ElementType type) {
  static constexpr const char *names[] = {
      "float64",        "float32",         "float16",   "bfloat16",        "int64",
      "int32",          "int16",           "int8",      "uint8",           "bool",
      "float8_e4m3fn",  "float8_e5m2",     "complex64", "complex128",      "uint16",
      "uint32",         "uint64",          "complex32", "float8_e4m3fnuz", "float8_e5m2fnuz",
      "float8_e8m0fnu", "float4_e2m1fn_x2"};
  return names[static_cast<size_t>(type)];
}

Guards::Guards(const Package &package, const Variant &variant, const Artifact &program)
    : package(package), variant(variant), program(program), sizes(program) {
  for (ExprId id : sizes.dynamic()) {
    std::vector<uint32_t> needed = sizes.symbolsOf(id);
    if (std::all_of(needed.begin(), needed.end(), [&](uint32_t symbol) {
          return program.symbolSources[symbol].kind != SymbolSource::Kind::ExternResult;
        }))
      early.push_back(id);
  }
}

Status Guards::checkRange(uint32_t number, const ArgumentView &argument) const {
  const PackageInput &input = package.inputs[number];
  bool isTensor = input.kind == PackageInput::Kind::Tensor;
  if (argument.isTensor != isTensor)
    return refuse(input, isTensor ? " expected a tensor, got an integer" : " expected an integer, got a tensor");
  if (!isTensor) {
    PackageInput::Range range = input.sizes[0];
    if (argument.value < range.min || argument.value > range.max)
      return refuse(input, " expected " + describe(range) + ", got " + std::to_string(argument.value));
    return Status::ok();
  }
  if (argument.type != input.type)
    return refuse(input, std::string(" expected ") + nameOf(input.type) + ", got " + nameOf(argument.type));
  if (argument.sizes.size() != input.sizes.size())
    return refuse(input, " expected " + std::to_string(input.sizes.size()) + " dimensions, got " +
                             std::to_string(argument.sizes.size()));
  for (size_t dim = 0; dim < input.sizes.size(); ++dim)
    if (argument.sizes[dim] < input.sizes[dim].min || argument.sizes[dim] > input.sizes[dim].max)
      return refuse(input, ": size of dimension " + std::to_string(dim) + " expected " + describe(input.sizes[dim]) +
                               ", got " + std::to_string(argument.sizes[dim]));
  return Status::ok();
}

void Guards::evaluate(std::span<const ArgumentView> arguments, std::vector<int64_t> &values) const {
  values = sizes.constants();
  if (early.empty())
    return;
  std::vector<int64_t> symbols(program.symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymbolSource &origin = program.symbolSources[i];
    if (origin.kind == SymbolSource::Kind::ExternResult)
      continue;
    InputSource source = variant.inputs[origin.index];
    if (source.kind == InputSource::Kind::Constant)
      continue; // constants have no symbols
    const ArgumentView &argument = arguments[source.index];
    if (origin.kind == SymbolSource::Kind::Scalar)
      symbols[i] = argument.value;
    else if (origin.kind == SymbolSource::Kind::Size && origin.dim < argument.sizes.size())
      symbols[i] = argument.sizes[origin.dim];
  }
  sizes.evaluate(early, symbols.data(), values.data());
}

Status Guards::checkSymbols(std::span<const ArgumentView> arguments) const {
  for (const SymbolSource &origin : program.symbolSources) {
    if (origin.kind != SymbolSource::Kind::Scalar && origin.kind != SymbolSource::Kind::Size)
      continue;
    InputSource source = variant.inputs[origin.index];
    if (source.kind == InputSource::Kind::Constant)
      continue;
    const ArgumentView &argument = arguments[source.index];
    bool isSize = origin.kind == SymbolSource::Kind::Size;
    if (isSize && origin.dim >= argument.sizes.size())
      continue; // refused with the whole argument
    int64_t value = isSize ? argument.sizes[origin.dim] : argument.value;
    if (value < origin.least || value > origin.greatest)
      return refuse(package.inputs[source.index],
                    (isSize ? ": size of dimension " + std::to_string(origin.dim) : std::string()) + " expected " +
                        describe({origin.least, origin.greatest}) + ", as the program was compiled for, got " +
                        std::to_string(value));
  }
  return Status::ok();
}

Status Guards::checkEqual(std::span<const ArgumentView> arguments) const {
  if (Status status = checkSymbols(arguments); !status.isOk())
    return status;
  if (early.empty())
    return Status::ok(); // the ranges have said it all
  std::vector<int64_t> values;
  evaluate(arguments, values);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    InputSource source = variant.inputs[i];
    if (source.kind == InputSource::Kind::Constant || program.inputs[i].kind != Input::Kind::Tensor)
      continue;
    const ArgumentView &argument = arguments[source.index];
    const std::vector<ExprId> &expected = program.inputs[i].sizes;
    const PackageInput &input = package.inputs[source.index];
    if (expected.size() != argument.sizes.size())
      return refuse(input, " expected " + std::to_string(expected.size()) + " dimensions, got " +
                               std::to_string(argument.sizes.size()));
    for (size_t dim = 0; dim < expected.size(); ++dim)
      if (values[expected[dim]] != argument.sizes[dim])
        return refuse(input, ": size of dimension " + std::to_string(dim) + " expected " +
                                 std::to_string(values[expected[dim]]) + " as other sizes of the call are, got " +
                                 std::to_string(argument.sizes[dim]));
  }
  return Status::ok();
}

Status Guards::checkStrides(std::span<const ArgumentView> arguments) const {
  if (std::none_of(package.inputs.begin(), package.inputs.end(), [](const auto &input) { return input.needsStrides; }))
    return Status::ok();
  std::vector<int64_t> values;
  evaluate(arguments, values);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    InputSource source = variant.inputs[i];
    if (source.kind == InputSource::Kind::Constant || !package.inputs[source.index].needsStrides)
      continue;
    const ArgumentView &argument = arguments[source.index];
    const std::vector<ExprId> &strides = program.inputs[i].strides;
    for (size_t dim = 0; dim < std::min(strides.size(), argument.strides.size()); ++dim) {
      int64_t expected = values[strides[dim]];
      if (argument.sizes[dim] > 1 && argument.strides[dim] != expected)
        return refuse(package.inputs[source.index],
                      ": stride of dimension " + std::to_string(dim) + " expected " + std::to_string(expected) +
                          ", with which the model was exported, got " + std::to_string(argument.strides[dim]) +
                          "; as_strided reads the memory of this argument");
    }
  }
  return Status::ok();
}

Status Guards::check(std::span<const ArgumentView> arguments) const {
  if (arguments.size() != package.inputs.size())
    return Status::invalidInput("call", "expected " + std::to_string(package.inputs.size()) + " arguments, got " +
                                            std::to_string(arguments.size()));
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (Status status = checkRange(i, arguments[i]); !status.isOk())
      return status;
  Status status = checkEqual(arguments);
  return status.isOk() ? checkStrides(arguments) : status;
}

} // namespace torch_tile::runtime
