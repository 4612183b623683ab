// Names of functions in the text form of expressions.
#pragma once

#include "support/FloatSizes.h"

#include <array>
#include <string_view>

namespace torch_tile::detail {

struct SizeFunction {
  std::string_view name;
  SizeFn fn;
};
inline constexpr std::array<SizeFunction, 18> sizeFunctions{{{"FloorDiv", SizeFn::FloorDiv},
                                                             {"CleanDiv", SizeFn::CleanDiv},
                                                             {"CeilDiv", SizeFn::CeilDiv},
                                                             {"TruncDiv", SizeFn::TruncDiv},
                                                             {"Mod", SizeFn::Mod},
                                                             {"PythonMod", SizeFn::PythonMod},
                                                             {"Min", SizeFn::Min},
                                                             {"Max", SizeFn::Max},
                                                             {"IntTrueDiv", sizeFn(FloatFn::IntTrueDiv)},
                                                             {"FloatAdd", sizeFn(FloatFn::Add)},
                                                             {"FloatMul", sizeFn(FloatFn::Mul)},
                                                             {"FloatDiv", sizeFn(FloatFn::TrueDiv)},
                                                             {"FloatRaise", sizeFn(FloatFn::Pow)},
                                                             {"FloatMin", sizeFn(FloatFn::Min)},
                                                             {"FloatMax", sizeFn(FloatFn::Max)},
                                                             {"FloatToInt", sizeFn(FloatFn::ToInt)},
                                                             {"FloatUnary", sizeFn(FloatFn::Unary)},
                                                             {"FloatRound", sizeFn(FloatFn::RoundDecimal)}}};

} // namespace torch_tile::detail
