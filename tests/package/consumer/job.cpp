#include <lockstep/distributed/mpi.h>
#include <lockstep/lockstep.h>

int main() {
  const lockstep::World world = lockstep::mpi::join();
  lockstep::print("{} of {}\n", world.rank().value(), world.size());
}
