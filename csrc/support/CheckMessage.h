// How the message of a Check says which error it is.
#pragma once

#include <string_view>

namespace torch_tile {

/// A message that begins so is raised as IndexError, without the beginning; any other as RuntimeError.
inline constexpr std::string_view indexErrorPrefix = "IndexError: ";

} // namespace torch_tile
