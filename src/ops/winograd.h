// Rules of OpDef::fewer_products.
#pragma once

#include "rules.h"

namespace pock {

Value* winograd_conv(Builder&, const Node& conv);
Value* winograd_conv_input_grad(Builder&, const Node& conv_input_grad);

}  // namespace pock
