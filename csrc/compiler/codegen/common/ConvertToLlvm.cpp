#include "compiler/codegen/common/ConvertToLlvm.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace {
/// Floats of 8 bits are no type of LLVM, which would read their constants as others: here they are their bits.
struct Float8Constant : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ConstantOp op, OpAdaptor, ConversionPatternRewriter &rewriter) const override {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(op.getType()));
    if (!element || element.getWidth() != 8)
      return failure();
    auto bitsOf = [](const APFloat &value) { return value.bitcastToAPInt(); };
    TypedAttr bits;
    if (auto elements = dyn_cast<DenseFPElementsAttr>(op.getValue()))
      bits = elements.mapValues(rewriter.getI8Type(), bitsOf);
    else
      bits = rewriter.getIntegerAttr(rewriter.getI8Type(), bitsOf(cast<FloatAttr>(op.getValue()).getValue()));
    rewriter.replaceOpWithNewOp<LLVM::ConstantOp>(op, getTypeConverter()->convertType(op.getType()), bits);
    return success();
  }
};
} // namespace

LogicalResult torch_tile::codegen::convertToLlvm(ModuleOp module) {
  MLIRContext *context = module.getContext();
  ConversionConfig config;
  config.allowPatternRollback = false; // what cannot be converted fails the whole compile, so nothing need be undone
  bool hasScf = module
                    .walk([](Operation *op) {
                      return isa<scf::SCFDialect>(op->getDialect()) ? WalkResult::interrupt() : WalkResult::advance();
                    })
                    .wasInterrupted();
  if (hasScf) {
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    ConversionTarget target(*context);
    target.addIllegalOp<scf::ForOp, scf::IfOp, scf::WhileOp>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(module, target, std::move(patterns), config)))
      return failure();
  }
  LowerToLLVMOptions options(context);
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  patterns.add<Float8Constant>(converter, context, /*benefit=*/2);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyPartialConversion(module, target, std::move(patterns), config);
}
