#include <lockstep/lockstep.h>

int main() { lockstep::print("{}\n", lockstep::ones({2, 3}) + lockstep::ones({2, 3})); }
