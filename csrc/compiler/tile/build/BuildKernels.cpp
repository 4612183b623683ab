#include "compiler/tile/build/BuildKernels.h"

#include "compiler/tile/build/GpuAlternatives.h"

#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/KernelEmitter.h"
#include "compiler/tile/build/ShortSizes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::tile_build {

/// Floats to which one instruction adds atomically.
static constexpr int64_t updatedTogether = 4;

/// What a block of threads is to a schedule of the CPU: a vector register of four warps or more.
static constexpr int64_t gpuVectorBytes = 1024;

/// Of a tensor that is larger than this, a device's cache holds the end when a kernel has gone over it.
static constexpr int64_t largeBytes = 32 << 20;

/// Kernels that follow one another over the same large tensors change direction, so that each finds in the cache what
/// the one before it touched last.
class Directions {
public:
  explicit Directions(const SizeFacts &facts) : facts(facts) {}

  bool isBackwards(ArrayRef<Value> read) const {
    return llvm::any_of(read, [&](Value v) {
      auto last = lastWasBackwards.find(v);
      return last != lastWasBackwards.end() && !last->second;
    });
  }
  void record(ValueRange touched, bool isBackwards) {
    for (Value v : touched)
      if (torch_tile::fusion::estimateBytes(cast<GraphTensorType>(v.getType()), facts) > largeBytes)
        lastWasBackwards[v] = isBackwards;
  }

private:
  const SizeFacts &facts;
  llvm::DenseMap<Value, bool> lastWasBackwards;
};

/// Elements of an input that a kernel reads: all, or of one that is only gathered from, at most one for each point.
static SizeExpr elementsRead(FusedLoops &loops, Value input) {
  SizeContext &sizes = loops.sizes();
  SizeExpr all = cast<GraphTensorType>(input.getType()).numElements(), gathered = sizes.constant(0);
  for (const FusedLoops::Access &access : loops.accesses()) {
    if (access.buffer != input)
      continue;
    if (!access.load || access.scalars.empty())
      return all;
    SizeExpr points = sizes.constant(1);
    for (const torch_tile::fusion::Axis &axis : loops.axes)
      if (loops.variesAlong(access.load->getResult(0), axis.name))
        points = sizes.mul(points, axis.extent);
    gathered = sizes.add(gathered, points);
  }
  return gathered.isConstant(0) ? all : loops.facts().simplify(sizes.min(all, gathered));
}

/// Whether a buffer that the nest writes in place may be reached through another argument, too. New buffers share
/// memory with nothing.
static bool mayShareMemory(const FusedLoops &loops, ArrayRef<Value> inputs) {
  return llvm::any_of(loops.members, [&](const FusedMember &member) {
    LoopsOp op = member.op;
    return llvm::any_of(op.getDests(), [&](Value dest) {
      Value written = loops.destOf(dest);
      return llvm::any_of(inputs, [&](Value input) {
        return input != written && torch_tile::analysis::mayShareMemory(input, written);
      });
    });
  });
}

/// Whether atomic updates are of single elements: those of neighbours then go together where neighbouring threads make
/// them.
static bool hasSingleUpdates(FusedLoops &loops, const Schedule &schedule, const BuildOptions &options) {
  return llvm::any_of(loops.members, [&](FusedMember &member) {
    if (member.op.getCombine().empty())
      return false;
    bool isSum = isa<arith::AddFOp>(member.op.getCombine().front().front());
    return !isSum || !llvm::all_of(member.op.getOutputs(), [&](Value result) {
      auto type = cast<GraphTensorType>(result.getType());
      SizeExpr offset = loops.offsetOf(result);
      if (!options.hasVectorAtomics || !type.getElementType().isF32() || schedule.vectorAxis < 0)
        return false;
      std::string_view axis = loops.axes[schedule.vectorAxis].name;
      std::optional<SizeExpr> stride = torch_tile::fusion::strideAlong(loops.sizes(), offset, axis);
      SizeExpr row = torch_tile::fusion::withoutAxis(loops.sizes(), offset, axis);
      return stride && stride->isConstant(1) && !isUnaligned(result, loops.facts()) &&
             loops.facts().divides(loops.sizes().constant(updatedTogether), row) == Proof::Yes &&
             loops.facts().divides(loops.sizes().constant(updatedTogether), loops.axes[schedule.vectorAxis].extent) ==
                 Proof::Yes;
    });
  });
}

/// Products of a few neighbours, as lanes would join them, may leave a range that those of all that comes first stay
/// within, or the other way round.
static bool isRunningProduct(const FusedLoops &loops) {
  return llvm::any_of(loops.members, [](const FusedMember &member) {
    LoopsOp op = member.op;
    if (!op.isScan())
      return false;
    auto combined = op.getCombine().front().without_terminator();
    return llvm::hasSingleElement(combined) && isa<arith::MulFOp>(*combined.begin());
  });
}

/// What of a kernel is chosen outside of it.
struct KernelRequest {
  std::string name;
  int64_t alternative = 0;
  /// Sizes that the kernel is for; its programs run where they are the call's.
  FixedSizes fixed;
  /// The launch of a kernel for the sizes `others`, whose results this one computes for the rest.
  LaunchOp before = {};
  FixedSizes others;
};

/// The kernel of a fusion group, and its launch in front of the group.
static FailureOr<LaunchOp> buildKernel(ModuleOp module, FusionOp fusion, const SizeFacts &facts,
                                       const BuildOptions &options, const KernelRequest &request,
                                       Directions &directions) {
  StringRef name = request.name;
  int64_t alternative = request.alternative;
  FusedLoops asAccessed(fusion, facts, Walk::Accesses, request.fixed);
  std::optional<FusedLoops> flat;
  auto chooseParallel = [&] {
    Schedule schedule = chooseGpuSchedule(asAccessed, options.sharedBytes);
    if (!asAccessed.canFlatten() || isNearFloor(schedule))
      return schedule;
    for (Walk walk : {Walk::Result, Walk::Tiles}) {
      FusedLoops merged(fusion, facts, walk);
      if (merged.flatAxis < 0)
        continue;
      Schedule other = chooseGpuSchedule(merged, options.sharedBytes);
      if (!isWorthFlattening(schedule, other, walk))
        continue;
      schedule = other;
      flat.emplace(std::move(merged));
    }
    return schedule;
  };
  // An ordered scatter takes the schedule of the CPU, with a block of threads for a vector register.
  bool isInOrder = asAccessed.isOrdered() && !asAccessed.isFreeScatter();
  Schedule schedule = !options.isGpu ? chooseSchedule(asAccessed, options.vectorBytes, !isRunningProduct(asAccessed))
                      : !isInOrder   ? chooseParallel()
                      : asAccessed.isScan() ? chooseGpuScanSchedule(asAccessed)
                                            : chooseSchedule(asAccessed, gpuVectorBytes, /*foldsLanes=*/false);
  if (options.isGpu && !isInOrder && alternative > 0) {
    std::vector<Alternative> others = gpuAlternatives(fusion, facts, options.sharedBytes);
    if (alternative <= (int64_t)others.size()) {
      Alternative &other = others[alternative - 1];
      schedule = std::move(other.schedule);
      flat.emplace(fusion, facts, other.walk);
    }
  }
  FusedLoops &loops = flat ? *flat : asAccessed;
  if (options.isGpu && loops.isFreeScatter() && hasSingleUpdates(loops, schedule, options))
    schedule.pieceLanes = 1;
  if (options.isGpu && (!isInOrder || loops.isScan()) && schedule.numGridAxes > 0) {
    SmallVector<Value> read;
    for (const FusedLoops::Access &access : loops.accesses())
      if (access.load)
        read.push_back(access.buffer);
    schedule.isBackwards = directions.isBackwards(read);
  }
  if (options.isGpu && schedule.numThreads > 0)
    schedule.hasRowsInWarps = areRowsInWarps(schedule, widestAlongLanes(loops, schedule));
  KernelEmitter emitter(loops, schedule, options, module, fusion.getLoc());
  FailureOr<tile::KernelOp> kernel = emitter.run(name);
  if (failed(kernel))
    return failure();
  MLIRContext *context = module.getContext();
  (*kernel)->setDiscardableAttr("schedule", StringAttr::get(context, schedule.str(loops)));

  if (schedule.numThreads)
    (*kernel)->setAttr("tile.threads", IntegerAttr::get(IntegerType::get(context, 64), schedule.numThreads));
  auto setNumber = [&](StringRef name, int64_t value, int64_t usual) {
    if (value != usual)
      (*kernel)->setAttr(name, IntegerAttr::get(IntegerType::get(context, 64), value));
  };
  setNumber("tile.programs_per_block", schedule.programsPerBlock, 1);
  setNumber("tile.most_neighbours", schedule.pieceLanes, 0);
  setNumber("tile.blocks_per_processor", schedule.blocksPerProcessor, 0);
  if (options.isGpu && schedule.unroll > 1)
    setNumber("tile.launch_bound", schedule.blocksOfLaunchBound(), 0);
  // A schedule that asks for a number of blocks has its bound.
  if (options.isGpu && schedule.blocksPerProcessor == 0)
    (*kernel)->setAttr("tile.takes_launch_bound", UnitAttr::get(context));
  bool isNeverEmpty = llvm::all_of(
      loops.axes, [&](const torch_tile::fusion::Axis &axis) { return loops.facts().range(axis.extent).min >= 1; });
  // Blocks of places, which begin before a row, may end behind it: the last one has no element of some rows.
  bool hasEmptyBlocks = schedule.alignedLanes > 0 && !loops.axes[schedule.vectorAxis].reduced;
  if (options.isGpu && isNeverEmpty && !isInOrder && !hasEmptyBlocks)
    (*kernel)->setAttr("tile.never_empty", UnitAttr::get(context));
  SmallVector<int64_t> unaligned;
  for (auto [k, input] : llvm::enumerate(emitter.inputs))
    if (isUnaligned(input, facts))
      unaligned.push_back(k);
  for (auto [k, output] : llvm::enumerate(emitter.newOutputs))
    if (isUnaligned(output, facts))
      unaligned.push_back(emitter.inputs.size() + k);
  if (options.isGpu && !unaligned.empty())
    (*kernel)->setAttr("tile.unaligned_args", DenseI64ArrayAttr::get(context, unaligned));
  if (options.isGpu) // the launch aligns them; a branch for every access costs a quarter of the instructions
    (*kernel)->setAttr("tile.aligned_args", UnitAttr::get(context));
  if (options.isGpu && !mayShareMemory(loops, emitter.inputs))
    (*kernel)->setAttr("tile.noalias_args", UnitAttr::get(context));

  SizeContext &sizes = loops.sizes();
  SizeExpr bytes = sizes.constant(0);
  auto addBytes = [&](Value buffer, SizeExpr elements) {
    Type type = cast<GraphTensorType>(buffer.getType()).getElementType();
    bytes = sizes.add(bytes, sizes.mul(elements, sizes.constant(torch_tile::fusion::elementBytes(type))));
  };
  for (Value input : emitter.inputs)
    addBytes(input, elementsRead(loops, input));
  for (Value output : emitter.newOutputs)
    addBytes(output, cast<GraphTensorType>(output.getType()).numElements());

  // Launch results: new buffers and buffers written in place, as the fusion had them; of a second launch, those of the
  // first.
  SmallVector<int64_t> writes;
  SmallVector<Value> operands(emitter.inputs);
  for (auto [k, output] : llvm::enumerate(loops.outputs)) {
    Value dest = loops.destOf(output);
    int64_t place = dest ? llvm::find(emitter.inputs, dest) - emitter.inputs.begin() : -1;
    if (LaunchOp before = request.before; before && dest) {
      operands[place] = before.getResult(k);
    } else if (before) {
      place = (int64_t)operands.size();
      operands.push_back(before.getResult(k));
    }
    writes.push_back(place);
  }
  SizeExpr programs = emitter.numPrograms;
  auto runWhere = [&](SizeExpr isRun) {
    programs = sizes.mul(programs, isRun);
    bytes = sizes.mul(bytes, isRun);
  };
  if (!request.fixed.empty())
    runWhere(sizes.sub(sizes.constant(1), differs(sizes, request.fixed)));
  if (!request.others.empty())
    runWhere(differs(sizes, request.others));
  OpBuilder builder(fusion);
  auto expr = [&](SizeExpr e) { return ExprAttr::get(context, e); };
  auto launch = LaunchOp::create(builder, fusion.getLoc(), fusion.getResultTypes(),
                                 FlatSymbolRefAttr::get(context, name), operands, exprArray(context, emitter.integers),
                                 expr(programs), expr(sizes.constant(schedule.programCostNs)),
                                 expr(emitter.scratchBytes), expr(bytes), builder.getDenseI64ArrayAttr(writes));
  directions.record(launch.getInputs(), schedule.isBackwards);
  directions.record(launch.getResults(), schedule.isBackwards);
  return launch;
}

/// Whether results are parts of a tensor that is put together where they lie.
static bool isPart(FusionOp fusion) {
  return llvm::any_of(fusion->getUsers(), [](Operation *user) { return isa<AssembleOp>(user); });
}

static LogicalResult buildKernels(ModuleOp module, FusionOp fusion, const SizeFacts &facts, ArrayAttr symbols,
                                  const BuildOptions &options, KernelRequest request, Directions &directions) {
  FixedSizes fixed;
  if (!options.isGpu && !isPart(fusion))
    fixed = shortSizes(FusedLoops(fusion, facts), symbols);
  if (!fixed.empty()) {
    KernelRequest of = request;
    for (const auto &[size, value] : fixed)
      of.name += "_" + size + "_" + std::to_string(value);
    of.fixed = fixed;
    FailureOr<LaunchOp> launch = buildKernel(module, fusion, facts, options, of, directions);
    if (failed(launch))
      return failure();
    request.before = *launch;
    request.others = std::move(fixed);
  }
  FailureOr<LaunchOp> launch = buildKernel(module, fusion, facts, options, request, directions);
  if (failed(launch))
    return failure();
  fusion.replaceAllUsesWith(launch->getResults());
  fusion.erase();
  return success();
}

LogicalResult buildTileKernels(ModuleOp module, FuncOp func, const BuildOptions &options,
                               llvm::function_ref<std::string(FusionOp)> kernelName) {
  SizeFacts facts = func.facts();
  Directions directions(facts);
  llvm::StringSet<> names;
  for (auto kernel : module.getOps<tile::KernelOp>())
    names.insert(kernel.getSymName());
  size_t number = 0; // of the next launch
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    number += isa<LaunchOp>(op);
    auto fusion = dyn_cast<FusionOp>(op);
    if (!fusion)
      continue;
    if (fusion.getNumResults() == 0) {
      fusion.erase(); // nothing leaves it
      continue;
    }
    std::string name = kernelName(fusion);
    std::string unique = name;
    for (unsigned k = 1; !names.insert(unique).second; ++k)
      unique = name + "_" + std::to_string(k);
    int64_t alternative = number < options.schedules.size() ? options.schedules[number] : 0;
    ++number;
    if (failed(buildKernels(module, fusion, facts, func.getSymbolsAttr(), options, {unique, alternative}, directions)))
      return failure();
  }
  return success();
}

} // namespace torch_tile::tile_build
