// Lines of the graph's text: values, operations and the function around them.
#include "runtime/fx/Casts.h"
#include "runtime/fx/Importer.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

void Importer::startLine(std::string &name, size_t numResults) {
  name = "%" + std::to_string(nextName++);
  body.append("  ").append(name);
  if (numResults > 1)
    body.append(":").append(std::to_string(numResults));
  body += " = ";
}

void Importer::endLine() {
  body += '\n';
  result.lines.emplace_back(++line, nodeName);
}

std::vector<Value> Importer::emitMany(std::string_view op, std::span<const Value> operands, std::string_view attrs,
                                      std::vector<TensorType> types) {
  std::vector<Value> results(types.size());
  std::string name;
  if (op == "copy_")
    noteWrite();
  startLine(name, types.size());
  body.append("graph.").append(op);
  if (!operands.empty())
    body += ' ';
  appendOperands(body, operands);
  if (!attrs.empty())
    body.append(" {").append(attrs).append("}");
  body += " : ";
  for (size_t i = 0; i < types.size(); ++i) {
    results[i].kind = Value::Kind::Tensor;
    results[i].type = std::move(types[i]);
    results[i].name = results.size() > 1 ? name + "#" + std::to_string(i) : name;
  }
  appendTypes(body, operands);
  body += " -> ";
  if (results.size() == 1)
    body += results[0].type.text;
  else
    appendTypes(body, results);
  endLine();
  return results;
}

Value Importer::emit(std::string_view op, std::span<const Value> operands, std::string_view attrs, TensorType type) {
  std::vector<TensorType> types;
  types.push_back(std::move(type));
  return std::move(emitMany(op, operands, attrs, std::move(types))[0]);
}

void Importer::emitOutside(std::string_view op, std::span<const Value> operands, std::string_view attrs,
                           std::vector<Value> &results) {
  std::string name;
  if (results.empty())
    body += "  ";
  else
    startLine(name, results.size());
  body.append("graph.").append(op).append("(");
  appendOperands(body, operands);
  body.append(") {").append(attrs).append("} : ");
  appendTypes(body, operands);
  body += " -> ";
  std::vector<Value> defined(results);
  for (Value &value : defined) {
    if (value.kind == Value::Kind::Size)
      value.size = value.isTruth         ? sizes.defineTruth(value.meta)
                   : value.isPythonFloat ? sizes.defineFloat(value.meta)
                                         : sizes.readDefinition(value.meta);
    for (SizeExpr size : value.type.sizes)
      sizes.define(size);
  }
  appendTypes(body, defined);
  endLine();
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].isTruth || results[i].isPythonFloat)
      results[i].size = defined[i].size;
    else if (results[i].kind == Value::Kind::Size && defined[i].size != results[i].size &&
             sizes.isDefined(results[i].size))
      emitCheck(sizes.equals(defined[i].size, results[i].size),
                defined[i].size.str() + " expected to equal " + results[i].size.str());
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].name = results.size() > 1 ? name + "#" + std::to_string(i) : name;
    results[i].isForeignStorage = true;
  }
}

void Importer::emitCheck(SizeExpr condition, std::string_view message) {
  if (condition.constant() && !condition.isConstant(0))
    return;
  hasEffect = true;
  body += "  graph.check {condition = ";
  appendExprAttr(body, condition);
  body += ", " + stringAttr("message", message) + "}";
  endLine();
}

Value Importer::cast(const Value &x, at::ScalarType dtype) {
  if (x.type.dtype == dtype)
    return x;
  return castTo(*this, x, withDtype(x.type, dtype));
}

/// Whether this torch gives float8_e4m3fn its largest number for what is beyond, or NaN: that differs between releases.
static bool saturatesFloat8(bool isOnGpu) {
  auto ask = [](c10::Device device) {
    c10::impl::ExcludeDispatchKeyGuard guard(
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
    at::Tensor large = at::full({1}, 1e30, at::TensorOptions(device).dtype(at::kFloat));
    return !at::isnan(large.to(at::kFloat8_e4m3fn).to(at::kFloat)).item<bool>();
  };
  static const bool onCpu = ask(at::kCPU);
  if (!isOnGpu || !at::hasCUDA())
    return onCpu;
  static const bool onGpu = ask(at::kCUDA);
  return onGpu;
}

Value castTo(Importer &importer, const Value &x, TensorType type) {
  bool isToInteger = c10::isIntegralType(type.dtype, /*includeBool=*/false);
  bool saturates = importer.isOnGpu() && c10::isFloatingType(x.type.dtype) && isToInteger;
  saturates |= type.dtype == at::kFloat8_e4m3fn && saturatesFloat8(importer.isOnGpu());
  return importer.emit("cast", {x}, saturates ? "saturate" : "", std::move(type));
}

Value Importer::full(const Scalar &value, const TensorType &type) {
  if (!value.isConstant()) {
    Value size = emit("size_value", {}, sizeAttr("expr", value.size), withDtype(type, at::kLong));
    return cast(size, type.dtype);
  }
  return emit("full", {}, elementAttr("value", value, type.dtype), type);
}

std::string Importer::header() const {
  std::string out = "(";
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.append(i ? ", " : "").append(inputs[i].name).append(": ");
    std::string types;
    appendTypes(types, {&inputs[i], 1});
    out.append(types, 1, types.size() - 2);
    if (isUnaligned(inputs[i]))
      out += " {graph.unaligned}";
  }
  out += ") -> ";
  appendTypes(out, outputs);
  out += "\n    attributes {symbols = [";
  for (size_t i = 0; i < sizes.symbols().size(); ++i) {
    const Sizes::Symbol &symbol = sizes.symbols()[i];
    out.append(i ? ", " : "").append("#graph.symbol<\"").append(symbol.name);
    out.append("\", min = ").append(std::to_string(symbol.min)).append(", max = ").append(std::to_string(symbol.max));
    out.append(", hint = ")
        .append(std::to_string(symbol.hint))
        .append(sizes.isNumber(symbol) ? ", number = true>" : ">");
  }
  return out + "]} {\n";
}

} // namespace torch_tile::runtime::fx
