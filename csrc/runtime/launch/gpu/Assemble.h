// PTX to the code of one device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_tile::runtime {

/// Whether `code` is the text of PTX.
bool isPtx(const std::vector<uint8_t> &code);

/// Replaces PTX by a cubin for `architecture` ("sm_90"), in the process by nvJitLink, which CUDA builds of torch bring
/// along, else by a ptxas that is on the PATH or in CUDA_HOME. The launch note stays (artifact/LaunchNote.h). Where
/// neither is found the PTX stays, and the driver assembles it when it is loaded. Returns what the assembler said if it
/// refused.
std::string assemble(std::vector<uint8_t> &code, const std::string &architecture);

/// "nvJitLink", "ptxas" or "driver": who assembles in this process.
std::string assemblerName();

} // namespace torch_tile::runtime
