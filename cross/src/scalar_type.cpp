#include "scalar_type.hpp"

namespace reflexd {

using executorch::runtime::etensor::ScalarType;

ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return ScalarType::Byte;
    case DType::int32:
      return ScalarType::Int;
    case DType::int64:
      return ScalarType::Long;
    case DType::float32:
      return ScalarType::Float;
  }
  return ScalarType::Undefined;
}

std::string name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    default:
      return "scalar type " + std::to_string(static_cast<int>(type));
  }
}

}  // namespace reflexd
