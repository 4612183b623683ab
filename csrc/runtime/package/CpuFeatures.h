// What the processor at hand can do, in the words of packages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch_tile::runtime {

/// "x86_64" or "aarch64".
const char *processorArchitecture();

/// Extensions of the instruction set that compiled kernels may use and this processor has, by GCC's names.
std::vector<std::string> processorFeatures();

/// Those that a processor must have to run code for `target` ("x86-64-v3", ...); false for an unknown name.
bool featuresOf(std::string_view target, std::vector<std::string> &features);

} // namespace torch_tile::runtime
