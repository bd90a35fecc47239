// Programs for machines without a system: where everything lies, and whether it fits.
#pragma once

#include <string>

#include "pock/codegen/compile.h"

namespace pock {

// The linker's script. It knows the RAM's end; what the flash holds is compared with its size afterwards.
std::string linker_script(const Board&);
// Bytes of the flash and of static data that a linked image takes.
ImageBytes image_bytes(const std::string& elf, const Board&);
// Throws Error, with the numbers, where the plan or the weights are more than the board has.
void check_plan_fits(const Program&);
// Likewise for the whole image.
void check_image_fits(const Program&);

}  // namespace pock
