# Finds what pock builds on, and says which Debian package brings it where one is missing.

# pock_need(NAME PACKAGE): stops with one clear line when find_package(NAME) found nothing.
function(pock_need name package)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "pock needs ${name}, which was not found. On Debian 12: apt-get install ${package}")
  endif()
endfunction()

find_package(fmt QUIET)
pock_need(fmt libfmt-dev)
find_package(CLI11 QUIET)
pock_need(CLI11 libcli11-dev)
find_package(nlohmann_json QUIET)
pock_need(nlohmann_json nlohmann-json3-dev)
find_package(GTest QUIET)
pock_need(GTest "libgtest-dev libgmock-dev")
find_package(Protobuf QUIET)  # before ONNX, whose targets name protobuf's
pock_need(Protobuf "libprotobuf-dev protobuf-compiler")
find_package(ONNX QUIET CONFIG)
pock_need(ONNX libonnx-dev)

find_program(LLVM_CONFIG llvm-config-19)
if(NOT LLVM_CONFIG)
  message(FATAL_ERROR "pock needs LLVM 19.1, which was not found. On Debian 12: apt-get install llvm-19-dev")
endif()
execute_process(COMMAND ${LLVM_CONFIG} --prefix OUTPUT_VARIABLE LLVM_PREFIX
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(LLVM 19.1 QUIET CONFIG PATHS ${LLVM_PREFIX} NO_DEFAULT_PATH)
pock_need(LLVM llvm-19-dev)
find_package(LLD QUIET CONFIG PATHS ${LLVM_PREFIX} NO_DEFAULT_PATH)
pock_need(LLD liblld-19-dev)
find_program(CLANG clang-19 HINTS ${LLVM_PREFIX}/bin)
if(NOT CLANG)
  message(FATAL_ERROR "pock needs clang 19 for its runtime, which was not found. On Debian 12: apt-get install clang-19")
endif()
