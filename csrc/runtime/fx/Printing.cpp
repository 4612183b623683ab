#include "runtime/fx/Printing.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace torch_tile::runtime::fx {

const char *elementTypeName(at::ScalarType dtype) {
  switch (dtype) {
  case at::kDouble:
    return "f64";
  case at::kFloat:
    return "f32";
  case at::kHalf:
    return "f16";
  case at::kBFloat16:
    return "bf16";
  case at::kLong:
    return "i64";
  case at::kInt:
    return "i32";
  case at::kShort:
    return "i16";
  case at::kChar:
    return "i8";
  case at::kByte:
    return "ui8";
  case at::kBool:
    return "i1";
  case at::kUInt16:
    return "ui16";
  case at::kUInt32:
    return "ui32";
  case at::kUInt64:
    return "ui64";
  case at::kFloat8_e4m3fn:
    return "f8E4M3FN";
  case at::kFloat8_e5m2:
    return "f8E5M2";
  case at::kFloat8_e4m3fnuz:
    return "f8E4M3FNUZ";
  case at::kFloat8_e5m2fnuz:
    return "f8E5M2FNUZ";
  case at::kFloat8_e8m0fnu:
    return "f8E8M0FNU";
  case at::kFloat4_e2m1fn_x2:
    return "f4E2M1FN";
  case at::kComplexHalf:
    return "complex<f16>";
  case at::kComplexFloat:
    return "complex<f32>";
  case at::kComplexDouble:
    return "complex<f64>";
  default:
    return nullptr;
  }
}

std::vector<SizeExpr> contiguousStrides(SizeContext &context, const std::vector<SizeExpr> &sizes) {
  std::vector<SizeExpr> strides(sizes.size());
  SizeExpr stride = context.constant(1);
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[k] = stride;
    if (!sizes[k].isConstant(0))
      stride = context.mul(stride, sizes[k]);
  }
  return strides;
}

void appendFloat(std::string &out, double value) {
  char buffer[40];
  if (!std::isfinite(value)) {
    auto end = std::to_chars(buffer, buffer + sizeof buffer, std::bit_cast<uint64_t>(value), 16).ptr;
    std::transform(buffer, end, buffer, [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
    out.append("0x").append(buffer, end).append(" : f64");
    return;
  }
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  // MLIR wants a point in every float literal.
  size_t exponent = text.find('e');
  out += text.substr(0, exponent);
  if (text.find('.') == std::string_view::npos)
    out += ".0";
  if (exponent != std::string_view::npos)
    out += text.substr(exponent);
  out += " : f64";
}

void appendString(std::string &out, std::string_view text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7f)
      out.append({'\\', digits[byte >> 4], digits[byte & 15]});
    else
      out += c;
  }
  out += '"';
}

void appendSize(std::string &out, SizeExpr e) {
  if (auto value = e.constant())
    out += std::to_string(*value);
  else
    out.append("\"").append(e.str()).append("\"");
}

void appendExprAttr(std::string &out, SizeExpr e) { out.append("#graph.expr<\"").append(e.str()).append("\">"); }

static void appendSizes(std::string &out, const std::vector<SizeExpr> &sizes) {
  out += '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i)
      out += ", ";
    appendSize(out, sizes[i]);
  }
  out += ']';
}

std::string tensorTypeText(SizeContext &context, const TensorType &type) {
  std::string out = "!graph.tensor<";
  appendSizes(out, type.sizes);
  out.append(", ").append(elementTypeName(type.dtype));
  if (type.strides != contiguousStrides(context, type.sizes)) {
    out += ", ";
    appendSizes(out, type.strides);
  }
  out += '>';
  return out;
}

static std::string named(std::string_view name) { return std::string(name).append(" = "); }

std::string dimsAttr(std::string_view name, std::span<const int64_t> dims) {
  std::string out = named(name) + "array<i64";
  for (size_t i = 0; i < dims.size(); ++i)
    out.append(i ? ", " : ": ").append(std::to_string(dims[i]));
  return out + ">";
}

std::string intAttr(std::string_view name, int64_t value) { return named(name) + std::to_string(value) + " : i64"; }

std::string sizeAttr(std::string_view name, SizeExpr value) {
  if (auto constant = value.constant())
    return intAttr(name, *constant);
  std::string out = named(name);
  appendExprAttr(out, value);
  return out;
}

std::string sizesAttr(std::string_view name, const std::vector<SizeExpr> &values) {
  if (std::all_of(values.begin(), values.end(), [](SizeExpr e) { return e.isConstant(); })) {
    std::vector<int64_t> constants;
    for (SizeExpr e : values)
      constants.push_back(*e.constant());
    return dimsAttr(name, constants);
  }
  std::string out = named(name) + "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i)
      out += ", ";
    appendExprAttr(out, values[i]);
  }
  return out + "]";
}

std::string floatAttr(std::string_view name, double value) {
  std::string out = named(name);
  appendFloat(out, value);
  return out;
}

std::string boolAttr(std::string_view name, bool value) { return named(name) + (value ? "true" : "false"); }

std::string elementAttr(std::string_view name, const Scalar &value, at::ScalarType dtype) {
  if (c10::isFloatingType(dtype))
    return floatAttr(name, value.number);
  if (dtype == at::kBool)
    return boolAttr(name, value.number != 0);
  // Not all integers of 64 bits are numbers of float64.
  return intAttr(name, value.kind == Scalar::Kind::Float ? static_cast<int64_t>(value.number) : value.integer);
}

std::string stringAttr(std::string_view name, std::string_view value) {
  std::string out = named(name);
  appendString(out, value);
  return out;
}

std::string joinAttrs(std::initializer_list<std::string> attrs) {
  std::string out;
  for (const std::string &attr : attrs) {
    if (attr.empty())
      continue;
    if (!out.empty())
      out += ", ";
    out += attr;
  }
  return out;
}

void appendOperands(std::string &out, std::span<const Value> operands) {
  for (size_t i = 0; i < operands.size(); ++i)
    out.append(i ? ", " : "").append(operands[i].name);
}

void appendTypes(std::string &out, std::span<const Value> values) {
  out += '(';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i)
      out += ", ";
    switch (values[i].kind) {
    case Value::Kind::Tensor:
      out += values[i].type.text;
      break;
    case Value::Kind::Size:
      out += "!graph.size<";
      appendSize(out, values[i].size);
      out += '>';
      break;
    case Value::Kind::None:
      out += "none";
      break;
    case Value::Kind::Opaque:
      throw UnsupportedGraph{"a value that is neither tensor, integer nor None"};
    }
  }
  out += ')';
}

} // namespace torch_tile::runtime::fx
