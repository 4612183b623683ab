// The last line of a GPU kernel's code: how much shared memory its launch has to provide. The line is a comment in PTX
// and follows the sections of a cubin, where nothing reads it. So it goes wherever the code goes: a kernel that comes
// from a store without being compiled is launched as one that was.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace torch_tile::artifact {

/// In PTX, before a number of blocks of a multiprocessor: a directive behind a comment. It may be taken in where the
/// assembler, on its own, has given threads so few registers that loads wait for each other.
inline constexpr std::string_view launchBoundNote = "// .minnctapersm ";

/// Before the number of blocks for which there is shared memory. The directive may be taken in, for as many blocks or
/// fewer, where threads got so many registers that there is no room for these blocks.
inline constexpr std::string_view roomNote = "// if more fit: .minnctapersm ";

/// Likewise for a kernel that no products keep busy: it waits for memory and for its own results, so that a smaller
/// gain of blocks pays.
inline constexpr std::string_view waitingNote = "// if it waits less: .minnctapersm ";

/// The line for so many bytes; empty for none.
std::string launchNote(uint32_t sharedBytes);

/// The bytes that the last line of `code` names; 0 if it is no such line.
uint32_t sharedBytesOf(std::span<const uint8_t> code);

} // namespace torch_tile::artifact
