// Which operands of products in a loop lie in shared memory before an iteration needs them, and which products may end
// an iteration later.
#include "compiler/codegen/gpu/LoopPlan.h"
#include "compiler/tile/ir/LinearLayout.h"
#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/MatrixOperands.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// After so many bytes the permutation of words repeats itself.
static constexpr int64_t matrixAlignment = 1024;
/// Of what else moves through shared memory in such a loop, at most, at once.
static constexpr int64_t exchangedBytes = 32 * 1024;
/// Registers that a thread can have, that a block has, and that a thread needs for addresses and what it computes.
static constexpr int64_t mostRegisters = 255, blockRegisters = 64 * 1024, otherRegisters = 40;
/// What one copy to shared memory moves.
static constexpr int64_t leastCopyBytes = 4, mostCopyBytes = 16;

static RankedTensorType tileOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static bool hasLinearLayout(Value value) {
  RankedTensorType type = tileOf(value);
  return type && isa_and_present<tile::LinearAttr>(type.getEncoding());
}

static int64_t bytesOf(RankedTensorType type) {
  Type element = type.getElementType();
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return type.getNumElements() * std::max<int64_t>(1, bits / 8);
}

static int64_t stagedBytesOf(RankedTensorType type) { return llvm::alignTo(bytesOf(type), matrixAlignment); }

bool torch_tile::codegen::isMatrixDot(Operation *op) {
  auto dot = dyn_cast<tile::DotOp>(op);
  return dot && hasLinearLayout(dot.getResult());
}

bool torch_tile::codegen::isScalarLoad(Operation *op) {
  auto load = dyn_cast<tile::GatherOp>(op);
  return load && !tileOf(load.getResult()) && !load.getOffsets();
}

/// Whether products alone use a tile, as an operand that they read from shared memory.
static bool isOperandOnly(Value value, Block *block) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto trans = dyn_cast<tile::TransOp>(user))
      return tile::storedOperand(trans) == value && isOperandOnly(trans.getResult(), block);
    return isMatrixDot(user) && user->getBlock() == block && use.getOperandNumber() < 2;
  });
}

/// Whether an op may move elements between threads, through shared memory.
static bool movesElements(Operation *op) {
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return tile::storedOperand(trans) == trans.getResult() || !isOperandOnly(trans.getResult(), op->getBlock());
  if (isa<tile::ReduceOp, tile::BroadcastOp, tile::ExpandDimsOp>(op))
    return !hasLinearLayout(op->getOperand(0));
  return isa<tile::ConvertLayoutOp, tile::ReshapeOp, tile::ScanOp, tile::CatOp, tile::JoinOp, tile::SplitOp,
             tile::TakeOp, tile::ShuffleXorOp, tile::HistogramOp, tile::ExtractOp, tile::AtomicRmwOp,
             tile::AtomicCasOp>(op);
}

namespace {
class LoopPlanner : public LoopPlan {
public:
  LoopPlanner(tile::KernelOp kernel, scf::ForOp loop, const GpuOptions &options, int64_t numStages,
              int64_t reservedBytes)
      : kernel(kernel), loop(loop), options(options), numStages(numStages), reservedBytes(reservedBytes) {}
  void run();

private:
  bool isPlain();
  bool canStage(tile::GatherOp load);
  bool addAddresses(Value value);
  bool addLoad(tile::GatherOp load);
  void findLoads();
  void findFixed();
  bool hasRegistersFor(ArrayRef<tile::DotOp> underWay);
  void findInFlight();
  int64_t findOtherBytes();
  int64_t limitBeside(int64_t fixedBytes);
  void placeAll();

  tile::KernelOp kernel;
  scf::ForOp loop;
  const GpuOptions &options;
  int64_t numStages, reservedBytes;
};
} // namespace

//===-- what can be staged --------------------------------------------------------------------------------------===//

/// Loads that run ahead pass by everything else in the loop.
bool LoopPlanner::isPlain() {
  if (loop.getUnsignedCmp())
    return false;
  return !loop->walk([&](Operation *op) {
                bool isOrdered =
                    isWrite(op) || isa<tile::AssertOp, tile::PrintOp, tile::CheckIndexOp, tile::MapOp, scf::WhileOp,
                                       tile::HoldOp, tile::HeldOp, tile::StageOp, tile::StageValueOp>(op);
                return isOrdered ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

bool LoopPlanner::canStage(tile::GatherOp load) {
  auto type = tileOf(load.getResult());
  auto layout = type ? dyn_cast_if_present<tile::LayoutAttr>(type.getEncoding()) : tile::LayoutAttr();
  if (!layout || type.getRank() < 2 || load.getOffsets() || !tileOf(load.getBase()) || load->getUses().empty() ||
      !isOperandOnly(load.getResult(), load->getBlock()))
    return false;
  int64_t lanes = layout.getVector(), bytes = lanes * type.getElementTypeBitWidth() / 8;
  if (bytes < leastCopyBytes || bytes > mostCopyBytes || type.getShape().back() % lanes != 0)
    return false;
  Progression known = knownProgression(load.getBase(), lanes);
  if (known.step != 1 || known.multiple % bytes != 0)
    return false;
  if (load.getMask() && !isSameAlongPiece(load.getMask(), lanes))
    return false;
  Value other = load.getOther();
  if (auto splat = other ? other.getDefiningOp<tile::SplatOp>() : tile::SplatOp())
    other = splat.getSource();
  return !other || matchPattern(other, m_PosZeroFloat()) || matchPattern(other, m_Zero());
}

/// Adds what `value` is made of in an iteration. False if it cannot be made before.
bool LoopPlanner::addAddresses(Value value) {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      if (argument.getOwner() == loop.getBody() && argument != loop.getInductionVar() && carried.insert(argument))
        open.push_back(loop.getTiedLoopYieldedValue(argument)->get());
      continue;
    }
    Operation *op = next.getDefiningOp();
    if (!loop->isProperAncestor(op))
      continue;
    if (op->getBlock() != loop.getBody() || op->getNumRegions() > 0 || (!isPure(op) && !isScalarLoad(op)))
      return false;
    if (addresses.insert(op))
      llvm::append_range(open, op->getOperands());
  }
  return true;
}

bool LoopPlanner::addLoad(tile::GatherOp load) {
  auto oldAddresses = addresses;
  auto oldCarried = carried;
  if (addAddresses(load.getBase()) && (!load.getMask() || addAddresses(load.getMask())))
    return true;
  addresses = std::move(oldAddresses);
  carried = std::move(oldCarried);
  return false;
}

void LoopPlanner::findLoads() {
  for (auto load : loop.getBody()->getOps<tile::GatherOp>())
    if (canStage(load) && addLoad(load)) {
      loads.push_back(load);
      staged.push_back({load.getResult()});
    }
}

/// Operands that are the same in all iterations.
void LoopPlanner::findFixed() {
  for (auto dot : loop.getBody()->getOps<tile::DotOp>()) {
    if (!isMatrixDot(dot))
      continue;
    for (Value operand : {dot.getLhs(), dot.getRhs()}) {
      if (operand == dot.getLhs() && isLeftInRegisters(dot))
        continue;
      Value source = tile::storedOperand(operand);
      if (loop.isDefinedOutsideOfLoop(source) && !source.getDefiningOp<tile::StagedOp>() &&
          llvm::none_of(fixed, [&](const Staged &other) { return other.value == source; }))
        fixed.push_back({source});
    }
  }
}

/// Registers of 32 bits that a thread has of a tile.
static int64_t registersOf(Value value) {
  RankedTensorType type = tileOf(value);
  auto linear = type ? dyn_cast_if_present<tile::LinearAttr>(type.getEncoding()) : tile::LinearAttr();
  if (!linear)
    return 0;
  return ((int64_t)1 << linear.getRegisters().size()) * type.getElementTypeBitWidth() / 32;
}

/// Whether a thread has registers for left operands of products under way, beside all results of products and what the
/// loop carries. Without them the assembler spills, or waits for each instruction.
bool LoopPlanner::hasRegistersFor(ArrayRef<tile::DotOp> underWay) {
  int64_t numThreads = kernel->getAttrOfType<IntegerAttr>("tile.threads").getInt(), used = otherRegisters;
  for (BlockArgument argument : loop.getRegionIterArgs())
    used += registersOf(argument);
  for (auto dot : loop.getBody()->getOps<tile::DotOp>())
    if (!llvm::is_contained(loop.getBody()->getTerminator()->getOperands(), dot.getResult()))
      used += registersOf(dot.getResult());
  for (tile::DotOp dot : underWay)
    used += isLeftInRegisters(dot) ? registersOf(dot.getLhs()) : 0;
  auto most = kernel->getAttrOfType<IntegerAttr>("tile.max_registers");
  return used <= std::min(most ? most.getInt() : mostRegisters, blockRegisters / numThreads);
}

/// Whether a value of the loop's body is computed of what the loop carries there, by way of values of their type.
static bool isMadeOf(Value value, BlockArgument argument) {
  Operation *loop = argument.getOwner()->getParentOp();
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t k = 0; k < seen.size(); ++k) {
    Operation *op = seen[k].getDefiningOp();
    if (op && loop->isProperAncestor(op))
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (operand.getType() == argument.getType())
            seen.insert(operand);
      });
  }
  return seen.contains(argument);
}

/// Products whose results the loop only carries may end an iteration later: if nothing but the product itself looks at
/// what is carried, or another product of that iteration, which is waited for, comes before all that does. Results must
/// take the registers of what is carried, which they are made of, and which is not needed behind them: otherwise they
/// would move while they are under way.
void LoopPlanner::findInFlight() {
  if (!options.hasWarpGroups())
    return;
  auto isStaged = [&](Value operand) {
    Value source = tile::storedOperand(operand);
    auto isSource = [&](const Staged &part) { return part.value == source; };
    return llvm::any_of(staged, isSource) || llvm::any_of(fixed, isSource);
  };
  Block *body = loop.getBody();
  auto carriedBy = [&](tile::DotOp dot) -> BlockArgument {
    auto yield = dyn_cast_if_present<scf::YieldOp>(dot->hasOneUse() ? *dot->user_begin() : nullptr);
    if (!yield || yield->getBlock() != body)
      return {};
    return loop.getRegionIterArg(dot->getUses().begin()->getOperandNumber());
  };
  auto canLinger = [&](tile::DotOp dot) {
    return dot->hasAttr(tile::warpGroupAttrName) && (isStaged(dot.getLhs()) || isLeftInRegisters(dot)) &&
           isStaged(dot.getRhs()) && carriedBy(dot);
  };
  SmallVector<tile::DotOp> fromShared, others;
  for (auto dot : body->getOps<tile::DotOp>()) {
    bool addsAlone = canLinger(dot) && dot.getAcc() == carriedBy(dot) && carriedBy(dot).hasOneUse();
    if (addsAlone && !isLeftInRegisters(dot))
      fromShared.push_back(dot);
    else if (addsAlone || (waited && canLinger(dot)))
      others.push_back(dot);
    else if (!waited && dot->hasAttr(tile::warpGroupAttrName))
      waited = dot;
  }
  inFlight = fromShared;
  if (!hasRegistersFor(others))
    return;
  for (tile::DotOp dot : others) {
    BlockArgument sums = carriedBy(dot);
    auto isBetween = [&](Operation *user) {
      Operation *at = body->findAncestorOpInBlock(*user);
      return waited->isBeforeInBlock(at) && (at == dot || at->isBeforeInBlock(dot));
    };
    bool addsAlone = dot.getAcc() == sums && sums.hasOneUse();
    bool isInPlace = matchPattern(dot.getAcc(), m_Constant()) || isMadeOf(dot.getAcc(), sums);
    if (!addsAlone && !(isInPlace && llvm::all_of(sums.getUsers(), isBetween)))
      continue;
    inFlight.push_back(dot);
    if (!addsAlone)
      awaited.push_back(sums.getArgNumber());
  }
}

//===-- where it lies -------------------------------------------------------------------------------------------===//

/// What other ops of the loop may take of shared memory.
int64_t LoopPlanner::findOtherBytes() {
  int64_t most = 0;
  auto isPlaced = [&](Value operand) {
    Value source = tile::storedOperand(operand);
    auto isSource = [&](const Staged &part) { return part.value == source; };
    return llvm::any_of(staged, isSource) || llvm::any_of(fixed, isSource);
  };
  loop->walk([&](Operation *op) {
    int64_t bytes = 0;
    if (auto dot = dyn_cast<tile::DotOp>(op); dot && isMatrixDot(op)) {
      if (!isLeftInRegisters(dot) && !isPlaced(dot.getLhs()))
        bytes += stagedBytesOf(tileOf(dot.getLhs()));
      if (!isPlaced(dot.getRhs()))
        bytes += stagedBytesOf(tileOf(dot.getRhs()));
    } else if (isa<tile::DotOp>(op)) {
      bytes = 48 * 1024; // of products by single threads
    } else if (movesElements(op)) {
      for (Value operand : op->getOperands())
        if (RankedTensorType type = tileOf(operand))
          bytes += std::min(exchangedBytes, 2 * bytesOf(type));
    }
    most = std::max(most, bytes);
  });
  return llvm::alignTo(most, matrixAlignment);
}

/// Bytes for what is staged, beside what is the same in all iterations.
int64_t LoopPlanner::limitBeside(int64_t fixedBytes) {
  otherBytes = findOtherBytes();
  return options.blockSharedBytes() - std::max(otherBytes, reservedBytes) - fixedBytes;
}

/// As many iterations ahead as were asked for and there is room for.
void LoopPlanner::placeAll() {
  int64_t offset = 0;
  for (Staged &part : staged) {
    part.offset = offset;
    offset += stagedBytesOf(tileOf(part.value));
  }
  slotBytes = offset;
  int64_t fixedBytes = 0;
  for (const Staged &part : fixed)
    fixedBytes += stagedBytesOf(tileOf(part.value));
  int64_t limit = limitBeside(fixedBytes);
  // One slot is read while the others are loaded, or wait.
  ahead = staged.empty() ? 0 : numStages - 1;
  while (ahead > 0 && (ahead + 1) * slotBytes > limit)
    --ahead;
  if (ahead == 0) {
    staged.clear();
    loads.clear();
    inFlight.clear();
    waited = {};
    awaited.clear();
    // Each product now places what was loaded.
    limit = limitBeside(fixedBytes);
  }
  // With two slots, loads start behind the products of the iteration before, and must end in this one: those count
  // more.
  if (ahead == 1 && !awaited.empty()) {
    inFlight.clear();
    awaited.clear();
  }
  numSlots = ahead ? ahead + 1 : 0;
  offset = numSlots * slotBytes;
  if (offset > limit)
    fixed.clear();
  for (Staged &part : fixed) {
    part.offset = offset;
    offset += stagedBytesOf(tileOf(part.value));
  }
  totalBytes = offset;
}

void LoopPlanner::run() {
  if (llvm::none_of(loop.getBody()->getOps<tile::DotOp>(), [](tile::DotOp dot) { return isMatrixDot(dot); }))
    return;
  bool hasInner = loop->walk([&](scf::ForOp inner) {
                        return inner->hasAttr(pipelinedAttrName) ? WalkResult::interrupt() : WalkResult::advance();
                      })
                      .wasInterrupted();
  if (hasInner)
    return;
  if (numStages > 1 && isPlain())
    findLoads();
  findFixed();
  findInFlight();
  placeAll();
}

LoopPlan torch_tile::codegen::planLoop(tile::KernelOp kernel, scf::ForOp loop, const GpuOptions &options,
                                       int64_t numStages, int64_t reservedBytes) {
  LoopPlanner planner(kernel, loop, options, numStages, reservedBytes);
  planner.run();
  return planner;
}
