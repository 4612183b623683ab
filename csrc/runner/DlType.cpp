#include "runner/Engine.h"

namespace torch_tile::runner {

using artifact::ElementType;

DlType toDlType(ElementType type) {
  static constexpr DlType types[] = {
      {2, 64},  // Float64
      {2, 32},  // Float32
      {2, 16},  // Float16
      {4, 16},  // BFloat16
      {0, 64},  // Int64
      {0, 32},  // Int32
      {0, 16},  // Int16
      {0, 8},   // Int8
      {1, 8},   // UInt8
      {6, 8},   // Bool
      {10, 8},  // Float8E4M3FN
      {12, 8},  // Float8E5M2
      {5, 64},  // Complex64
      {5, 128}, // Complex128
      {1, 16},  // UInt16
      {1, 32},  // UInt32
      {1, 64},  // UInt64
      {5, 32},  // Complex32
      {11, 8},  // Float8E4M3FNUZ
      {13, 8},  // Float8E5M2FNUZ
      {14, 8},  // Float8E8M0FNU
      {17, 8},  // Float4E2M1FNx2
  };
  return types[static_cast<size_t>(type)];
}

bool fromDlType(DlType given, ElementType &type) {
  for (int i = 0; i <= static_cast<int>(ElementType::Float4E2M1FNx2); ++i) {
    DlType known = toDlType(static_cast<ElementType>(i));
    if (known.code == given.code && known.bits == given.bits) {
      type = static_cast<ElementType>(i);
      return true;
    }
  }
  return false;
}

} // namespace torch_tile::runner
