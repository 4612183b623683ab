// How long a kernel takes on a GPU under a schedule, as far as its accesses decide it.
#pragma once

#include "compiler/target/GpuMachine.h"
#include "compiler/tile/build/Schedule.h"

#include <vector>

namespace torch_tile::tile_build {

/// Predicts kernels from what their accesses touch: sectors of 32 bytes from memory and the second-level cache, lines
/// that the first-level cache serves one by one, instructions, and the latency that too few threads cannot hide.
///
/// A prediction ranks schedules of one nest; it does not know what happens inside the memory controller.
class GpuModel {
public:
  explicit GpuModel(FusedLoops &loops, const target::GpuMachine &machine = {});

  double predictNs(const Schedule &schedule);
  /// How much longer a kernel of many accesses takes for the elements that a thread has of each, which predictNs does
  /// not count. It tells tiles over the same axes apart; axes differ by more.
  double busyness(const Schedule &schedule) const;
  /// Whether a block of so many threads has the registers that they need, as far as that is known before code is made.
  bool hasRegisters(const Schedule &schedule) const;
  /// Whether threads can hold a tile, and rows that go through shared memory have room there.
  bool hasRoom(const Schedule &schedule, int64_t sharedBytes) const;
  /// Whether the nest reads and writes few tensors, at places that follow its axes: what its threads hold is known well
  /// enough to try larger tiles, and to trust smaller differences.
  bool isPlain() const { return plain; }
  /// Whether lanes are reduced elements that lie side by side in memory.
  bool readsRows(const Schedule &schedule) const;
  bool followsNoMemory(const Schedule &schedule) const;
  /// What no schedule can be faster than: everything moves once, at the memory's rate.
  double floorNs() const;
  /// The only reduced axis if threads take all its points without a loop, and hold what they have read of them; -1
  /// otherwise.
  int heldAxis(const Schedule &schedule) const;

  int64_t extent(int axis) const { return extents[axis]; }
  /// Orders of the grid in which some access walks through memory, each once.
  llvm::SmallVector<llvm::SmallVector<int>> gridOrders() const;
  /// Of an access, in bytes; nothing where the offset is not linear along the axis, but for wrapping around once.
  std::optional<int64_t> strideBytes(unsigned access, int axis) const { return streams[access].strides[axis]; }
  unsigned numAccesses() const { return streams.size(); }
  /// Whether tiles may lie along the axis: what is read may lie anywhere, what is written at places of its own, too.
  bool canTile(int axis) const;
  /// Whether what is taken apart along the flat axis `v` lies side by side along another one: threads of a tile over
  /// both read it along that.
  bool isReadAcross(int v, int r) const;

private:
  static constexpr int64_t sectorBytes = 32, warpSize = 32, accessBytes = 16;

  struct Stream {
    llvm::SmallVector<std::optional<int64_t>> strides; // bytes, by axis
    llvm::SmallVector<bool> wraps;                     // by axis: each element has an address of its own
    llvm::SmallVector<bool> isIndirect;                // by axis: each point computes or looks up where it is
    llvm::SmallVector<bool> maskVaries;                // by axis
    llvm::SmallVector<bool> isPart;                    // by axis: indices choose among what lies at one point of it
    /// Strides in bytes along the axes that the flat one is made of, where it is not walked as one.
    llvm::SmallVector<int64_t> digits;
    int64_t elementBytes = 1;
    bool isLoad = true, isFull = true, isUnaligned = false, isScattered = false;
    /// A scatter that combines what it writes with what is there.
    bool isUpdated = false;
    /// What indices it has are computed, not looked up: neighbouring points have neighbouring places.
    bool isComputed = true;
    /// Under a mask that few points meet: what lies beyond an edge, and is read from one place along it.
    bool isBorder = false;
    double share = 1;       // of all points, those at which its mask holds
    double chosen = 1;      // elements among which indices choose: those that no axis with a stride tells apart
    double bufferBytes = 0; // of all elements of the buffer, if they lie side by side
    int64_t firstByte = 0;  // where all axes are at 0, as far as that is known
    /// In which it is there, in order: also those that compute its member again.
    llvm::SmallVector<int> stages;
    mlir::Value buffer;
    llvm::SmallVector<mlir::Value> scalars; // that the offset is made of, beside axes
    SizeExpr offset;
    /// The offset of most points: where no index wraps around or is held at a border.
    SizeExpr usual;
    /// Loads that walk through one buffer alike have the same number; how far this one is from their first, in bytes.
    int family = -1;
    int64_t distance = 0;
  };
  static bool isSame(const Stream &left, const Stream &right) {
    return left.buffer == right.buffer && left.offset == right.offset && left.scalars == right.scalars;
  }
  /// Points by axis.
  using Box = llvm::SmallVector<int64_t>;

  int64_t addressOf(const Stream &stream, int64_t position) const;
  double sectorsOf(const Stream &stream, const Box &box, int64_t sectorBytes = GpuModel::sectorBytes) const;
  bool isAcross(const Stream &stream, int v, int r) const;
  double blockBytesOf(const Stream &stream, const Box &box) const;
  double wastedBytes(const Stream &stream, const Box &program, double programs, double once) const;
  double newShare(const Stream &stream, llvm::ArrayRef<const Stream *> others, const Box &box) const;
  int64_t widestAlong(int axis) const;
  struct Request {
    double count, sectors, lines;
    bool isGathered, hasParts; // parts: some sectors are not covered as a whole
    double placeWork = 0;      // instructions that find the place of an element in a tile of two axes
    bool isDivided = false;    // whether they divide by the length of a row
    bool isTakenApart = false; // whether the place along other axes is computed of each element's
  };
  Request requestsOf(const Stream &stream, const Schedule &schedule, int64_t vector) const;

  double idleness(const Schedule &schedule, double running) const;
  double overheadOf(const Schedule &schedule, int64_t perThread, int64_t blocks) const;
  int64_t registersOf(const Schedule &schedule) const;
  bool spills(const Schedule &schedule) const;
  double interleaved(const Stream &stream) const;
  double shareOfSectors(const Stream &stream, const Box &box) const;
  bool isMaskedIn(const Stream &stream, const Schedule &schedule) const;
  double foldWork(const Schedule &schedule, int64_t threads, int64_t vector) const;
  double combineWorkOf(const Schedule &schedule, int64_t perThread, bool isOneTile) const;
  double foldNs(const Schedule &schedule, int64_t threads, int64_t vector) const;

  FusedLoops &loops;
  target::GpuMachine machine;
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<int64_t> flatExtents; // of the axes that the flat one is made of
  std::vector<Stream> streams;
  bool plain = false;
  double numPoints = 1;
  int64_t numValues = 1;
  /// Bytes of the numbers that one reduction carries.
  int64_t valueBytes = 0;
  /// Instructions of a point by stage; without what an earlier stage has computed, which a thread may hold.
  llvm::SmallVector<double> stageWork, firstWork;
  /// Instructions of the combiners of all reductions for a point; without what is known where counts are constants.
  double combineWork = 0, joinWork = 0;
  /// Of what is computed of the reductions' results.
  double resultWork = 0;
};

/// Further schedules for the nest, beside the one that the rules of chooseGpuSchedule give: tiles over pairs of axes.
std::vector<Schedule> gpuCandidates(FusedLoops &loops, const GpuModel &model);

} // namespace torch_tile::tile_build
