#include "runtime/fx/TypePromotion.h"

#include <c10/core/DefaultDtype.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/overflows.h>

#include <cmath>

namespace torch_tile::runtime::fx {

void TypePromotion::join(std::optional<at::ScalarType> &category, at::ScalarType dtype) {
  category = category ? c10::promoteTypes(*category, dtype) : dtype;
}

void TypePromotion::addFloat() { join(scalar, c10::get_default_dtype_as_scalartype()); }

/// Bool, then integers, then floats, then complex: only a higher kind in a lower category changes the dtype.
static int kindOf(at::ScalarType dtype) {
  if (c10::isComplexType(dtype))
    return 3;
  if (c10::isFloatingType(dtype))
    return 2;
  return dtype == at::kBool ? 0 : 1;
}

static std::optional<at::ScalarType> combine(std::optional<at::ScalarType> higher,
                                             std::optional<at::ScalarType> lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  return kindOf(*lower) > kindOf(*higher) ? c10::promoteTypes(*higher, *lower) : *higher;
}

at::ScalarType TypePromotion::result() const { return combine(combine(dim, zeroDim), scalar).value_or(at::kFloat); }

at::ScalarType floatTypeOf(at::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true) ? c10::get_default_dtype_as_scalartype() : dtype;
}

bool isExact(double value, at::ScalarType dtype) {
  if (std::isnan(value))
    return true;
  if (dtype == at::kBFloat16)
    return static_cast<double>(static_cast<float>(c10::BFloat16(static_cast<float>(value)))) == value;
  if (dtype == at::kHalf)
    return static_cast<double>(static_cast<float>(c10::Half(static_cast<float>(value)))) == value;
  return true;
}

template <typename T> static bool isInRangeOf(const Scalar &value) {
  return value.kind == Scalar::Kind::Float ? !c10::overflows<T>(value.number) : !c10::overflows<T>(value.integer);
}

bool isInRange(const Scalar &value, at::ScalarType dtype) {
  if (!value.isConstant()) // any integer of a call, of which wide dtypes hold those that occur
    return value.isTruth || !(dtype == at::kChar || dtype == at::kByte || dtype == at::kShort || dtype == at::kHalf);
  switch (dtype) {
  case at::kFloat:
    return isInRangeOf<float>(value);
  case at::kHalf:
    return isInRangeOf<c10::Half>(value);
  case at::kBFloat16:
    return isInRangeOf<c10::BFloat16>(value);
  case at::kLong:
    return isInRangeOf<int64_t>(value);
  case at::kInt:
    return isInRangeOf<int32_t>(value);
  case at::kShort:
    return isInRangeOf<int16_t>(value);
  case at::kChar:
    return isInRangeOf<int8_t>(value);
  case at::kByte:
    return isInRangeOf<uint8_t>(value);
  default: // of bool and float64 every number
    return true;
  }
}

bool isGenerated(at::ScalarType dtype) {
  switch (dtype) {
  case at::kDouble:
  case at::kFloat:
  case at::kHalf:
  case at::kBFloat16:
  case at::kLong:
  case at::kInt:
  case at::kShort:
  case at::kChar:
  case at::kByte:
  case at::kBool:
    return true;
  default:
    return false;
  }
}

bool isConverted(at::ScalarType dtype) {
  switch (dtype) {
  case at::kFloat8_e4m3fn:
  case at::kFloat8_e5m2:
  case at::kFloat8_e4m3fnuz:
  case at::kFloat8_e5m2fnuz:
    return true;
  default:
    return isGenerated(dtype);
  }
}

} // namespace torch_tile::runtime::fx
