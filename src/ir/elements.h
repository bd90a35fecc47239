// The elements of a constant as text, and back.
#pragma once

#include <string>
#include <vector>

#include "pock/ir/graph.h"

namespace pock {

// Constants of at most this many elements stand in the text; the data of all others goes to a file beside it.
constexpr int64_t kInlineElements = 16;

// The shortest text that reads back as the same number; always told apart from an integer.
std::string number_text(double);
// One text an element, in logical order.
std::vector<std::string> element_texts(const Type&, const std::vector<std::byte>& data);
// False where a text is no number of the type. `texts` has one an element.
bool parse_elements(const Type&, const std::vector<std::string>& texts, std::vector<std::byte>* data);
bool parse_number(const std::string&, double*);
bool parse_number(const std::string&, int64_t*);

}  // namespace pock
