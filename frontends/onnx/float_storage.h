// How ONNX stores floats, and back: four element types, as raw bytes or in lists of the message.
//
//   std::string bytes = stored_bytes(tensor);            // as raw_data would hold them
//   float x = load_float(tensor.data_type(), bytes.data(), 3);
//   store_float(tensor.data_type(), x, bytes.data(), 3); // rounds to nearest, ties to even
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

namespace pock::onnx_frontend {

bool is_float_type(int onnx_type);  // float, double, float16, bfloat16

// Of a tensor of floats, wherever they are.
std::string stored_bytes(const onnx::TensorProto&);

// Element `i` of an array of elements of a float type.
float load_float(int onnx_type, const char* bytes, int64_t i);
void store_float(int onnx_type, float, char* bytes, int64_t i);

}  // namespace pock::onnx_frontend
