// Whether a node works along an axis of an input: elements of its result hang on elements from elsewhere along it. Asked
// where a file is read with another batch, of the axis in which the samples lie, as they must stay apart. A rule may take
// for granted that the result has such an axis, too: where it is summed away or fixed, shapes show it.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

using Along = bool(Call&, int input, int64_t axis);

Along apart;        // no axis: element for element, moved as they are, or the axis is gone from the result
Along by_axis;      // attribute `axis` of the data; none is 0
Along by_classes;   // softmax: the axis, and before version 13 all behind it
Along by_window;    // the spatial axes
Along by_length;    // an axis that the result has in another length
Along merged;       // flatten: an axis that comes to lie inside of others
Along by_indices;   // gather_nd: the axes that the indices are for
Along by_steps;     // slice: backwards, or some are left out
Along by_pads;      // an axis that is padded or cut
Along by_scores;    // losses: the classes
Along by_rows;      // layer norm: the axis and all behind it
Along by_last;      // attribute `axis`; none is the last
Along by_sum;       // cumulative sums: the axis
Along by_triangle;  // the last two
Along by_sequence;  // all but the first

}  // namespace pock::onnx_frontend
