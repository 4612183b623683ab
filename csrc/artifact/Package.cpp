#include "artifact/Package.h"

#include "artifact/ByteStream.h"
#include "artifact/Crc32.h"

using namespace torch_tile;
using namespace torch_tile::artifact;

namespace {

constexpr std::string_view magic = "TILEPACK";
// 2: sources of variants. 3: arguments that need their strides.
constexpr uint32_t formatVersion = 3, oldestVersion = 1;
constexpr size_t headerBytes = 64, alignBytes = 64;

uint64_t fixed(std::span<const uint8_t> bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

Status bad(std::string text) { return Status::invalidInput("load", std::move(text)); }

std::string readText(ByteReader &in) {
  std::string text = in.text();
  if (!isUtf8(text))
    in.fail("a text is no UTF-8");
  return text;
}

//===-- the index -----------------------------------------------------------------------------------------------===//

Blob readBlobEntry(ByteReader &in, uint64_t endOfBlobs) {
  Blob blob;
  blob.offset = in.unsignedInt();
  blob.sizeBytes = in.unsignedInt();
  blob.crc = in.unsignedInt32();
  std::span<const uint8_t> hash = in.raw(sizeof blob.hash.bytes);
  if (in.hasFailed())
    return blob;
  std::memcpy(blob.hash.bytes, hash.data(), hash.size());
  bool isInside = blob.offset >= headerBytes && blob.offset % alignBytes == 0 && blob.offset <= endOfBlobs &&
                  blob.sizeBytes <= endOfBlobs - blob.offset;
  if (!isInside)
    in.fail("a blob lies outside of the file");
  return blob;
}

PackageInput readInput(ByteReader &in) {
  PackageInput input;
  input.kind = in.enumerator(PackageInput::Kind::Int, "kind of argument");
  input.name = readText(in);
  input.type = in.enumerator(ElementType::Float4E2M1FNx2, "element type");
  input.sizes.resize(in.count());
  for (PackageInput::Range &range : input.sizes) {
    range.min = in.signedInt();
    range.max = in.signedInt();
    if (range.min > range.max)
      in.fail("a range of sizes is empty");
  }
  if (input.kind == PackageInput::Kind::Int && input.sizes.size() != 1)
    in.fail("an integer has one range");
  return input;
}

/// Bytes from the first element to the end of the last; false on overflow.
bool extentOf(const PackageConstant &constant, uint64_t &extent) {
  uint64_t elements = 1;
  for (size_t i = 0; i < constant.sizes.size(); ++i) {
    uint64_t reached = 0;
    if (constant.sizes[i] == 0)
      return extent = 0, true;
    if (__builtin_mul_overflow(static_cast<uint64_t>(constant.sizes[i] - 1), static_cast<uint64_t>(constant.strides[i]),
                               &reached) ||
        __builtin_add_overflow(elements, reached, &elements))
      return false;
  }
  return !__builtin_mul_overflow(elements, sizeOf(constant.type), &extent);
}

/// The number of elements, too: of a tensor that repeats them it is not bounded by the bytes.
bool hasNumElements(const PackageConstant &constant) {
  int64_t count = 1;
  for (int64_t size : constant.sizes)
    if (__builtin_mul_overflow(count, size, &count))
      return false;
  return true;
}

PackageConstant readConstant(ByteReader &in, const std::vector<Blob> &blobs) {
  PackageConstant constant;
  constant.name = readText(in);
  constant.blob = in.unsignedInt32();
  constant.type = in.enumerator(ElementType::Float4E2M1FNx2, "element type");
  size_t rank = in.count();
  for (std::vector<int64_t> *dims : {&constant.sizes, &constant.strides}) {
    dims->resize(in.hasFailed() ? 0 : rank);
    for (int64_t &dim : *dims) {
      dim = in.signedInt();
      if (dim < 0)
        in.fail("a size or stride is negative");
    }
  }
  constant.isWritten = in.byte() != 0;
  if (in.hasFailed())
    return constant;
  uint64_t extent = 0;
  if (constant.blob >= blobs.size())
    in.fail("a constant names no blob");
  else if (!extentOf(constant, extent) || extent > blobs[constant.blob].sizeBytes || !hasNumElements(constant))
    in.fail("constant '" + constant.name + "' is larger than its bytes");
  return constant;
}

uint32_t readIndex(ByteReader &in, size_t end, const char *what) {
  uint32_t index = in.unsignedInt32();
  if (index >= end)
    in.fail(std::string(what) + " is not there");
  return index;
}

Variant readVariant(ByteReader &in, const Package &package, uint64_t version) {
  Variant variant;
  variant.target = readText(in);
  variant.features.resize(in.count());
  for (std::string &feature : variant.features)
    feature = readText(in);
  variant.architecture = readText(in);
  variant.program = readIndex(in, package.blobs.size(), "the blob of a program");
  variant.needsTorch = in.byte() != 0;
  variant.inputs.resize(in.count());
  for (InputSource &input : variant.inputs) {
    input.kind = in.enumerator(InputSource::Kind::Constant, "source of an input");
    input.index = readIndex(
        in, input.kind == InputSource::Kind::Argument ? package.inputs.size() : package.constants.size(), "an input");
  }
  variant.packable.resize(in.count());
  for (uint32_t &constant : variant.packable)
    constant = readIndex(in, package.constants.size(), "a constant");
  if (version >= 2 && in.byte() != 0)
    variant.sources = readIndex(in, package.blobs.size(), "the blob of source lines");
  return variant;
}

/// Programs write where the file is mapped, so what is written has bytes of its own.
void checkWritten(ByteReader &in, const Package &package) {
  std::vector<const PackageConstant *> users(package.blobs.size());
  for (const PackageConstant &constant : package.constants) {
    if (package.blobs[constant.blob].sizeBytes == 0)
      continue;
    const PackageConstant *&user = users[constant.blob];
    if (user && (user->isWritten || constant.isWritten))
      in.fail("constants '" + user->name + "' and '" + constant.name + "' share bytes, and one of them is written");
    user = &constant;
  }
}

Status readAll(std::span<const uint8_t> index, uint64_t endOfBlobs, uint64_t version, Package &package) {
  ByteReader in(index);
  package.producer = readText(in);
  package.torchVersion = readText(in);
  package.metadata = readText(in);
  auto readList = [&](auto &list, auto readOne) {
    size_t count = in.count();
    for (size_t i = 0; i < count && !in.hasFailed(); ++i)
      list.push_back(readOne());
  };
  readList(package.blobs, [&] { return readBlobEntry(in, endOfBlobs); });
  readList(package.inputs, [&] { return readInput(in); });
  readList(package.constants, [&] { return readConstant(in, package.blobs); });
  readList(package.variants, [&] { return readVariant(in, package, version); });
  for (size_t left = version >= 3 ? in.count() : 0; left > 0 && !in.hasFailed(); --left) {
    size_t number = in.unsignedInt();
    if (number >= package.inputs.size())
      in.fail("strides of an argument that is not there");
    else
      package.inputs[number].needsStrides = true;
  }
  if (!in.hasFailed() && !in.isAtEnd())
    in.fail("bytes left over");
  if (!in.hasFailed())
    checkWritten(in, package);
  return in.hasFailed() ? bad("the package is damaged: " + in.failure() + " of its index") : Status::ok();
}

} // namespace

bool artifact::isUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto first = static_cast<uint8_t>(text[i++]);
    if (first < 0x80)
      continue;
    size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || more > text.size() - i)
      return false;
    uint32_t value = first & (0x3f >> more);
    for (; more > 0; --more, ++i) {
      auto next = static_cast<uint8_t>(text[i]);
      if ((next & 0xc0) != 0x80)
        return false;
      value = value << 6 | (next & 0x3f);
    }
    bool isOverlong = (first == 0xe0 && value < 0x800) || (first == 0xf0 && value < 0x10000);
    if (isOverlong || (value >= 0xd800 && value < 0xe000) || value > 0x10ffff)
      return false;
  }
  return true;
}

size_t artifact::sizeOf(ElementType type) {
  switch (type) {
  case ElementType::Complex128:
    return 16;
  case ElementType::Float64:
  case ElementType::Int64:
  case ElementType::UInt64:
  case ElementType::Complex64:
    return 8;
  case ElementType::Float32:
  case ElementType::Int32:
  case ElementType::UInt32:
  case ElementType::Complex32:
    return 4;
  case ElementType::Float16:
  case ElementType::BFloat16:
  case ElementType::Int16:
  case ElementType::UInt16:
    return 2;
  default:
    return 1;
  }
}

Status artifact::readPackage(std::span<const uint8_t> file, Package &package) {
  package = {};
  if (file.size() < magic.size() || std::memcmp(file.data(), magic.data(), magic.size()) != 0)
    return bad("this is no package of torch-tile: it does not begin with '" + std::string(magic) + "'");
  if (file.size() < headerBytes)
    return bad("the package is cut short: it has " + std::to_string(file.size()) + " bytes");
  uint64_t version = fixed(file, 8, 4);
  if (version < oldestVersion || version > formatVersion)
    return bad("the package has format " + std::to_string(version) + ", this library reads format " +
               std::to_string(formatVersion) + ": " +
               (version > formatVersion ? "load it with a newer torch-tile" : "package the model again"));
  if (crc32(file.first(40)) != fixed(file, 40, 4))
    return bad("the package is damaged: its header does not have the checksum that it names");
  uint64_t indexCrc = fixed(file, 12, 4), size = fixed(file, 16, 8), offset = fixed(file, 24, 8);
  uint64_t indexBytes = fixed(file, 32, 8);
  if (file.size() < size)
    return bad("the package is cut short: it has " + std::to_string(file.size()) + " of " + std::to_string(size) +
               " bytes");
  if (file.size() > size || offset < headerBytes || offset > size || indexBytes != size - offset)
    return bad("the package is damaged: its index is not at its end");
  std::span<const uint8_t> index = file.subspan(offset, indexBytes);
  if (crc32(index) != indexCrc)
    return bad("the package is damaged: its index does not have the checksum that the header names");
  return readAll(index, offset, version, package);
}

Status artifact::readBlob(std::span<const uint8_t> file, const Blob &blob, std::span<const uint8_t> &bytes) {
  if (blob.offset > file.size() || blob.sizeBytes > file.size() - blob.offset)
    return bad("a blob lies outside of the file");
  bytes = file.subspan(blob.offset, blob.sizeBytes);
  if (crc32(bytes) != blob.crc)
    return bad("the package is damaged: the bytes at " + std::to_string(blob.offset) +
               " do not have the checksum that the index names");
  return Status::ok();
}
