// Programs for machines without a system: where everything lies, and whether it fits.
#pragma once

#include <string>

#include "pock/codegen/compile.h"

namespace pock {

// The linker's script. The stack is the lowest of the RAM and grows down, so that nothing is written over where it should be
// too small. What the memories hold is compared with their sizes afterwards.
std::string linker_script(const Board&, int64_t stack);
// Bytes of the flash and of static data that a linked image takes, whose stack is known.
void measure_image(const std::string& elf, const Board&, ImageBytes*);
// Throws Error, with the numbers, where the plan or the weights are more than the board has.
void check_plan_fits(const Program&);
// Likewise for the whole image.
void check_image_fits(const Program&);

}  // namespace pock
