#include <lockstep/runtime/device.h>

#include <cstdio>

int main() { return std::printf("%s\n", lockstep::Device("cuda:1").name().c_str()) == 7 ? 0 : 1; }
