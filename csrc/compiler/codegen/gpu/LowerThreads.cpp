// The kernel function, layouts, and dispatch over ops.
#include "compiler/codegen/gpu/CompileGpuKernel.h"
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace torch_tile::codegen;

ThreadLowering::ThreadLowering(tile::KernelOp kernel, StringRef symbol, const GpuOptions &options)
    : RowLowering(kernel), options(options), symbol(symbol), numThreads(0),
      sharedPtrType(LLVM::LLVMPointerType::get(kernel.getContext(), /*addressSpace=*/3)),
      alignment(kernel->hasAttr(alignedArgsAttrName) ? Alignment::All : Alignment::Asked) {}

//===-- layout --------------------------------------------------------------------------------------------------===//

static tile::LayoutAttr layoutOf(RankedTensorType type) { return cast<tile::LayoutAttr>(type.getEncoding()); }

tile::LinearAttr ThreadLowering::linearLayoutOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? dyn_cast_if_present<tile::LinearAttr>(tile.getEncoding()) : tile::LinearAttr();
}

int64_t torch_tile::codegen::pieceLanes(Type type) {
  Attribute layout = cast<RankedTensorType>(type).getEncoding();
  if (auto linear = dyn_cast<tile::LinearAttr>(layout))
    return linear.getVector();
  return cast<tile::LayoutAttr>(layout).getVector();
}

int64_t ThreadLowering::lanesOf(Type type) const {
  return isa<RankedTensorType>(type) ? pieceLanes(type) : RowLowering::lanesOf(type);
}

int64_t ThreadLowering::numRowsOf(Type type) const {
  if (tile::LinearAttr linear = linearLayoutOf(type))
    return linear.getNumPieces();
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? layoutOf(tile).getNumPieces(tile.getNumElements()) : 1;
}

/// Sum of what the bits of the thread's number move an element by. Runs of bits that move by 1, 2, 4, ... times a
/// number are one term.
Value ThreadLowering::threadStart(tile::LinearAttr layout) {
  Value &start = threadStarts[layout];
  if (start)
    return start;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(alignmentAnchor);
  ArrayRef<int64_t> moves = layout.getThreads();
  Value sum;
  for (size_t first = 0, end; first < moves.size(); first = end) {
    end = first + 1;
    if (moves[first] == 0)
      continue;
    while (end < moves.size() && moves[end] == moves[first] << (end - first))
      ++end;
    Value bits = arith::ShRUIOp::create(b, threadId, i32(first));
    bits = arith::AndIOp::create(b, bits, i32((int64_t(1) << (end - first)) - 1));
    bits = arith::ShLIOp::create(b, bits, i32(llvm::Log2_64(moves[first])));
    sum = sum ? arith::OrIOp::create(b, sum, bits).getResult() : bits;
  }
  return start = sum ? sum : i32(0);
}

int64_t ThreadLowering::numHolders(RankedTensorType type) const {
  return std::min(numThreads, type.getNumElements() / lanesOf(type));
}

Value ThreadLowering::addI32(Value value, int64_t offset) {
  return offset == 0 ? value : arith::AddIOp::create(b, value, i32(offset)).getResult();
}

Value ThreadLowering::rawStart(RankedTensorType type, int64_t piece) {
  if (tile::LinearAttr linear = linearLayoutOf(type))
    return addI32(threadStart(linear), linear.getPieceStart(piece));
  int64_t lanes = lanesOf(type);
  Value first = lanes == 1 ? threadId : arith::MulIOp::create(b, threadId, i32(lanes)).getResult();
  return addI32(first, piece * numThreads * lanes);
}

Value ThreadLowering::start(RankedTensorType type, int64_t piece) {
  Value first = rawStart(type, piece);
  if (linearLayoutOf(type) || !isOwned(type, piece))
    return first;
  return arith::RemUIOp::create(b, first, i32(type.getNumElements()));
}

Value ThreadLowering::isOwned(RankedTensorType type, int64_t piece) {
  if (tile::LinearAttr linear = linearLayoutOf(type)) {
    int64_t copies = 0;
    for (auto [bit, move] : llvm::enumerate(linear.getThreads()))
      copies |= move == 0 ? int64_t(1) << bit : 0;
    if (!copies)
      return {};
    Value bits = arith::AndIOp::create(b, threadId, i32(copies));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, bits, i32(0));
  }
  if ((piece + 1) * numThreads * lanesOf(type) <= type.getNumElements())
    return {};
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, rawStart(type, piece), i32(type.getNumElements()));
}

SmallVector<Value> ThreadLowering::coordinates(Value index, ArrayRef<int64_t> shape) {
  SmallVector<Value> result(shape.size());
  // What a thread adds to where a piece begins does not leave the row, where all threads have it in one row.
  Value first = index;
  int64_t begin = 0;
  while (auto sum = first.getDefiningOp<arith::AddIOp>()) {
    std::optional<int64_t> more = constantOf(sum.getRhs());
    if (!more)
      break;
    first = sum.getLhs();
    begin += *more;
  }
  auto scaled = first.getDefiningOp<arith::MulIOp>();
  int64_t lanes = first == threadId ? 1 : 0; // from one thread to the next; 0 if that is not known
  if (lanes == 0 && scaled && scaled.getLhs() == threadId)
    lanes = constantOf(scaled.getRhs()).value_or(0);
  for (int64_t axis = (int64_t)shape.size() - 1; axis > 0; --axis) {
    if (shape[axis] == 1) {
      result[axis] = i32(0);
      continue;
    }
    if (lanes > 0 && begin >= 0 && begin % shape[axis] + (numThreads - 1) * lanes < shape[axis]) {
      result[axis] = addI32(first, begin % shape[axis]);
      index = i32(begin / shape[axis]);
      lanes = 0;
      continue;
    }
    result[axis] = arith::RemUIOp::create(b, index, i32(shape[axis]));
    index = arith::DivUIOp::create(b, index, i32(shape[axis]));
  }
  if (!shape.empty())
    result[0] = index;
  return result;
}

//===-- the function --------------------------------------------------------------------------------------------===//

LogicalResult ThreadLowering::run(ModuleOp module) {
  auto threads = kernel->getAttrOfType<IntegerAttr>("tile.threads");
  if (!threads)
    return kernel.emitOpError("expected layouts: run --tile-assign-layouts before");
  numThreads = threads.getInt();
  if (auto programs = kernel->getAttrOfType<IntegerAttr>("tile.programs_per_block"))
    programsPerBlock = programs.getInt();
  if (programsPerBlock > 1 && numThreads != 32)
    return kernel.emitOpError("expected programs of one warp where a block holds several, got ") << numThreads;
  auto verifyTile = [&](Operation *op, RankedTensorType type) -> LogicalResult {
    if (tile::LinearAttr linear = linearLayoutOf(type); linear && linear.getNumThreads() == numThreads)
      return success();
    auto layout = dyn_cast_if_present<tile::LayoutAttr>(type.getEncoding());
    if (!layout || layout.getThreads() != numThreads || type.getNumElements() % layout.getVector() != 0)
      return op->emitOpError("expected a layout over ") << numThreads << " threads, got " << type;
    return success();
  };
  if (failed(verifyTypes("GPU", verifyTile)))
    return failure();

  b.setInsertionPointToEnd(module.getBody());
  declareShared();
  SmallVector<Type> parameters = parameterTypes();
  function = LLVM::LLVMFuncOp::create(b, symbol,
                                      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), parameters));
  setFunctionAttributes();
  b.setInsertionPointToEnd(function.addEntryBlock(b));
  threadId = readRegister("tid.x");
  Value sharedStart = sharedBase = LLVM::AddressOfOp::create(b, sharedPtrType, shared.getSymName());
  if (programsPerBlock > 1)
    splitBlock();
  if (auto bytes = kernel->getAttrOfType<IntegerAttr>(stagedBytesAttrName)) {
    stagedBytes = bytes.getInt();
    stagedStart = LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(0));
    stagedBase = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), sharedBase,
                                     ArrayRef<LLVM::GEPArg>{stagedStart.getResult()});
  }
  lowerArguments();
  alignmentAnchor = i32(0); // what is asked once is computed here
  if (failed(lowerBlock(kernel.getBody().front())))
    return failure();
  LLVM::ReturnOp::create(b, ValueRange{});
  return placeShared(sharedStart);
}

//===-- ops -----------------------------------------------------------------------------------------------------===//

LogicalResult ThreadLowering::lowerOp(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return lowerLoad(load);
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return lowerStore(store);
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return lowerGather(gather);
  if (auto scatter = dyn_cast<tile::ScatterOp>(op))
    return lowerScatter(scatter);
  if (auto hold = dyn_cast<tile::HoldOp>(op))
    return lowerHold(hold);
  if (auto held = dyn_cast<tile::HeldOp>(op))
    return lowerHeld(held);
  if (auto check = dyn_cast<tile::CheckIndexOp>(op))
    return lowerCheckIndex(check);
  if (auto assertion = dyn_cast<tile::AssertOp>(op))
    return lowerAssert(assertion);
  if (auto print = dyn_cast<tile::PrintOp>(op))
    return lowerPrint(print);
  if (auto atomic = dyn_cast<tile::AtomicRmwOp>(op))
    return lowerAtomicRmw(atomic);
  if (auto atomic = dyn_cast<tile::AtomicCasOp>(op))
    return lowerAtomicCas(atomic);
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return lowerDot(dot);
  if (isa<tile::StageBeginOp, tile::StageOp, tile::StageValueOp, tile::StageCommitOp, tile::StageWaitOp,
          tile::DotWaitOp>(op))
    return lowerStaging(op);
  if (isa<tile::StagedOp>(op)) // products read it where it lies
    return success();
  if (auto scan = dyn_cast<tile::ScanOp>(op))
    return lowerScan(scan);
  if (auto cat = dyn_cast<tile::CatOp>(op))
    return lowerCat(cat);
  if (auto join = dyn_cast<tile::JoinOp>(op))
    return lowerJoin(join);
  if (auto split = dyn_cast<tile::SplitOp>(op))
    return lowerSplit(split);
  if (auto take = dyn_cast<tile::TakeOp>(op))
    return lowerTake(take);
  if (auto partners = dyn_cast<tile::ShuffleXorOp>(op))
    return lowerShuffleXor(partners);
  if (auto histogram = dyn_cast<tile::HistogramOp>(op))
    return lowerHistogram(histogram);
  if (auto map = dyn_cast<tile::MapOp>(op))
    return lowerMap(map);
  if (auto extraction = dyn_cast<tile::ExtractOp>(op))
    return lowerExtract(extraction);
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return lowerReduce(reduce);
  if (auto iota = dyn_cast<tile::IotaOp>(op))
    return lowerIota(iota);
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return lowerTrans(trans);
  if (auto repeat = dyn_cast<tile::BroadcastOp>(op))
    return lowerBroadcast(repeat);
  if (auto convert = dyn_cast<tile::ConvertLayoutOp>(op))
    return lowerConvertLayout(convert);
  if (isa<tile::ReshapeOp, tile::ExpandDimsOp>(op))
    return lowerReshape(op);
  if (isa<tile::ProgramIdOp, tile::NumProgramsOp>(op)) {
    auto id = dyn_cast<tile::ProgramIdOp>(op);
    int64_t axis = id ? id.getAxis() : cast<tile::NumProgramsOp>(op).getAxis();
    if (axis < 0 || axis > 2)
      return op->emitOpError("expected axis 0, 1 or 2, got ") << axis;
    if (programsPerBlock > 1) {
      Value all = arith::TruncIOp::create(b, b.getI32Type(), function.getArgument(function.getNumArguments() - 1));
      Value value = axis > 0 ? i32(id ? 0 : 1) : id ? programId : all;
      set(op->getResult(0), {createIndexCast(value, op->getResult(0).getType(), /*isSigned=*/false)});
      return success();
    }
    Value value = readRegister(std::string(id ? "ctaid." : "nctaid.") + "xyz"[axis]);
    set(op->getResult(0), {createIndexCast(value, op->getResult(0).getType(), /*isSigned=*/false)});
    return success();
  }
  if (auto address = dyn_cast<tile::ScratchOp>(op)) {
    set(address.getResult(), {elementPtr(scratch, b.getI8Type(), scalar(address.getOffset()))});
    return success();
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return lowerLoop(loop);
  if (isa<scf::WhileOp>(op))
    orderLoop(op);
  return lowerCommonOp(op, "GPU");
}

/// A loop with a branch for every access could not have the loads of one iteration under way while another computes: it
/// comes in two versions, for memory that is aligned and for all other.
LogicalResult ThreadLowering::lowerLoop(scf::ForOp op) {
  orderLoop(op);
  bool hasPieces = alignment == Alignment::Asked && op->walk([&](Operation *inner) {
                                                        auto load = dyn_cast<tile::LoadOp>(inner);
                                                        return load && isa<RankedTensorType>(load.getType()) &&
                                                                       lanesOf(load.getType()) > 1
                                                                   ? WalkResult::interrupt()
                                                                   : WalkResult::advance();
                                                      }).wasInterrupted();
  if (!hasPieces)
    return lowerCommonOp(op, "GPU");
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    appendRowTypes(type, types);
  auto branch = scf::IfOp::create(b, types, areArgumentsAligned(), /*addThenBlock=*/true, /*addElseBlock=*/true);
  const llvm::SmallSetVector<Pending, 16> before = pending;
  const bool hadSharedReaders = hasSharedReaders, hadStagedReaders = hasStagedReaders;
  for (Alignment version : {Alignment::All, Alignment::None}) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(version == Alignment::All ? branch.thenBlock() : branch.elseBlock());
    pending = before;
    hasSharedReaders = hadSharedReaders;
    hasStagedReaders = hadStagedReaders;
    alignment = version;
    if (failed(lowerCommonOp(op, "GPU")))
      return failure();
    alignment = Alignment::Asked;
    SmallVector<Value> flat;
    appendRows(op.getResults(), flat);
    scf::YieldOp::create(b, flat);
  }
  ValueRange results = branch.getResults();
  for (Value result : op.getResults())
    setFromFlat(result, results);
  return success();
}

/// One instruction for each element of a pair in a word; taking the pair apart first would take two for the second.
Value ThreadLowering::widenFloat(Value value, Type type) {
  int64_t lanes = lanesOf(type);
  if (!getElementTypeOrSelf(value.getType()).isBF16() || !getElementTypeOrSelf(type).isF32() || lanes % 2 != 0)
    return RowLowering::widenFloat(value, type);
  int64_t pairs = lanes / 2;
  Type words = withLanes(b.getI32Type(), pairs), half = withLanes(b.getF32Type(), pairs);
  Value both = LLVM::BitcastOp::create(b, words, value);
  Value low = LLVM::BitcastOp::create(b, half, arith::ShLIOp::create(b, both, constant(words, 16)));
  Value high = LLVM::BitcastOp::create(b, half, arith::AndIOp::create(b, both, constant(words, -65536)));
  SmallVector<Value> elements;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    elements.push_back(extract(low, pair));
    elements.push_back(extract(high, pair));
  }
  return fromScalars(elements);
}

/// One instruction for f32.
Value ThreadLowering::createMaximum(bool isMaximum, Value lhs, Value rhs) {
  if (!getElementTypeOrSelf(lhs.getType()).isF32())
    return RowLowering::createMaximum(isMaximum, lhs, rhs);
  return isMaximum ? arith::MaximumFOp::create(b, lhs, rhs).getResult()
                   : arith::MinimumFOp::create(b, lhs, rhs).getResult();
}

/// Four neighbours from a multiple of four on, as they lie in most tiles, share the words of one call; else one lane at
/// a time.
Value ThreadLowering::createUniform(tile::UniformOp op, Value seed, Value counter) {
  int64_t lanes = lanesOf(counter.getType());
  Progression known = knownProgression(op.getCounter(), lanes);
  auto wordsFrom = [&](Value first) { return randomWords(op, seed, arith::ShRUIOp::create(b, first, i64(2))); };
  SmallVector<Value> results;
  for (int64_t lane = 0; lane < lanes;) {
    if (lane + 4 > lanes) {
      results.push_back(toUniform(randomWordOf(op, seed, extract(counter, lane++))));
      continue;
    }
    Value first = extract(counter, lane);
    SmallVector<Value, 4> four;
    if (known.step == 1 && known.multiple % 4 == 0) {
      four = wordsFrom(first);
    } else {
      auto equals = [&](Value left, Value right) -> Value {
        return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, left, right);
      };
      Value areNeighbours = equals(arith::AndIOp::create(b, first, i64(3)), i64(0));
      for (int64_t k = 1; k < 4; ++k)
        areNeighbours =
            both(areNeighbours, equals(extract(counter, lane + k), arith::AddIOp::create(b, first, i64(k))));
      auto branch = scf::IfOp::create(b, SmallVector<Type>(4, b.getI32Type()), areNeighbours, /*addThenBlock=*/true,
                                      /*addElseBlock=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(branch.thenBlock());
      scf::YieldOp::create(b, wordsFrom(first));
      b.setInsertionPointToEnd(branch.elseBlock());
      SmallVector<Value> words;
      for (int64_t k = 0; k < 4; ++k)
        words.push_back(randomWordOf(op, seed, extract(counter, lane + k)));
      scf::YieldOp::create(b, words);
      four.assign(branch.result_begin(), branch.result_end());
    }
    for (Value word : four)
      results.push_back(toUniform(word));
    lane += 4;
  }
  return fromScalars(results);
}

FailureOr<RowLowering::Rows> ThreadLowering::createDenseConstant(arith::ConstantOp op, ArrayRef<Attribute>) {
  return op.emitOpError("unsupported on gpu: a tile of different constants");
}
