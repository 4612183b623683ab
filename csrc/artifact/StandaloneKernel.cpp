#include "artifact/StandaloneKernel.h"

#include "artifact/ByteStream.h"

using namespace torch_tile;
using namespace torch_tile::artifact;

static constexpr std::string_view magic = "torch-tile kernel 3\n";

std::vector<uint8_t> artifact::serialize(const StandaloneKernel &standalone) {
  ByteWriter out;
  out.raw(magic.data(), magic.size());
  const Kernel &kernel = standalone.kernel;
  out.text(kernel.name);
  out.text(kernel.symbol);
  out.text(kernel.target);
  out.raw(kernel.hash.bytes, sizeof kernel.hash.bytes);
  out.unsignedInt(kernel.externalSymbols.size());
  for (const std::string &symbol : kernel.externalSymbols)
    out.text(symbol);
  out.unsignedInt(kernel.numThreads);
  out.unsignedInt(kernel.programsPerBlock);
  out.unsignedInt(kernel.sharedBytes);
  out.text(standalone.arguments);
  out.byte(standalone.needsGrid);
  out.signedInt(standalone.scratchBytes);
  out.signedInt(standalone.programCostNs);
  out.text({reinterpret_cast<const char *>(kernel.code.data()), kernel.code.size()});
  return out.take();
}

Status artifact::deserialize(std::span<const uint8_t> bytes, StandaloneKernel &standalone) {
  ByteReader in(bytes);
  std::span<const uint8_t> head = in.raw(magic.size());
  if (in.hasFailed() || std::memcmp(head.data(), magic.data(), magic.size()) != 0)
    return Status::invalidInput("load", "expected a kernel of this version");
  Kernel &kernel = standalone.kernel;
  kernel.name = in.text();
  kernel.symbol = in.text();
  kernel.target = in.text();
  std::span<const uint8_t> hash = in.raw(sizeof kernel.hash.bytes);
  if (!in.hasFailed())
    std::memcpy(kernel.hash.bytes, hash.data(), hash.size());
  kernel.externalSymbols.resize(in.count());
  for (std::string &symbol : kernel.externalSymbols)
    symbol = in.text();
  kernel.numThreads = in.unsignedInt32();
  kernel.programsPerBlock = in.unsignedInt32();
  kernel.sharedBytes = in.unsignedInt32();
  standalone.arguments = in.text();
  standalone.needsGrid = in.byte() != 0;
  standalone.scratchBytes = in.signedInt();
  standalone.programCostNs = in.signedInt();
  std::span<const uint8_t> code = in.raw(in.count());
  kernel.code.assign(code.begin(), code.end());
  if (!in.hasFailed() && !in.isAtEnd())
    in.fail("bytes left over");
  return in.hasFailed() ? Status::invalidInput("load", in.failure()) : Status::ok();
}
