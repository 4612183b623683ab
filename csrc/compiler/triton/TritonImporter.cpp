#include "compiler/triton/TritonImporter.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Conversion/ControlFlowToSCF/ControlFlowToSCF.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/CFGToSCF.h"

using namespace mlir;
using namespace torch_tile::triton;

//===-- parsing
//-----------------------------------------------------------------------------------------------------===//

OwningOpRef<ModuleOp> torch_tile::triton::parseGeneric(std::string_view text, MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect, cf::ControlFlowDialect, ub::UBDialect>();
  context.allowUnregisteredDialects();
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  return parseSourceString<ModuleOp>(StringRef(text.data(), text.size()), config, "ttir");
}

static bool isFunction(Operation &op) { return op.getName().getStringRef() == "tt.func"; }

FailureOr<OwningOpRef<ModuleOp>> torch_tile::triton::importModule(ModuleOp source, bool pointersFirst) {
  OwningOpRef<ModuleOp> target = ModuleOp::create(source.getLoc());
  TritonImporter importer(source, *target, pointersFirst);
  for (Operation &op : *source.getBody()) {
    if (!isFunction(op)) {
      if (op.getName().getStringRef() == "tt.func" || op.hasTrait<OpTrait::IsTerminator>())
        continue;
      return op.emitError("unsupported: ") << op.getName().getStringRef() << " beside functions";
    }
    auto visibility = op.getAttrOfType<StringAttr>("sym_visibility");
    if (!visibility)
      if (auto properties = dyn_cast_or_null<DictionaryAttr>(op.getPropertiesAsAttribute()))
        visibility = properties.getAs<StringAttr>("sym_visibility");
    if (visibility && visibility.getValue() == "private")
      continue;
    if (failed(importer.importFunction(&op)))
      return failure();
  }
  return target;
}

TritonImporter::TritonImporter(ModuleOp source, ModuleOp target, bool pointersFirst)
    : source(source), target(target), pointersFirst(pointersFirst), functions(source),
      b(target.getLoc(), target.getContext()) {}

//===-- reading
//-----------------------------------------------------------------------------------------------------===//

/// The place in the user's file that a location tells of.
static std::string describe(Location location) {
  std::string text;
  location->walk([&](Location part) {
    if (auto file = dyn_cast<FileLineColLoc>(part)) {
      text = file.getFilename().str() + ":" + std::to_string(file.getLine()) + ": ";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return text;
}

InFlightDiagnostic TritonImporter::error(Operation *op) {
  InFlightDiagnostic diagnostic = emitError(op->getLoc());
  diagnostic << "unsupported: " << describe(op->getLoc());
  return diagnostic;
}

LogicalResult TritonImporter::unsupported(Operation *op) {
  return error(op) << op->getName().getStringRef() << " is not supported" << (pointersFirst ? "" : " on CPU");
}

Attribute TritonImporter::attribute(Operation *op, StringRef name) {
  if (Attribute found = op->getAttr(name))
    return found;
  auto properties = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
  return properties ? properties.get(name) : Attribute();
}

int64_t TritonImporter::integer(Operation *op, StringRef name, int64_t otherwise) {
  Attribute found = attribute(op, name);
  if (auto value = dyn_cast_or_null<IntegerAttr>(found))
    return value.getValue().getZExtValue();
  if (auto value = dyn_cast_or_null<BoolAttr>(found))
    return value.getValue();
  return found && isa<UnitAttr>(found) ? 1 : otherwise;
}

SmallVector<SmallVector<Value>> TritonImporter::segments(Operation *op) {
  SmallVector<SmallVector<Value>> result;
  SmallVector<Value> all = operands(op->getOperands());
  auto sizes = dyn_cast_or_null<DenseI32ArrayAttr>(attribute(op, "operandSegmentSizes"));
  if (!sizes) {
    for (Value value : all)
      result.push_back({value});
    return result;
  }
  ArrayRef<Value> rest = all;
  for (int32_t size : sizes.asArrayRef()) {
    result.emplace_back(rest.take_front(size));
    rest = rest.drop_front(size);
  }
  return result;
}

Type TritonImporter::convert(Type type) {
  if (auto tile = dyn_cast<RankedTensorType>(type)) {
    Type element = convert(tile.getElementType());
    return element ? RankedTensorType::get(tile.getShape(), element) : Type();
  }
  auto opaque = dyn_cast<OpaqueType>(type);
  if (!opaque)
    return type;
  StringRef text = opaque.getTypeData();
  if (opaque.getDialectNamespace() != "tt" || !text.consume_front("ptr<") || !text.consume_back(">"))
    return Type();
  // An address space may follow the element type.
  int depth = 0;
  for (auto [index, c] : llvm::enumerate(text)) {
    depth += c == '<' ? 1 : c == '>' ? -1 : 0;
    if (c == ',' && depth == 0) {
      text = text.take_front(index);
      break;
    }
  }
  Type element = parseType(text, b.getContext());
  element = element ? convert(element) : Type();
  return element ? tile::PtrType::get(b.getContext(), element) : Type();
}

//===-- functions
//---------------------------------------------------------------------------------------------------===//

namespace {
/// Ends what control flow never reaches.
class CfgToScf : public ControlFlowToSCFTransformation {
  FailureOr<Operation *> createUnreachableTerminator(Location loc, OpBuilder &builder, Region &region) override {
    OperationState state(loc, "tt.return");
    for (Block &block : region)
      if (!block.empty() && block.back().getName().getStringRef() == "tt.return") {
        for (Type type : block.back().getOperandTypes())
          state.addOperands(
              ub::PoisonOp::create(builder, loc, type, ub::PoisonAttr::get(builder.getContext())).getResult());
        break;
      }
    return builder.create(state);
  }
};
} // namespace

/// `return` inside `if` comes as branches between blocks.
static LogicalResult liftControlFlow(Operation *function) {
  Region &region = function->getRegion(0);
  if (region.hasOneBlock())
    return success();
  CfgToScf transformation;
  DominanceInfo dominance(function);
  return failure(failed(transformCFGToSCF(region, transformation, dominance)));
}

LogicalResult TritonImporter::importFunction(Operation *function) {
  if (failed(liftControlFlow(function)))
    return error(function) << "control flow that does not nest";
  Block &body = function->getRegion(0).front();
  SmallVector<std::pair<BlockArgument, Type>> taken;
  for (BlockArgument argument : body.getArguments()) {
    taken.emplace_back(argument, convert(argument.getType()));
    if (!taken.back().second)
      return error(function) << "an argument of type " << argument.getType();
  }
  if (pointersFirst)
    llvm::stable_sort(taken, [](const auto &a, const auto &b) {
      return isa<tile::PtrType>(a.second) && !isa<tile::PtrType>(b.second);
    });
  SmallVector<Type> types = llvm::map_to_vector(taken, [](const auto &each) { return each.second; });
  b.setInsertionPointToEnd(target.getBody());
  b.setLoc(function->getLoc());
  auto name = cast<StringAttr>(attribute(function, "sym_name"));
  auto kernel = tile::KernelOp::create(b, name, TypeAttr::get(b.getFunctionType(types, {})), ArrayAttr(), ArrayAttr(),
                                       DenseI64ArrayAttr());
  Block &entry = kernel.getBody().emplaceBlock();
  for (auto [argument, type] : taken)
    mapping.map(argument, entry.addArgument(type, argument.getLoc()));
  b.setInsertionPointToEnd(&entry);
  callStack.push_back(function);
  if (failed(importBlock(body)))
    return failure();
  callStack.pop_back();
  tile::ReturnOp::create(b);
  return success();
}

LogicalResult TritonImporter::importCall(Operation *op) {
  auto callee = dyn_cast_or_null<FlatSymbolRefAttr>(attribute(op, "callee"));
  Operation *function = callee ? functions.lookup(callee.getValue()) : nullptr;
  if (!function)
    return error(op) << "a call of a function that is not in the module";
  if (llvm::is_contained(callStack, function))
    return error(op) << "recursion";
  if (failed(liftControlFlow(function)))
    return error(function) << "control flow that does not nest";
  Block &body = function->getRegion(0).front();
  // A function may be called several times: its values are mapped anew.
  IRMapping outer = mapping;
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), op->getOperands()))
    mapping.map(argument, outer.lookup(value));
  callStack.push_back(function);
  if (failed(importBlock(body)))
    return failure();
  callStack.pop_back();
  SmallVector<Value> results = operands(body.back().getOperands());
  mapping = std::move(outer);
  mapping.map(op->getResults(), results);
  return success();
}

LogicalResult TritonImporter::importBlock(Block &block) {
  for (Operation &op : block) {
    if (&op == &block.back() && llvm::is_contained({"tt.return", "scf.yield", "scf.condition", "tt.reduce.return",
                                                    "tt.scan.return", "tt.map_elementwise.return"},
                                                   op.getName().getStringRef()))
      break;
    b.setLoc(op.getLoc());
    if (failed(importOp(&op)))
      return failure();
  }
  return success();
}

LogicalResult TritonImporter::importOp(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (name.starts_with("arith.") || name.starts_with("math."))
    return importStandard(op);
  if (name.starts_with("scf."))
    return importControlFlow(op);
  if (name == "ub.poison") {
    Type type = resultType(op);
    if (isa_and_nonnull<tile::PtrType>(type)) {
      set(op, tile::IntToPtrOp::create(b, type, integerConstant(b.getI64Type(), 0)));
      return success();
    }
    auto tile = dyn_cast_or_null<RankedTensorType>(type);
    if (!type || (tile && isa<tile::PtrType>(tile.getElementType())))
      return error(op) << "an undefined value of type " << op->getResult(0).getType();
    set(op, arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type))));
    return success();
  }
  // Programs run alone on a thread, and hints are for others.
  if (llvm::is_contained({"ttg.barrier", "gpu.barrier", "llvm.intr.assume", "ttg.local_barrier"}, name))
    return success();
  if (name == "tt.call")
    return importCall(op);
  for (auto import : {&TritonImporter::importShape, &TritonImporter::importMemory, &TritonImporter::importArithmetic})
    if (std::optional<LogicalResult> done = (this->*import)(op, name))
      return *done;
  return unsupported(op);
}

/// Ops of MLIR's own dialects stay, on converted types.
LogicalResult TritonImporter::importStandard(Operation *op) {
  if (!op->isRegistered())
    return error(op) << op->getName().getStringRef() << " is not known to this version of MLIR";
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    types.push_back(convert(type));
    if (!types.back())
      return error(op) << "a value of type " << type;
  }
  Operation *clone = b.clone(*op, mapping);
  for (auto [result, type] : llvm::zip_equal(clone->getResults(), types))
    result.setType(type);
  mapping.map(op->getResults(), clone->getResults());
  return success();
}

LogicalResult TritonImporter::importControlFlow(Operation *op) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    types.push_back(convert(type));
    if (!types.back())
      return error(op) << "a value of type " << type;
  }
  auto importRegion = [&](Region &from, Region &to, StringRef terminator) -> LogicalResult {
    if (from.empty())
      return success();
    OpBuilder::InsertionGuard guard(b);
    Block &block = from.front();
    SmallVector<Type> argumentTypes;
    SmallVector<Location> locations;
    for (BlockArgument argument : block.getArguments()) {
      argumentTypes.push_back(convert(argument.getType()));
      locations.push_back(argument.getLoc());
      if (!argumentTypes.back())
        return error(op) << "a value of type " << argument.getType();
    }
    Block *made = b.createBlock(&to, to.end(), argumentTypes, locations);
    for (auto [argument, value] : llvm::zip_equal(block.getArguments(), made->getArguments()))
      mapping.map(argument, value);
    if (failed(importBlock(block)))
      return failure();
    Operation &last = block.back();
    b.setLoc(last.getLoc());
    if (terminator == "scf.condition")
      scf::ConditionOp::create(b, operand(&last, 0), operands(last.getOperands().drop_front()));
    else
      scf::YieldOp::create(b, operands(last.getOperands()));
    return success();
  };
  StringRef name = op->getName().getStringRef();
  if (auto choice = dyn_cast<scf::IndexSwitchOp>(op)) {
    // One case after the other, as nested ifs.
    Value selector = operand(op, 0);
    SmallVector<Value> results;
    OpBuilder::InsertionGuard guard(b);
    Operation *outermost = nullptr;
    for (auto [index, value] : llvm::enumerate(choice.getCases())) {
      Value wanted = arith::ConstantIndexOp::create(b, value);
      Value isCase = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, selector, wanted);
      OperationState state(op->getLoc(), "scf.if", {isCase}, types);
      state.addRegion();
      state.addRegion();
      Operation *branch = b.create(state);
      if (outermost)
        scf::YieldOp::create(b, branch->getResults());
      else
        outermost = branch;
      if (failed(importRegion(choice.getCaseRegions()[index], branch->getRegion(0), "scf.yield")))
        return failure();
      if (index + 1 == choice.getCases().size()) {
        if (failed(importRegion(choice.getDefaultRegion(), branch->getRegion(1), "scf.yield")))
          return failure();
      } else {
        b.createBlock(&branch->getRegion(1));
      }
    }
    if (!outermost)
      return error(op) << "a switch without cases";
    mapping.map(op->getResults(), outermost->getResults());
    return success();
  }
  if (name != "scf.for" && name != "scf.if" && name != "scf.while")
    return unsupported(op);
  OperationState state(op->getLoc(), name, operands(op->getOperands()), types);
  for (unsigned index = 0; index < op->getNumRegions(); ++index)
    state.addRegion();
  // Hints of pipelining stay behind.
  if (name == "scf.for" && attribute(op, "unsignedCmp"))
    state.addAttribute("unsignedCmp", attribute(op, "unsignedCmp"));
  Operation *made = b.create(state);
  for (auto [index, region] : llvm::enumerate(op->getRegions())) {
    StringRef terminator = name == "scf.while" && index == 0 ? "scf.condition" : "scf.yield";
    if (failed(importRegion(region, made->getRegion(index), terminator)))
      return failure();
  }
  mapping.map(op->getResults(), made->getResults());
  return success();
}

/// The region of a reduction, scan or map, on scalars.
LogicalResult TritonImporter::importCombine(Operation *op, Region &region) {
  Region &from = op->getRegion(0);
  if (!from.hasOneBlock()) {
    if (failed(liftControlFlow(op)))
      return error(op) << "control flow that does not nest";
  }
  OpBuilder::InsertionGuard guard(b);
  Block &block = from.front();
  Block *made = b.createBlock(&region);
  for (BlockArgument argument : block.getArguments()) {
    Type type = convert(argument.getType());
    if (!type)
      return error(op) << "a value of type " << argument.getType();
    mapping.map(argument, made->addArgument(type, argument.getLoc()));
  }
  b.setInsertionPointToEnd(made);
  if (failed(importBlock(block)))
    return failure();
  tile::YieldOp::create(b, operands(block.back().getOperands()));
  return success();
}
