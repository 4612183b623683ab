#include "compiler/graph/transforms/LowerOps.h"
#include "compiler/graph/transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::Proof;
using torch_tile::SizeContext;
using torch_tile::SizeExpr;
using torch_tile::SizeFacts;

namespace mlir::graph {
#define GEN_PASS_DEF_DECOMPOSECOMPOSITES
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace mlir::graph

namespace {

/// Up to this many elements a reduction's operand is taken to stay in cache between two passes, which are faster and
/// more accurate than Welford's one pass with its division per element.
constexpr int64_t kTwoPassElements = 16384;
/// The same where results lie side by side in memory: a program then reads many of them at once.
constexpr int64_t kTwoPassColumnElements = 512;

/// Builds named ops whose element type is the one a composite computes in.
class Decomposer {
public:
  Decomposer(Operation *op, const SizeFacts &facts)
      : op(op), builder(op), loc(op->getLoc()), facts(facts), sizes(facts.sizes()) {}

  LogicalResult run() {
    Type source = elementType(op->getOperand(0));
    // A mean of integers is refused by torch; a bool or integer softmax too.
    computed = computeType(elementType(op->getResult(0)));
    // A mean of a wider dtype than its operand's is computed in that.
    if (Type own = computeType(source);
        isa<FloatType>(own) &&
        (!isa<FloatType>(computed) || own.getIntOrFloatBitWidth() > computed.getIntOrFloatBitWidth()))
      computed = own;
    if (!isa<FloatType>(computed))
      return emitUnsupported(op) << "expected floats, got " << op->getOperand(0).getType();
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](SoftmaxOp each) { return softmax(each.getX(), each.getDim(), /*ofLog=*/false); })
        .Case([&](LogSoftmaxOp each) { return softmax(each.getX(), each.getDim(), /*ofLog=*/true); })
        .Case([&](SoftmaxBackwardOp each) {
          return softmaxBackward(each.getGrad(), each.getOutput(), each.getDim(), /*ofLog=*/false);
        })
        .Case([&](LogSoftmaxBackwardOp each) {
          return softmaxBackward(each.getGrad(), each.getOutput(), each.getDim(), /*ofLog=*/true);
        })
        .Case([&](MeanOp each) {
          return replace(0,
                         meanOf(wide(each.getX()), dimsOf(each.getDims(), each.getX()), isSet(each.getKeepdimAttr())));
        })
        .Case([&](VarMeanOp each) { return varMean(each); })
        .Case([&](LayerNormOp each) { return layerNorm(each); });
  }

private:
  template <typename OpT> Value unary(Value x) {
    return OpT::create(builder, loc, dense(tensorType(x).getSizes(), computed), ValueRange(x)).getResult();
  }
  /// `a` has the result's sizes; `b` broadcasts to them.
  template <typename OpT> Value binary(Value a, Value b) {
    return OpT::create(builder, loc, dense(tensorType(a).getSizes(), computed), ValueRange{a, b}).getResult();
  }

  Value cast(Value x, Type to) {
    GraphTensorType type = tensorType(x);
    return type.getElementType() == to ? x : CastOp::create(builder, loc, dense(type.getSizes(), to), x).getResult();
  }
  Value wide(Value x) { return cast(x, computed); }

  /// The composite's own layout where the sizes are the same: that of a tensor that torch allocates.
  GraphTensorType dense(ArrayRef<SizeExpr> shape, Type type) {
    auto result = tensorType(op->getResult(0));
    return result.getSizes() == shape ? GraphTensorType::get(op->getContext(), shape, type, result.getStrides())
                                      : GraphTensorType::getContiguous(op->getContext(), shape, type);
  }

  Value scalar(double value) {
    auto type = GraphTensorType::getContiguous(op->getContext(), {}, computed);
    return FullOp::create(builder, loc, type, builder.getF64FloatAttr(value)).getResult();
  }
  Value scalar(SizeExpr value) {
    if (std::optional<int64_t> constant = value.constant())
      return scalar(double(*constant));
    auto type = GraphTensorType::getContiguous(op->getContext(), {}, computed);
    return SizeValueOp::create(builder, loc, type, ExprAttr::get(op->getContext(), value)).getResult();
  }

  static SmallVector<int64_t> dimsOf(std::optional<ArrayRef<int64_t>> dims, Value x) {
    if (dims && !dims->empty() && tensorType(x).getRank() > 0)
      return llvm::to_vector(*dims);
    return llvm::to_vector(llvm::seq<int64_t>(0, tensorType(x).getRank()));
  }

  GraphTensorType reducedType(Value x, ArrayRef<int64_t> dims, bool keepdim) {
    SmallVector<SizeExpr> shape;
    for (auto [k, size] : llvm::enumerate(tensorType(x).getSizes())) {
      if (!llvm::is_contained(dims, int64_t(k)))
        shape.push_back(size);
      else if (keepdim)
        shape.push_back(sizes.constant(1));
    }
    return dense(shape, elementType(x));
  }
  template <typename OpT> Value reduce(Value x, ArrayRef<int64_t> dims, bool keepdim = true) {
    return OpT::create(builder, loc, reducedType(x, dims, keepdim), x, builder.getDenseI64ArrayAttr(dims),
                       keepdim ? Attribute(builder.getUnitAttr()) : Attribute())
        .getResult();
  }

  SizeExpr countOf(Value x, ArrayRef<int64_t> dims) {
    SizeExpr count = sizes.constant(1);
    for (int64_t dim : dims)
      count = sizes.mul(count, tensorType(x).getSizes()[dim]);
    return count;
  }
  Value meanOf(Value x, ArrayRef<int64_t> dims, bool keepdim) {
    return binary<DivOp>(reduce<SumOp>(x, dims, keepdim), scalar(countOf(x, dims)));
  }

  /// Gives result `number` the value, rounded to its type.
  LogicalResult replace(unsigned number, Value value) {
    Value result = op->getResult(number);
    if (result.use_empty())
      return success();
    if (tensorType(value).getSizes() != tensorType(result).getSizes())
      return op->emitOpError("expected result sizes to follow from its operand's, got ") << result.getType();
    // A layout that differs from the intermediate's is made by a cast as well.
    if (value.getType() != result.getType())
      value = elementType(value) == elementType(result)
                  ? CloneOp::create(builder, loc, result.getType(), value).getResult()
                  : CastOp::create(builder, loc, result.getType(), value).getResult();
    result.replaceAllUsesWith(value);
    return success();
  }

  LogicalResult softmax(Value operand, int64_t dim, bool ofLog) {
    Value x = wide(operand);
    SmallVector<int64_t> dims;
    if (tensorType(x).getRank() > 0)
      dims.push_back(dim);
    Value shifted = binary<SubOp>(x, reduce<AmaxOp>(x, dims));
    Value exponential = unary<ExpOp>(shifted);
    Value sum = reduce<SumOp>(exponential, dims);
    return replace(0, ofLog ? binary<SubOp>(shifted, unary<LogOp>(sum)) : binary<DivOp>(exponential, sum));
  }

  LogicalResult softmaxBackward(Value gradOperand, Value outputOperand, int64_t dim, bool ofLog) {
    Value grad = wide(gradOperand), output = wide(outputOperand);
    SmallVector<int64_t> dims;
    if (tensorType(grad).getRank() > 0)
      dims.push_back(dim);
    if (ofLog) {
      Value sum = reduce<SumOp>(grad, dims);
      return replace(0, binary<SubOp>(grad, binary<MulOp>(unary<ExpOp>(output), sum)));
    }
    Value product = binary<MulOp>(grad, output);
    Value sum = reduce<SumOp>(product, dims);
    return replace(0, binary<SubOp>(product, binary<MulOp>(output, sum)));
  }

  /// The mean, where the sum of large numbers may not be one: of numbers divided by a power of two, which is exact.
  Value meanInRange(Value x, ArrayRef<int64_t> dims) {
    auto narrow = x.getDefiningOp<CastOp>();
    // bfloat16 has the range of float32, and float64 has room for sums of either.
    bool fits =
        narrow && narrow.getX().getType() != x.getType() && (computed.isF64() || !elementType(narrow.getX()).isBF16());
    if (fits || isa<LayerNormOp>(op)) // eager's squares leave the range of layer_norm's numbers before the sum does
      return meanOf(x, dims, true);
    SizeExpr count = countOf(x, dims);
    constexpr double unknown = 4294967296.0; // far from where quotients would be subnormal
    std::optional<int64_t> known = count.constant();
    double scale = known ? (double)llvm::bit_ceil((uint64_t)std::max<int64_t>(*known, 1)) : unknown;
    Value parts = reduce<SumOp>(binary<MulOp>(x, scalar(1 / scale)), dims);
    Value mean = binary<DivOp>(parts, binary<MulOp>(scalar(count), scalar(1 / scale)));
    // Of one large value all over, what a rounded mean misses would leave the range when squared.
    return computed.isF64() ? binary<AddOp>(mean, meanOf(binary<SubOp>(x, mean), dims, true)) : mean;
  }

  /// Mean and variance of `x` with the reduced dimensions kept.
  struct Moments {
    Value var, mean;
    Value centered; // x - mean, where two passes made it
  };
  bool staysInCache(Value x, ArrayRef<int64_t> dims) {
    bool isRow = llvm::any_of(dims, [&](int64_t dim) { return tensorType(x).getStrides()[dim].isConstant(1); });
    return facts.estimate(countOf(x, dims)) <= (isRow ? kTwoPassElements : kTwoPassColumnElements);
  }

  Moments momentsOf(Value x, ArrayRef<int64_t> dims, Attribute correction) {
    SizeExpr count = countOf(x, dims);
    if (!staysInCache(x, dims)) {
      GraphTensorType type = reducedType(x, dims, true);
      auto moments = VarMeanOp::create(builder, loc, TypeRange{type, type}, x, builder.getDenseI64ArrayAttr(dims),
                                       correction, builder.getUnitAttr());
      return {moments.getVar(), moments.getMean(), {}};
    }
    Value mean = meanInRange(x, dims);
    Value centered = binary<SubOp>(x, mean);
    Value squares = reduce<SumOp>(binary<MulOp>(centered, centered), dims);
    Value divisor;
    if (auto integer = dyn_cast_if_present<IntegerAttr>(correction); integer || !correction) {
      SizeExpr difference = sizes.sub(count, sizes.constant(integer ? integer.getInt() : 1));
      divisor = scalar(facts.lessEqual(sizes.constant(0), difference) == Proof::Yes
                           ? difference
                           : sizes.max(difference, sizes.constant(0)));
    } else {
      divisor = binary<MaximumOp>(
          binary<SubOp>(scalar(count), scalar(mlir::cast<FloatAttr>(correction).getValueAsDouble())), scalar(0.0));
    }
    return {binary<DivOp>(squares, divisor), mean, centered};
  }

  LogicalResult varMean(VarMeanOp each) {
    SmallVector<int64_t> dims = dimsOf(each.getDims(), each.getX());
    // Long ones are Welford's, in lowering.
    if (!staysInCache(each.getX(), dims)) {
      isKept = true;
      return success();
    }
    Moments moments = momentsOf(wide(each.getX()), dims, each.getCorrectionAttr());
    auto squeeze = [&](Value value) -> Value {
      if (isSet(each.getKeepdimAttr()))
        return value;
      GraphTensorType type = tensorType(each.getVar());
      auto flat = GraphTensorType::getContiguous(op->getContext(), type.getSizes(), computed);
      return ViewOp::create(builder, loc, flat, value).getResult();
    };
    return success(succeeded(replace(0, squeeze(moments.var))) && succeeded(replace(1, squeeze(moments.mean))));
  }

  LogicalResult layerNorm(LayerNormOp each) {
    int64_t rank = tensorType(each.getX()).getRank(), normalized = 0;
    if (auto count = dyn_cast<IntegerAttr>(each.getNormalizedDimsAttr()))
      normalized = count.getInt();
    else if (auto list = dyn_cast<DenseI64ArrayAttr>(each.getNormalizedDimsAttr()))
      normalized = list.size();
    else if (auto array = dyn_cast<ArrayAttr>(each.getNormalizedDimsAttr()))
      normalized = array.size();
    if (normalized < 1 || normalized > rank)
      return op->emitOpError("expected normalized_dims in [1, ") << rank << "], got " << each.getNormalizedDimsAttr();
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(rank - normalized, rank));

    Value x = wide(each.getX());
    Moments moments = momentsOf(x, dims, builder.getI64IntegerAttr(0));
    Value rstd = unary<RsqrtOp>(binary<AddOp>(moments.var, scalar(each.getEps().convertToDouble())));
    Value out = binary<MulOp>(moments.centered ? moments.centered : binary<SubOp>(x, moments.mean), rstd);
    if (!each.getAffine().empty())
      out = binary<MulOp>(out, wide(each.getAffine()[0]));
    if (each.getAffine().size() > 1)
      out = binary<AddOp>(out, wide(each.getAffine()[1]));
    return success(succeeded(replace(0, out)) && succeeded(replace(1, moments.mean)) && succeeded(replace(2, rstd)));
  }

  Operation *op;
  OpBuilder builder;
  Location loc;
  const SizeFacts &facts;
  SizeContext &sizes;
  Type computed;

public:
  bool isKept = false;
};

} // namespace

LogicalResult mlir::graph::decomposeComposites(FuncOp func) {
  SizeFacts facts = func.facts();
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    if (!op.hasTrait<CompositeTrait>())
      continue;
    Decomposer decomposer(&op, facts);
    if (failed(decomposer.run()))
      return failure();
    if (!decomposer.isKept)
      op.erase();
  }
  return success();
}

namespace {
struct DecomposeComposites : public graph::impl::DecomposeCompositesBase<DecomposeComposites> {
  void runOnOperation() override {
    if (failed(decomposeComposites(getOperation())))
      signalPassFailure();
  }
};
} // namespace
