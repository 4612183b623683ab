// Pieces of graph dialect text.
#pragma once

#include "runtime/fx/Value.h"

#include <span>
#include <string_view>

namespace torch_tile::runtime::fx {

/// The element type, or null where the dialect has none.
const char *elementTypeName(at::ScalarType dtype);

/// Row-major contiguous strides; a size of 0 leaves the stride as it is, as the dialect has it.
std::vector<SizeExpr> contiguousStrides(SizeContext &context, const std::vector<SizeExpr> &sizes);

void appendFloat(std::string &out, double value); // "1.5 : f64"
void appendString(std::string &out, std::string_view text);
void appendSize(std::string &out, SizeExpr e);     // 3 or "s0*2"
void appendExprAttr(std::string &out, SizeExpr e); // #graph.expr<"s0*2">

/// Names: "%0, %1"; types: "(!graph.tensor<[4], f32>, none)".
void appendOperands(std::string &out, std::span<const Value> operands);
void appendTypes(std::string &out, std::span<const Value> values);

std::string tensorTypeText(SizeContext &context, const TensorType &type);

/// `name = array<i64: 0, 1>`
std::string dimsAttr(std::string_view name, std::span<const int64_t> dims);
/// `name = 3 : i64`
std::string intAttr(std::string_view name, int64_t value);
/// `name = 3 : i64`, or `name = #graph.expr<"s0">`
std::string sizeAttr(std::string_view name, SizeExpr value);
/// `name = array<i64: 0, 1>`, or an array of expressions where one is not constant.
std::string sizesAttr(std::string_view name, const std::vector<SizeExpr> &values);
std::string floatAttr(std::string_view name, double value);
std::string boolAttr(std::string_view name, bool value);
/// A constant number as an element of the dtype.
std::string elementAttr(std::string_view name, const Scalar &value, at::ScalarType dtype);
std::string stringAttr(std::string_view name, std::string_view value);
/// Joins what is not empty with commas.
std::string joinAttrs(std::initializer_list<std::string> attrs);

} // namespace torch_tile::runtime::fx
