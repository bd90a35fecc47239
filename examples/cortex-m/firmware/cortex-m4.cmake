# clang and lld for a Cortex-M4 with its floating-point unit, and no C library: cmake -DCMAKE_TOOLCHAIN_FILE=cortex-m4.cmake
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_C_COMPILER_TARGET thumbv7em-none-eabihf)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m4 -ffreestanding")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fuse-ld=lld -nostdlib -static -Wl,--gc-sections")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # there is nothing that a program could be linked with
