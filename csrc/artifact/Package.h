// A model in one file: programs for several targets, constants, and what calls must look like. Artifacts of
// standalone_compile have blobs and metadata alone. Written by
// torch_tile/package_file.py; the bytes are laid out so that constants can be used where the file is mapped.
//
//   header (64 bytes) | blobs, each at a multiple of 64 bytes, large ones of 4096 | index
#pragma once

#include "artifact/Artifact.h"
#include "support/Status.h"

#include <optional>
#include <span>
#include <string_view>

namespace torch_tile::artifact {

/// Bytes that something else describes: an artifact with its code, or the memory of a constant. Equal ones are stored
/// once.
struct Blob {
  uint64_t offset = 0, sizeBytes = 0;
  uint32_t crc = 0;
  Hash hash; // SHA-256
};

/// What an argument of a call must be. A dimension of one known size has equal bounds.
struct PackageInput {
  enum class Kind : uint8_t { Tensor, Int } kind = Kind::Tensor;
  std::string name; // as the user calls it
  ElementType type = ElementType::Float32;
  struct Range {
    int64_t min = 0, max = 0;
  };
  std::vector<Range> sizes;  // of an Int one entry, its value
  bool needsStrides = false; // those that it was exported with: the program reads its memory
};

/// A parameter, a buffer, or what was computed of them.
struct PackageConstant {
  std::string name;
  uint32_t blob = 0;
  ElementType type = ElementType::Float32;
  std::vector<int64_t> sizes, strides; // strides are not negative; the first element is the first of the blob
  bool isWritten = false;              // by programs: it keeps what a call leaves in it
};

/// Where an input of a program comes from.
struct InputSource {
  enum class Kind : uint8_t { Argument, Constant } kind = Kind::Argument;
  uint32_t index = 0;
};

/// The model compiled for one kind of machine.
struct Variant {
  std::string target;                // "x86-64-v3", "host", "sm_90a"
  std::vector<std::string> features; // that the processor must have, by the names of CpuFeatures.h
  std::string architecture;          // "x86_64", "aarch64", or "cuda"
  uint32_t program = 0;              // blob
  bool needsTorch = false;           // the program calls operators
  std::vector<InputSource> inputs;
  std::vector<uint32_t> packable;  // constants that are never written, which oneDNN may keep in an order of its own
  std::optional<uint32_t> sources; // blob of the user's lines behind the program's, see SourceLines.h
};

struct Package {
  std::string producer, torchVersion;
  std::string metadata; // JSON for Python: structure of arguments and results
  std::vector<Blob> blobs;
  std::vector<PackageInput> inputs;
  std::vector<PackageConstant> constants;
  std::vector<Variant> variants;
};

/// Reads header and index of a whole file. Any bytes are accepted; what is wrong comes back as a status whose text says
/// whether the file is no package, cut short, damaged, or made by a newer or older version.
Status readPackage(std::span<const uint8_t> file, Package &package);

/// Bytes of a blob; an error if they are not those that were written.
Status readBlob(std::span<const uint8_t> file, const Blob &blob, std::span<const uint8_t> &bytes);

/// Whether Python can read a text: UTF-8 without overlong forms or surrogates.
bool isUtf8(std::string_view text);

/// Bytes of an element.
size_t sizeOf(ElementType type);

} // namespace torch_tile::artifact
