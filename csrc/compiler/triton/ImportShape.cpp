// Shapes, reductions, products.
#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/triton/TritonImporter.h"

using namespace mlir;
using namespace torch_tile::triton;

std::optional<LogicalResult> TritonImporter::importShape(Operation *op, StringRef name) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    types.push_back(convert(type));
    if (!types.back())
      return std::nullopt;
  }
  if (name == "tt.get_program_id" || name == "tt.get_num_programs") {
    int64_t axis = integer(op, "axis");
    set(op, name == "tt.get_program_id" ? tile::ProgramIdOp::create(b, types[0], axis).getResult()
                                        : tile::NumProgramsOp::create(b, types[0], axis).getResult());
    return success();
  }
  if (name == "tt.make_range") {
    Value range = tile::IotaOp::create(b, types[0]);
    if (int64_t start = integer(op, "start"))
      range = arith::AddIOp::create(b, range, integerConstant(types[0], start));
    set(op, range);
    return success();
  }
  if (name == "tt.splat") {
    set(op, tile::SplatOp::create(b, types[0], operand(op, 0)));
    return success();
  }
  if (name == "tt.unsplat") {
    Value flat = operand(op, 0);
    auto type = cast<RankedTensorType>(flat.getType());
    if (type.getRank() != 1)
      flat = tile::ReshapeOp::create(b, RankedTensorType::get({1}, type.getElementType()), flat);
    auto reduce = tile::ReduceOp::create(b, TypeRange{types[0]}, ValueRange{flat}, 0);
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(&reduce.getCombine(), {}, {types[0], types[0]}, {op->getLoc(), op->getLoc()});
    tile::YieldOp::create(b, ValueRange{block->getArgument(0)});
    set(op, reduce.getResult(0));
    return success();
  }
  if (name == "tt.broadcast") {
    set(op, tile::BroadcastOp::create(b, types[0], operand(op, 0)));
    return success();
  }
  if (name == "tt.expand_dims") {
    set(op, tile::ExpandDimsOp::create(b, types[0], operand(op, 0), integer(op, "axis")));
    return success();
  }
  if (name == "tt.reshape") {
    set(op, tile::ReshapeOp::create(b, types[0], operand(op, 0)));
    return success();
  }
  if (name == "tt.trans") {
    auto order = dyn_cast_or_null<DenseI32ArrayAttr>(attribute(op, "order"));
    if (!order)
      return LogicalResult(error(op) << "tt.trans without an order");
    set(op, tile::TransOp::create(b, types[0], operand(op, 0), SmallVector<int64_t>(order.asArrayRef())));
    return success();
  }
  if (name == "tt.cat") {
    set(op, tile::CatOp::create(b, types[0], operand(op, 0), operand(op, 1)));
    return success();
  }
  if (name == "tt.join") {
    set(op, tile::JoinOp::create(b, types[0], operand(op, 0), operand(op, 1)));
    return success();
  }
  if (name == "tt.split") {
    auto split = tile::SplitOp::create(b, types[0], types[1], operand(op, 0));
    mapping.map(op->getResults(), split->getResults());
    return success();
  }
  if (name == "tt.gather") {
    set(op, tile::TakeOp::create(b, types[0], operand(op, 0), operand(op, 1), integer(op, "axis")));
    return success();
  }
  if (name == "tt.histogram") {
    Value mask = op->getNumOperands() > 1 ? operand(op, 1) : Value();
    set(op, tile::HistogramOp::create(b, types[0], operand(op, 0), mask));
    return success();
  }
  if (name == "tt.dot") {
    auto dot = tile::DotOp::create(b, types[0], operand(op, 0), operand(op, 1), operand(op, 2));
    // In the order of Triton's enumeration; "ieee" is what an absent attribute means.
    static constexpr StringLiteral precisions[] = {"tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"};
    constexpr int64_t ieee = 2;
    int64_t precision = integer(op, "inputPrecision", ieee);
    if (precision < 0 || precision >= (int64_t)std::size(precisions))
      return LogicalResult(error(op) << "tt.dot with the input precision " << precision);
    if (precision != ieee)
      dot->setAttr(tile::inputPrecisionAttrName, b.getStringAttr(precisions[precision]));
    set(op, dot);
    return success();
  }
  if (name == "tt.dot_scaled")
    return importDotScaled(op);
  if (name == "tt.reduce") {
    auto reduce = tile::ReduceOp::create(b, types, operands(op->getOperands()), integer(op, "axis"));
    mapping.map(op->getResults(), reduce->getResults());
    return importCombine(op, reduce.getCombine());
  }
  if (name == "tt.scan")
    return importScan(op, types);
  if (name == "tt.map_elementwise") {
    auto map = tile::MapOp::create(b, types, operands(op->getOperands()), integer(op, "pack", 1));
    mapping.map(op->getResults(), map->getResults());
    return importCombine(op, map.getBody());
  }
  return std::nullopt;
}

/// Sums and products of narrow floats are carried in f32 and rounded once per element, as those of dot are: rounded in
/// every step, a running sum of bf16 loses what it adds.
LogicalResult TritonImporter::importScan(Operation *op, TypeRange types) {
  bool isReverse = integer(op, "reverse") != 0;
  SmallVector<Value> sources = operands(op->getOperands());
  Block &combiner = op->getRegion(0).front();
  Operation &first = combiner.front();
  Type element = getElementTypeOrSelf(types[0]);
  bool isNarrowSum = types.size() == 1 && op->getRegion(0).hasOneBlock() && llvm::hasNItems(combiner, 2) &&
                     isa<arith::AddFOp, arith::MulFOp>(first) && isa<FloatType>(element) &&
                     element.getIntOrFloatBitWidth() == 16;
  if (isNarrowSum) {
    Type wide = cast<RankedTensorType>(types[0]).clone(b.getF32Type());
    auto scan = tile::ScanOp::create(b, TypeRange{wide}, ValueRange{arith::ExtFOp::create(b, wide, sources[0])},
                                     integer(op, "axis"), isReverse);
    set(op, arith::TruncFOp::create(b, types[0], scan.getResult(0)));
    OpBuilder::InsertionGuard guard(b);
    Block *block =
        b.createBlock(&scan.getCombine(), {}, {b.getF32Type(), b.getF32Type()}, {op->getLoc(), op->getLoc()});
    Value lhs = block->getArgument(0), rhs = block->getArgument(1);
    tile::YieldOp::create(b, ValueRange{isa<arith::AddFOp>(first) ? arith::AddFOp::create(b, lhs, rhs).getResult()
                                                                  : arith::MulFOp::create(b, lhs, rhs).getResult()});
    return success();
  }
  auto scan = tile::ScanOp::create(b, types, sources, integer(op, "axis"), isReverse);
  mapping.map(op->getResults(), scan->getResults());
  return importCombine(op, scan.getCombine());
}

/// The scale of 32 neighbours is a power of two with a biased exponent: an operand is decoded to bf16 or f32, then
/// multiplied.
LogicalResult TritonImporter::importDotScaled(Operation *op) {
  auto groups = segments(op);
  // a, b, c, a_scale, b_scale
  enum { F8E4M3, F8E5M2, F6E2M3, F6E3M2, F4E2M1, BF16, F16 };
  Type f32 = b.getF32Type();
  Value operandsOfDot[2];
  for (int side = 0; side < 2; ++side) {
    Value value = groups[side][0], scale = groups[3 + side].empty() ? Value() : groups[3 + side][0];
    int64_t kind = integer(op, side == 0 ? "a_elem_type" : "b_elem_type");
    auto type = cast<RankedTensorType>(value.getType());
    int64_t rank = type.getRank(), depthAxis = side == 0 ? rank - 1 : rank - 2;
    bool isPackedAlongDepth = integer(op, side == 0 ? "lhs_k_pack" : "rhs_k_pack", 1) != 0;
    if (kind == F6E2M3 || kind == F6E3M2)
      return error(op) << "tt.dot_scaled of 6-bit floats";
    if (kind == F4E2M1) {
      // Two to a byte, the low half first, along the depth or along the other axis.
      int64_t axis = isPackedAlongDepth ? depthAxis : (side == 0 ? rank - 2 : rank - 1);
      Type bytes = type.clone(b.getI8Type()), words = type.clone(b.getI32Type()), floats = type.clone(f32);
      if (value.getType() != bytes)
        return error(op) << "tt.dot_scaled of " << value.getType();
      Value wide = arith::ExtUIOp::create(b, words, value);
      auto decode = [&](int64_t shift) -> Value {
        auto bits = [&](int64_t n) { return integerConstant(words, n); };
        Value half = arith::ShRUIOp::create(b, wide, bits(shift));
        Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, half, bits(8)), bits(28));
        Value magnitude = arith::AndIOp::create(b, half, bits(7));
        // 0 0.5 1 1.5 2 3 4 6: from 1 on, exponent and mantissa bit are those of an f32 with another bias.
        Value regular = arith::AddIOp::create(b, arith::ShLIOp::create(b, magnitude, bits(22)), bits(126 << 23));
        Value small = arith::MulIOp::create(b, magnitude, bits(0x3F000000));
        Value isSmall = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, magnitude, bits(2));
        Value all = arith::OrIOp::create(b, arith::SelectOp::create(b, isSmall, small, regular), sign);
        return arith::BitcastOp::create(b, floats, all);
      };
      SmallVector<int64_t> joined(type.getShape()), shape(type.getShape());
      joined.push_back(2);
      Value both = tile::JoinOp::create(b, RankedTensorType::get(joined, f32), decode(0), decode(4));
      SmallVector<int64_t> perm, moved;
      for (int64_t k = 0; k < rank; ++k) {
        perm.push_back(k);
        if (k == axis)
          perm.push_back(rank);
      }
      for (int64_t k : perm)
        moved.push_back(joined[k]);
      if (axis != rank - 1)
        both = tile::TransOp::create(b, RankedTensorType::get(moved, f32), both, perm);
      shape[axis] *= 2;
      value = tile::ReshapeOp::create(b, RankedTensorType::get(shape, f32), both);
      type = cast<RankedTensorType>(value.getType());
    } else {
      // Bytes hold 8-bit floats.
      if (type.getElementType().isInteger(8)) {
        Type element =
            kind == F8E4M3 ? Type(Float8E4M3FNType::get(b.getContext())) : Type(Float8E5M2Type::get(b.getContext()));
        value = arith::BitcastOp::create(b, type.clone(element), value);
      }
      value = convertFloat(value, type.clone(f32), /*towardsZero=*/false);
      type = type.clone(f32);
    }
    if (scale) {
      auto scaleType = cast<RankedTensorType>(scale.getType());
      // Scales are rows x (depth / n) on both sides.
      int64_t depth = type.getDimSize(depthAxis), count = scaleType.getShape().back(), per = depth / count;
      Value factor;
      if (isa<FloatType>(scaleType.getElementType())) {
        factor = convertFloat(scale, scaleType.clone(f32), /*towardsZero=*/false);
      } else {
        Type words = scaleType.clone(b.getI32Type());
        Value exponent = arith::ExtUIOp::create(b, words, scale);
        Value bits = arith::ShLIOp::create(b, exponent, integerConstant(words, 23));
        // An exponent of 0 is 2^-127, which an f32 holds as a subnormal; 255 is NaN.
        bits = arith::SelectOp::create(
            b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, exponent, integerConstant(words, 0)),
            integerConstant(words, 0x00400000), bits);
        bits = arith::SelectOp::create(
            b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, exponent, integerConstant(words, 255)),
            integerConstant(words, 0x7FC00000), bits);
        factor = arith::BitcastOp::create(b, scaleType.clone(f32), bits);
      }
      SmallVector<int64_t> shape(scaleType.getShape());
      shape.push_back(1);
      factor = tile::ReshapeOp::create(b, RankedTensorType::get(shape, f32), factor);
      shape.back() = per;
      factor = tile::BroadcastOp::create(b, RankedTensorType::get(shape, f32), factor);
      shape.pop_back();
      shape.back() *= per;
      factor = tile::ReshapeOp::create(b, RankedTensorType::get(shape, f32), factor);
      if (side == 1) {
        SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
        std::swap(perm[rank - 1], perm[rank - 2]);
        std::swap(shape[rank - 1], shape[rank - 2]);
        factor = tile::TransOp::create(b, RankedTensorType::get(shape, f32), factor, perm);
      }
      value = arith::MulFOp::create(b, value, factor);
    }
    operandsOfDot[side] = value;
  }
  set(op, tile::DotOp::create(b, resultType(op), operandsOfDot[0], operandsOfDot[1], groups[2][0]));
  return success();
}
