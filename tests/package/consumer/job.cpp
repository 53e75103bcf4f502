#include <lockstep/lockstep.h>
#include <lockstep/distributed/mpi.h>

int main() {
  const lockstep::World world = lockstep::mpi::join();
  lockstep::print("{} of {}\n", world.rank().value(), world.size());
}
