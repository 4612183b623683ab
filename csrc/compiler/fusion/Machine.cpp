#include "compiler/fusion/Fusion.h"

namespace torch_tile::fusion {

Machine Machine::gpu(const target::GpuMachine &device) {
  Machine machine;
  machine.wantedPrograms = 1024;
  machine.fewPrograms = 2 * device.multiprocessors;
  machine.smallReduction = 1 << 15;
  machine.columnsPerProgram = 128;
  machine.fewestRows = 2;
  machine.elementsOfRows = 0;
  machine.branchCost = 4;
  machine.mergesLoads = true;
  machine.shortRunBytes = 256;
  machine.fewJoinedPrograms = 128;
  machine.tileBytes = device.registers * 4;
  machine.columnBytes = device.memoryBlockBytes;
  machine.nearBytes = device.localBytes;
  machine.splitsScans = true;
  machine.joinsScatters = true;
  machine.joinsWholeExponentialSums = true;
  machine.unrollsReductions = true;
  machine.mostInterleaved = 0;
  machine.splitsVectors = true;
  machine.bytesPerLaunch = 8 << 20;
  machine.operationsPerByte = (double)(device.multiprocessors * device.lanes) * device.cyclesPerNs / device.memoryRate;
  machine.cachedBytes = (int64_t)(device.residentShare * (double)device.cacheBytes);
  machine.cachedShare = device.memoryRate / device.cacheRate;
  machine.computesIndices = true;
  return machine;
}

} // namespace torch_tile::fusion
